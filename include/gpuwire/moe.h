/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe.h: dispatch and combine of a mixture of experts, whose experts live at many ranks. Part of
 * libgpuwire-collective.
 *
 * A router has chosen `top` experts for each token. Dispatch brings the tokens to the ranks of their experts.
 * Each rank's experts work on what came. Combine brings the results back, and adds them up by their weights.
 *
 *     struct gw_moe_io io = {.token = x, .expert = e, .weight = w, .result = y, .n = n, .inbox = box,
 *     .count = c};
 *
 *     gw_moe_create(comm, &shape, MAX_TOKENS, gw_deadline(LIMIT), &moe);
 *     gw_moe_dispatch(moe, &io, gw_deadline(LIMIT));
 *     … the experts replace what lies in box …
 *     gw_moe_combine(moe, &io, gw_deadline(LIMIT));
 *
 * Expert e lives at rank e / (experts / size). A rank sends at most `capacity` tokens to one expert: those
 * with the lowest numbers. Others are dropped for this expert, and their result lacks its part. An expert
 * number that is none (-1, say) sends the token nowhere.
 *
 * inbox has the shape [experts / size][size][capacity][hidden]: for each expert of this rank and each
 * rank, its tokens in their order. count has the shape [experts / size][size]: how many they are. What
 * lies after them is not touched.
 *
 * The calls are collectives (gpuwire/collective.h). All ranks make them together; buffers, errors,
 * deadlines, threads and memory order are as there. Each rank may bring another number of tokens. The same
 * functions for kernels are at the end; the blocks of the grid call them together.
 */
#ifndef GPUWIRE_MOE_H
#define GPUWIRE_MOE_H

#include <gpuwire/collective.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_moe;
struct gw_moe_handle;

/* The same at all ranks. */
struct gw_moe_shape {
    uint32_t experts;  /* of all ranks together: a multiple of the communicator's size, at most 65,536 */
    uint32_t top;      /* experts of a token: 1 to 64 */
    uint32_t capacity; /* tokens that a rank sends to an expert at most */
    uint32_t hidden;   /* elements of a token */
    uint32_t dtype; /* GW_DTYPE_F32, F16 or BF16. Weighted sums are made in fp32, in the order of `expert` */
};

/* Addresses are the executor's. */
struct gw_moe_io {
    const void *token;     /* [n][hidden] */
    const int32_t *expert; /* [n][top] */
    const float *weight;   /* [n][top]; combine alone */
    void *result;          /* [n][hidden]; combine alone */
    void *inbox;
    uint32_t *count; /* dispatch alone */
    uint32_t n;      /* tokens of this rank; combine: the same as dispatch */
};

/*
 * Allocates and registers the working memory for up to `tokens` tokens of this rank, the same number at
 * all ranks. All members of the communicator call it. Returns 0; -EINVAL: the shape makes no sense; else as
 * gw_comm_register.
 */
GW_API int gw_moe_create(struct gw_comm *comm, const struct gw_moe_shape *shape, uint32_t tokens,
                         uint64_t deadline_ns, struct gw_moe **out);
/* Frees it, before its communicator; after a gw_barrier. NULL is allowed. */
GW_API void gw_moe_destroy(struct gw_moe *moe);

/* Launches one kernel and waits for its end. -EINVAL: more tokens than it was made for; else as
 * gw_allreduce. */
GW_API int gw_moe_dispatch(struct gw_moe *moe, const struct gw_moe_io *io, uint64_t deadline_ns);
/* The same, for the tokens of the last dispatch. Returns as gw_moe_dispatch. */
GW_API int gw_moe_combine(struct gw_moe *moe, const struct gw_moe_io *io, uint64_t deadline_ns);

/* The handle as the executor addresses it: pass it to kernels. */
GW_API struct gw_moe_handle *gw_moe_handle(const struct gw_moe *moe);

#ifdef __cplusplus
}
#endif

/* For every thread of every block of the team. They sync the team before and after, as gw_coll_allreduce
 * does, and return as gw_coll_run. */
GW_DEV int gw_moe_send(const struct gw_team *team, struct gw_moe_handle *moe, const struct gw_moe_io *io,
                       uint64_t deadline_ns);
GW_DEV int gw_moe_return(const struct gw_team *team, struct gw_moe_handle *moe, const struct gw_moe_io *io,
                         uint64_t deadline_ns);

#include <gpuwire/detail/collective/moe.h>

#endif
