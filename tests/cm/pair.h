/* SPDX-License-Identifier: Apache-2.0 */
/* pair.h: a connection between the two ends of a net, for the tests of a file. */
#ifndef TESTS_CM_PAIR_H
#define TESTS_CM_PAIR_H

#include "tests/cm/net.h"

static struct net net;

struct pair {
    struct cm_id *listener, *client, *server;
};

static inline struct pair connect_pair(struct net *n)
{
    struct pair p = {.listener = net_listener(n, 0, RDMA_PS_TCP)};
    struct rdma_ucm_event_resp e;

    p.client = net_resolved(n, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(p.client, 0x290001, "hello"), 0);
    e = net_event(n, 0, CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(e.uid, 500);
    assert_int_equal(e.param.conn.private_data_len, 56);
    assert_memory_equal(e.param.conn.private_data, "hello", 6);
    assert_int_equal(e.param.conn.qp_num, 0x290001);
    /* One end may begin as many as the other has to answer. */
    assert_int_equal(e.param.conn.responder_resources, 5);
    assert_int_equal(e.param.conn.initiator_depth, 3);
    assert_int_equal(e.ece.vendor_id, 0x15b3);
    assert_int_equal(e.ece.attr_mod, 7);
    p.server = cm_id_find(&n->ends[0].cm, &n->ends[0].file, e.id);
    assert_non_null(p.server);
    assert_int_equal(net_accept(p.server, 700, 0x280002, "welcome"), 0);
    e = net_event(n, 1, CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(e.uid, 600);
    assert_int_equal(e.param.conn.private_data_len, 196);
    assert_memory_equal(e.param.conn.private_data, "welcome", 8);
    assert_int_equal(net_ready(p.client), 0);
    e = net_event(n, 0, CM_EVENT_ESTABLISHED);
    assert_int_equal(e.uid, 700);
    assert_int_equal(p.client->state, CM_ESTABLISHED);
    return p;
}

static inline void disconnect_pair(struct net *n, struct pair *p)
{
    assert_int_equal(cm_disconnect(p->client), 0);
    assert_int_equal(net_event(n, 0, CM_EVENT_DISCONNECTED).uid, 700);
    assert_int_equal(cm_disconnect(p->server), 0);
    assert_int_equal(net_event(n, 1, CM_EVENT_DISCONNECTED).status, 0);
    net_event(n, 0, CM_EVENT_TIMEWAIT_EXIT);
    net_event(n, 1, CM_EVENT_TIMEWAIT_EXIT);
}

#endif
