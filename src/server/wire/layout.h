/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tensors of a slot lie: see wire.h. Everyone that fills or reads a slot asks here: the worker's
 * host side and its kernels, the client, and the doors. */
#ifndef GW_SERVER_WIRE_LAYOUT_H
#define GW_SERVER_WIRE_LAYOUT_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>
#include <gpuwire/model.h>

#include "src/server/wire/wire.h"

#define GW_LAYOUT_MAX_BYTES (UINT32_MAX / 2u) /* of a slot: one RDMA message carries it */

/* The inputs, or the outputs, of a model. */
struct gw_layout {
    uint32_t tensors;
    /* how many of them are not batched: they are there once, however many rows there are */
    uint32_t unbatched;
    struct gw_layout_tensor {
        uint64_t bytes; /* of one row; of the whole tensor when it is not batched */
        uint64_t batched;
    } tensor[GW_MODEL_MAX_IO];
};

/* Bytes of tensor i with `rows` rows. */
GW_FN uint64_t gw_layout_tensor_bytes(const struct gw_layout *l, uint32_t i, uint64_t rows)
{
    return l->tensor[i].bytes * (l->tensor[i].batched ? rows : 1);
}

/* Where tensor i begins, counted from the end of the header. i may be the number of tensors: where the next
 * one would begin. */
GW_FN uint64_t gw_layout_offset(const struct gw_layout *l, uint32_t i, uint64_t rows)
{
    uint64_t at = 0;
    for (uint32_t k = 0; k < i; k++) {
        uint64_t end = at + gw_layout_tensor_bytes(l, k, rows);
        at = (end + GW_SERVE_ALIGN - 1) / GW_SERVE_ALIGN * GW_SERVE_ALIGN;
    }
    return at;
}

/* All that follows the header: it ends where the last tensor does. */
GW_FN uint64_t gw_layout_bytes(const struct gw_layout *l, uint64_t rows)
{
    uint32_t last = l->tensors - 1;
    return l->tensors ? gw_layout_offset(l, last, rows) + gw_layout_tensor_bytes(l, last, rows) : 0;
}

/* Appends a tensor to a layout that began all zero, for slots of up to `rows` rows. 0; -E2BIG: more tensors
 * than a model may have; -EFBIG: the slot would be larger than GW_LAYOUT_MAX_BYTES. */
GW_FN int gw_layout_add(struct gw_layout *l, uint64_t bytes, uint32_t batched, uint32_t rows)
{
    if (l->tensors == GW_MODEL_MAX_IO) return -E2BIG;
    if (bytes > GW_LAYOUT_MAX_BYTES / (batched && rows ? rows : 1)) return -EFBIG;
    l->tensor[l->tensors].bytes = bytes;
    l->tensor[l->tensors].batched = batched;
    l->tensors++;
    l->unbatched += !batched;
    return gw_layout_bytes(l, rows) > GW_LAYOUT_MAX_BYTES - sizeof(struct gw_serve_request) ? -EFBIG : 0;
}

/* The layout of a model's inputs (output 0) or outputs (1); as gw_layout_add. */
static inline int gw_layout_of_model(const struct gw_model *model, int output, uint32_t rows,
                                     struct gw_layout *l)
{
    uint32_t n = output ? gw_model_outputs(model) : gw_model_inputs(model);
    int err = 0;
    memset(l, 0, sizeof(*l));
    for (uint32_t i = 0; !err && i < n; i++) {
        const struct gw_tensor_info *t = output ? gw_model_output(model, i) : gw_model_input(model, i);
        err = gw_layout_add(l, t->bytes, t->batched, rows);
    }
    return err;
}

#endif
