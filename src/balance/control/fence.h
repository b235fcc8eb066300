/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.h: keeps the kernel's hands off the balancer's packets.
 *
 * The kernel sees each packet that comes by an interface of af_packet. With net.ipv4.ip_forward it would
 * forward clients' packets, and workers' answers of NAT, a second time. If it has the VIP itself (VRRP), it
 * would refuse the services' connections. A table of nftables of the balancer's own drops these packets in
 * the kernel, and no others. It goes when the data plane ends.
 */
#ifndef GW_BALANCE_CONTROL_FENCE_H
#define GW_BALANCE_CONTROL_FENCE_H

#include "src/balance/control/config.h"
#include "src/balance/services.h"

struct gw_bal_fence {
    const struct gw_bal_global *global;
    unsigned index; /* of the first such interface; 0: there is none, and no fence */
    char *rules;    /* that are in force; NULL: none */
    int told;       /* that there can be none */
};

/* Before a data plane is started. A negative errno: these services need a fence, and there can be none.
 * gw_last_error() says what to do. */
int gw_bal_fence_check(const struct gw_bal_global *g, const struct gw_bal_model *m);
void gw_bal_fence_open(struct gw_bal_fence *f, const struct gw_bal_global *g);
/* The fence is what this configuration needs. When that fails, a line on stderr says so once. */
void gw_bal_fence_set(struct gw_bal_fence *f, const struct bal_config *c);
void gw_bal_fence_close(struct gw_bal_fence *f);

#endif
