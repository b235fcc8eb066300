/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels in GPUnet's words. */
#ifndef GW_TESTS_SOCKET_GPUNET_KERNELS_H
#define GW_TESTS_SOCKET_GPUNET_KERNELS_H

#include <gpuwire/gpunet_compat.h>

#define GN_BYTES    5000
#define GN_MESSAGES 20
#define GN_RESULTS  32

enum gpunet_role { GN_SERVER, GN_CLIENT, GN_CALLS, GN_BOTH /* block 0 serves, the others are clients */ };

struct gpunet_args {
    struct gpunet *gpunet;
    struct sockaddr_in addr;
    uint32_t role, connections; /* connections: that a server answers */
    int32_t *result;            /* GN_RESULTS per block */
    int32_t n;                  /* bytes of a UNIX socket's name */
    char name[32];
};

/* Launched by name. */
struct gpunet_mark_args {
    int32_t *to;
    int32_t value;
};

#endif
