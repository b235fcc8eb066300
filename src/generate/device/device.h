/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host calls to set the scheduler up: how much memory it needs, and where in it things lie.
 *
 *     gen_device_bytes(&shape, &bytes);
 *     ... two pieces of zeroed memory: bytes.host (GW_MEM_HOST), bytes.dev (GW_MEM_DEVICE) ...
 *     gen_device_place(&shape, host.dev, dev.dev, &args, &step);
 *     ... gw_copy_in(exec, args.step, &step, sizeof(step)); the network's bind may name another step ...
 *     ... args.ctl, cq, logits, logit_stride, wake_fd; each session's first part, by gw_copy_in ...
 *     ... loop: gen_turn (one block), then the network's stages, then gen_sampling (`lanes` blocks) ...
 *
 * With `picks` the network's stages and gen_sampling are those of variant i + 1 for size i. Without it they
 * are common ones.
 */
#ifndef GW_GENERATE_DEVICE_DEVICE_H
#define GW_GENERATE_DEVICE_DEVICE_H

#include "src/generate/device/shared.h"

struct gen_device_shape {
    uint32_t sessions; /* GEN_MAX_SESSIONS at most */
    uint32_t slots;    /* of a session: GEN_MAX_SLOTS at most */
    uint32_t depth;    /* events of a session that may be under way: WQEs of its send queue */
    uint32_t requests; /* that wait or run, at most; further ones end GEN_FULL */
    uint32_t lanes;    /* GEN_MAX_LANES at most */
    uint32_t pages;    /* of the cache */
    uint32_t context;  /* tokens of prompt and answer */
    uint32_t vocab;
    uint32_t size[GEN_NET_SIZES], sizes; /* as in gen_net_shape; GEN_MAX_ROWS at most */
    uint32_t mixed_rows; /* of a step in which some lane makes tokens, at most; 0: the largest size */
    bool fixed;          /* gen_net_shape.fixed_lanes: then pages is lanes * the pages of `context` */
    bool picks;
    uint64_t secret; /* from getrandom */
};

struct gen_device_bytes {
    uint64_t host, dev;
};

GW_KERNEL_DECLARE(gen_turn);     /* struct gen_args; one block of any number of threads */
GW_KERNEL_DECLARE(gen_sampling); /* struct gen_args; `lanes` blocks of any number of threads */

/* 0, or -EINVAL with the number that is out of bounds in gw_last_error(). Any thread. */
int gen_device_bytes(const struct gen_device_shape *s, struct gen_device_bytes *bytes);

/* Fills *args but for what the comment above names, and *step with addresses. host, dev: as kernels see them.
 * The shape has passed gen_device_bytes. Any thread. */
void gen_device_place(const struct gen_device_shape *s, void *host, void *dev, struct gen_args *args,
                      struct gen_step *step);

/* Entries of the completion queue that `a->cq` needs. */
uint64_t gen_device_cqes(const struct gen_args *a);

/*
 * Tells the kernel to look at a session's notice, whose word or ask was just release-stored. board and change
 * as the host sees them. Returns false when the list is full: the kernel is slow, call again later. One
 * thread at a time. On CPU threads the caller then makes wake_fd readable.
 */
bool gen_device_tell(struct gen_board *board, uint32_t *change, uint32_t mask, uint32_t session);

/*
 * Accounts for every page, lane and request: NULL, or what is not so. For tests, on CPU threads, between two
 * turns. It takes time in proportion to all there is.
 */
const char *gen_sound(const struct gen_args *a);

#endif
