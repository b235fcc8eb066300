/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded under librdmacm's datagram rsockets. They make address handles to themselves without a GRH.
 * InfiniBand allows that and RoCE does not, so libmlx5 refuses them, and no datagram rsocket works over
 * Ethernet. Such a handle gets the port's own GID here, which is what it means. The rest of librdmacm is as
 * it is.
 */
#include <dlfcn.h>

#include <infiniband/verbs.h>

__attribute__((visibility("default"))) struct ibv_ah *ibv_create_ah(struct ibv_pd *pd,
                                                                    struct ibv_ah_attr *attr)
{
    struct ibv_ah *(*real)(struct ibv_pd *, struct ibv_ah_attr *);
    struct ibv_ah_attr a = *attr;

    *(void **)&real = dlvsym(RTLD_NEXT, "ibv_create_ah", "IBVERBS_1.1");
    if (!real) return NULL;
    if (!a.is_global) {
        a.is_global = 1;
        a.grh.hop_limit = 64;
        if (ibv_query_gid(pd->context, a.port_num, 0, &a.grh.dgid)) return NULL;
    }
    return real(pd, &a);
}
