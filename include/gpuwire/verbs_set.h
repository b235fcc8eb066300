/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_set.h: queue pairs by the rank of the peer that each leads to. Included by verbs_device.h.
 *
 * A program with many peers numbers them, gives its kernels one set (gw_qp_set_create, verbs.h), and a kernel
 * asks for the queue pair to a rank: gw_qp_to(set, rank, i). Where several warps or blocks talk to one peer,
 * each may have a queue pair of its own there: `each` of them to each rank, numbered from 0.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_VERBS_SET_H
#define GPUWIRE_VERBS_SET_H

/* A set as kernels see it. */
struct gw_qp_set_handle {
    uint32_t size, version;
    uint32_t ranks, each;
    __extension__ struct gw_qp_handle *qp[]; /* rank * each + i */
};

/*
 * Queue pair i of those to that rank; NULL: there is none, or no such rank or number. Any thread, any number
 * of them at once; it reads what the host wrote before the kernel started, and orders nothing.
 */
GW_FN struct gw_qp_handle *gw_qp_to(const struct gw_qp_set_handle *set, uint32_t rank, uint32_t i)
{
    return rank < set->ranks && i < set->each ? set->qp[(uint64_t)rank * set->each + i] : NULL;
}

#endif
