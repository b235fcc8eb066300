/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that is gpuwire cat's end of a connection: it makes one call on a socket. */
#ifndef GW_CLI_CAT_KERNELS_H
#define GW_CLI_CAT_KERNELS_H

#include <gpuwire/socket.h>

enum cat_op {
    CAT_OPEN,
    CAT_BIND,
    CAT_LISTEN,
    CAT_ACCEPT,
    CAT_CONNECT,
    CAT_SEND,
    CAT_RECV,
    CAT_SHUT,
    CAT_CLOSE,
    CAT_NAME,
    CAT_PEER
};

struct cat_args {
    struct gw_net *net;
    uint32_t op; /* enum cat_op */
    int32_t s;
    uint64_t n, limit_ns; /* bytes; what the call may take */
    uint8_t *bytes;
    int64_t *result;
    struct sockaddr_storage addr;
    socklen_t len;
    struct sockaddr *name; /* NAME, PEER: where to; *name_len of them */
    socklen_t *name_len;
};

#endif
