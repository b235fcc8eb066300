/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that speaks as riostream does: direct writes into each other's memory. */
#ifndef GW_TESTS_SOCKET_RIO_KERNELS_H
#define GW_TESTS_SOCKET_RIO_KERNELS_H

#include <gpuwire/socket.h>

/*
 * Does with a connection what riostream -T v does. Both sides offer `size` bytes at offset 0 and say 16
 * bytes; then each in turn, the client first, writes `count` times all of the other one's memory. The last
 * byte of the last time is a number that counts these turns, and the other side looks for it. Before it, byte
 * i of all that a side has written is i mod 256.
 */
struct rio_args {
    struct gw_net *net;
    struct sockaddr_in addr; /* of the server */
    uint32_t server, size, iterations, count, form, rkey;
    uint64_t limit_ns, window_addr; /* as the NIC knows the window */
    uint8_t *window;                /* size bytes, which the peer writes to */
    uint8_t *buffer;                /* size bytes, 16 at least */
    int64_t *result;                /* 0, or an error */
};

#endif
