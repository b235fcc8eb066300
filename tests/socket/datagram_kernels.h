/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that exchange datagrams over RDMA: one echoes, as udpong's server, the other asks, as its
 * client. */
#ifndef GW_TESTS_RD_KERNELS_H
#define GW_TESTS_RD_KERNELS_H

#include "tests/socket/meet.h"

enum {
    DATAGRAM_OP_ECHO = 3,
    DATAGRAM_OP_END = 4,
    DATAGRAM_CONTROL = 16,
    MAX_DATAGRAM = 1536 /* udpong's: its operations, in the first byte */
};

struct datagram_out {
    int64_t err;
    uint32_t done, repeats; /* datagrams; those that were sent again, for want of an answer */
    uint32_t posted;        /* by the kernel itself */
    uint32_t dropped;
};

struct datagram_args {
    struct gw_net *net;
    struct sockaddr_in addr; /* the server's */
    uint32_t roles;          /* by block: 1: serves, 2: asks; 4 bits each */
    uint32_t form, connect, count;
    uint64_t limit_ns;
    uint64_t silence_ns;      /* after which the server ends */
    struct datagram_out *out; /* by block */
};

#endif
