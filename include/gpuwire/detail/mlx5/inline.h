/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inline.h: payload that lies in the send queue itself. Included by mlx5.h, which says where it is from.
 */
#include <gpuwire/mlx5.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_MLX5_INLINE_H
#define GPUWIRE_DETAIL_MLX5_INLINE_H

/* Words on their way into a queue, four to a store. A shift register, so that a GPU keeps it in registers. */
struct gw_mlx5_words {
    uint32_t unit; /* where the next four go */
    uint32_t count;
    struct gw_u128 last;
};

GW_FN void gw_mlx5_push(const struct gw_mlx5_sq *sq, struct gw_mlx5_words *q, uint32_t word)
{
    q->last.w[0] = q->last.w[1];
    q->last.w[1] = q->last.w[2];
    q->last.w[2] = q->last.w[3];
    q->last.w[3] = word;
    if ((++q->count & 3) == 0) gw_mlx5_put(sq, q->unit++, q->last);
}

/* Few bytes, to any address. */
GW_FN void gw_mlx5_copy_(uint8_t *to, const uint8_t *from, uint32_t n)
{
    for (; n >= 16; n -= 16, to += 16, from += 16) memcpy(to, from, 16);
    if (n & 8) memcpy(to, from, 8), to += 8, from += 8;
    if (n & 4) memcpy(to, from, 4), to += 4, from += 4;
    if (n & 2) memcpy(to, from, 2), to += 2, from += 2;
    if (n & 1) *to = *from;
}

/* As gw_mlx5_put_inline, where all of it lies in front of the queue's end and stores may go anywhere. */
GW_FN void gw_mlx5_put_inline_flat_(uint8_t *to, const struct gw_mlx5_sge *sge, uint32_t num_sge,
                                    uint32_t total, uint32_t units)
{
    struct gw_u128 zero = {{0, 0, 0, 0}};
    uint32_t header = gw_be32(total | 0x80000000u), i;

    gw_store16(to + (units - 1) * GW_MLX5_UNIT, zero); /* the padding, and more */
    memcpy(to, &header, sizeof(header));
    to += sizeof(header);
    for (i = 0; i < num_sge; to += sge[i++].length)
        gw_mlx5_copy_(to, (const uint8_t *)(uintptr_t)sge[i].addr, sge[i].length);
}

/* Copies the entries' bytes after an inline header of `total` bytes, zero-padded, unit by unit across the
 * end. */
GW_FN void gw_mlx5_put_inline(const struct gw_mlx5_sq *sq, uint32_t unit, const struct gw_mlx5_sge *sge,
                              uint32_t num_sge, uint32_t total)
{
    uint32_t units = (total + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT, all = sq->wqebbs * GW_MLX5_UNITS_PER_BB;
    struct gw_mlx5_words q = {unit, 0, {{0, 0, 0, 0}}};
    uint32_t word = 0, bits = 0, i, k;

    if (GW_UNALIGNED_STORES && (unit & (all - 1)) + units <= all) {
        gw_mlx5_put_inline_flat_((uint8_t *)gw_mlx5_sq_at(sq, unit), sge, num_sge, total, units);
        return;
    }
    gw_mlx5_push(sq, &q, gw_be32(total | 0x80000000u));
    for (i = 0; i < num_sge; i++) {
        const uint8_t *src = (const uint8_t *)(uintptr_t)sge[i].addr;

        for (k = 0; k < sge[i].length;) {
            if (!bits && sge[i].length - k >= 4) { /* whole words, as long as the entries' ends allow */
                memcpy(&word, src + k, 4);
                bits = 32;
                k += 4;
            } else {
                word |= (uint32_t)src[k++] << bits;
                bits += 8;
            }
            if (bits < 32) continue;
            gw_mlx5_push(sq, &q, word);
            word = bits = 0;
        }
    }
    if (bits) gw_mlx5_push(sq, &q, word);
    while (q.count & 3) gw_mlx5_push(sq, &q, 0);
}

#endif
