/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h: the data plane on DPDK's drivers. One core for each queue, each runs to completion.
 */
#ifndef GW_SRC_BALANCE_RUN_H
#define GW_SRC_BALANCE_RUN_H

#include "src/balance/services.h"

/*
 * The devices, in the order of bal_config.port: "af_packet:eth0", "af_xdp:eth0", "tap:tap0",
 * "pcap:IN.pcap,OUT.pcap"
 * ("pcap:IN.pcap" sends nowhere), or a PCI address such as "0000:17:00.0" (mlx5, and whatever else DPDK
 * drives).
 */
struct bal_run {
    const char *device[BAL_PORTS];
    uint16_t mtu[BAL_PORTS]; /* of IP; 0: 1500 */
    uint32_t devices;
    /* processors, as taskset -c takes them; NULL: the first ones. As many as bal_attr.cores */
    const char *cores;
    bool huge_pages;    /* else: ordinary memory. It is slower, and gw_balance_run says so once on stderr */
    uint32_t memory_mb; /* for packets; 0: what the queues need */
    uint32_t buffers;   /* for packets, beyond what the queues need: pcap-loop keeps its whole file in them */
    void (*started)(void *arg); /* called when packets flow; NULL is allowed */
    void *arg;
};

/*
 * Runs until bal_stop. Once in a process' life: DPDK cannot start twice. Returns 0, or a negative errno with
 * one line in `error`. -ENOTSUP: gpuwire was built without DPDK. -ENODEV, -EPERM, -EINVAL, -ENOMEM: as the
 * line says.
 */
int gw_balance_run(struct bal *bal, const struct bal_run *how, char *error, size_t size);

/* Does this build have DPDK? */
bool gw_balance_has_dpdk(void);

#endif
