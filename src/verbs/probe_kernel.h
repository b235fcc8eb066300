/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that posts to a queue pair which is connected to itself, and says how far it got. */
#ifndef GW_VERBS_PROBE_KERNEL_H
#define GW_VERBS_PROBE_KERNEL_H

#include <gpuwire/verbs_device.h>

enum gw_probe_step {
    GW_PROBE_BEGUN = 0,
    GW_PROBE_POSTED,    /* no completion came: the NIC has not heard the ring, or cannot write the queue */
    GW_PROBE_COMPLETED, /* one did, though perhaps with an error */
    GW_PROBE_LOOPED,    /* a WRITE from host memory to host memory arrived */
    GW_PROBE_SAW,       /* … and one to the memory in question and back, which the kernel sees there */
};

enum gw_probe_masked { GW_PROBE_UNTRIED = 0, GW_PROBE_TAKEN, GW_PROBE_REFUSED };

/* In mapped host memory. The NIC reads and writes the words; the rest is the kernel's. */
struct gw_probe_page {
    uint64_t out, back; /* the value, and what has come of it */
    uint32_t step;      /* enum gw_probe_step: the last one that was reached */
    uint32_t status;    /* enum ibv_wc_status of the last completion */
    uint32_t masked;    /* enum gw_probe_masked: what became of a masked atomic */
};

struct gw_probe_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq;
    struct gw_probe_page *page;
    uint64_t page_at; /* as the region names it */
    uint32_t page_key, page_rkey;
    uint64_t *memory; /* a word of the memory in question; NULL: none is */
    uint32_t memory_key, memory_rkey;
    uint64_t value, limit_ns;
    uint32_t masked; /* 1: try a masked atomic, too */
};

#endif
