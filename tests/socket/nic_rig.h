/* SPDX-License-Identifier: Apache-2.0 */
/* Each test with a set of its own, on a software NIC at an address of the process' own: RDMA and the host's
 * sockets. */
#ifndef GW_TESTS_SOCKET_NIC_RIG_H
#define GW_TESTS_SOCKET_NIC_RIG_H

#include <gpuwire/verbs.h>

#include "tests/socket/own_nic.h"
#include "tests/socket/proxy_rig.h"

static struct gw_device *dev;
static struct sockaddr_in here; /* the NIC's */

/* Once, before anything is opened. */
static inline void take_nic(void)
{
    here = own_addr(1, 0);
    own_nic(&here, ",hostile=1");
}

static inline int begin_with(const struct gw_sockets_attr *attr)
{
    if (gw_device_open("softnic", exec, &dev) || gw_sockets_create(dev, attr, &set)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return -1;
    }
    net = gw_sockets_net(set);
    return 0;
}

static inline int begin_set(uint32_t buffer)
{
    struct gw_sockets_attr attr = {.count = COUNT, .rbuf = buffer, .wbuf = buffer};

    return begin_with(&attr);
}

static inline int finish_set(void **state)
{
    (void)state;
    return gw_sockets_destroy(set) || gw_device_close(dev);
}

#endif
