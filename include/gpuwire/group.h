/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h: one thread, one warp or one block that makes a call together.
 *
 * Calls on channels and sockets come in three forms. The *block* form has the plain name. Every thread of the
 * block calls it, at the same place and with the same arguments, and gets the same result. Every thread of
 * one warp calls the _warp form, and one thread the _thread form. Several warps or threads of a block may do
 * so at a time. The group's first thread does the control work, and all its threads copy bytes.
 *
 * Every thread of the group calls the functions here, with the same g. On a CPU thread outside a kernel the
 * three groups are the same: one thread. These functions order no memory unless their comments say so. Sizes
 * are bytes.
 */
#ifndef GPUWIRE_GROUP_H
#define GPUWIRE_GROUP_H

#include <gpuwire/kernel.h>

enum gw_group { GW_THREAD = 0, GW_WARP = 1, GW_BLOCK = 2 };

/* This thread's place in its group, from 0. */
GW_DEV uint32_t gw_group_rank(enum gw_group g);

/* How many threads the group has. */
GW_DEV uint32_t gw_group_size(enum gw_group g);

/* Waits for the group's threads. Afterwards each of them sees what the others did before. */
GW_DEV void gw_group_sync(enum gw_group g);

/* Returns the first thread's value to every thread. It is a sync, too: what the first thread did and saw
 * before is visible to all. */
GW_DEV uint64_t gw_group_first(enum gw_group g, uint64_t value);

/* The same with two values: the first thread's *also goes to every thread's *also. */
GW_DEV uint64_t gw_group_first_two(enum gw_group g, uint64_t value, uint64_t *also);

/* The same with three values, which every thread gets in its own array. */
GW_DEV void gw_group_first_three(enum gw_group g, uint64_t value[3]);

/*
 * This thread's share of a copy of n bytes by `size` threads, of which it is number `rank`. Any thread. On a
 * GPU neighbouring threads move neighbouring words, 16 or 4 bytes each when both addresses allow it; each CPU
 * thread moves a stretch of its own. It orders nothing: a sync must follow before others use the bytes.
 */
GW_FN void gw_copy_share(void *to, const void *from, uint64_t n, uint32_t rank, uint32_t size);

/* gw_copy_share to a place that another processor has read and will read next: a CPU thread copies past its
 * caches where that is faster. Later stores of the thread are ordered after it. */
GW_FN void gw_copy_share_away(void *to, const void *from, uint64_t n, uint32_t rank, uint32_t size);

#include <gpuwire/detail/exec/group.h>

#endif
