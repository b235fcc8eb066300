/* SPDX-License-Identifier: Apache-2.0 */
/* peers_rig.h: the rig on two NICs that are peers of one host, for tests of what they do without packets. */
#ifndef TESTS_SOFTNIC_PEERS_RIG_H
#define TESTS_SOFTNIC_PEERS_RIG_H

#include "tests/softnic/fake_peers.h"
#include "tests/softnic/rig.h"

static struct fake_peers peers;
static struct rig r;

/* Not connected yet. o: what else is different, or NULL. */
static inline void peers_rig_up(const struct world_options *o)
{
    struct world_options with = o ? *o : (struct world_options){.seed = 1};

    fake_peers_up(&peers, 5);
    with.peers = &peers;
    rig_up(&r, &with);
}

static inline void peers_rig_connected(const struct world_options *o)
{
    peers_rig_up(o);
    rig_connect(&r);
    rig_fill(&r);
}

/* No node is inside another's memory, and none is announced any more. */
static inline void down(void)
{
    rig_down(&r);
    assert_false(fake_peers_inside(&peers));
    for (unsigned i = 0; i < FAKE_NODES; i++) {
        for (unsigned k = 0; k < FAKE_REGIONS; k++) assert_int_equal(peers.node[i].region[k].key, 0);
        for (unsigned k = 0; k < FAKE_QUEUES; k++) assert_int_equal(peers.node[i].queue[k].qpn, 0);
    }
}

#endif
