/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a send and as a receive queue. The first 8 bytes choose size, place and limits; the rest is
 * the queue's memory, in a block of its exact size. Half of the inputs get a control segment with the right
 * index and queue pair, so that the fuzzer needs not find those first.
 */
#include <stdlib.h>
#include <string.h>

#include "src/mlx5/wqe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { QPN = 0x123456 };

static void require(bool ok)
{
    if (!ok) abort();
}

static void fuzz_send(uint8_t *queue, uint32_t wqebbs, uint16_t index, uint32_t avail, uint32_t ds_limit,
                      enum gw_mlx5_form form)
{
    const struct gw_mlx5_wqe_at at = {queue, wqebbs, QPN, index, avail, ds_limit, form};
    static struct gw_mlx5_wqe w, copy;
    struct gw_mlx5_bind bind;
    struct gw_mlx5_piece piece;
    uint32_t unit = 0, pieces = 0;
    uint64_t total = 0;
    int n;

    memset(&w, 0xee, sizeof(w));
    n = gw_mlx5_wqe_parse(&w, &at);
    require((n < 0) == (w.why != GW_MLX5_OK) && strcmp(gw_mlx5_why_text(w.why), "unknown reason"));
    if (n < 0) return;
    require(n >= 1 && n <= 16 && (uint32_t)n <= avail && w.ds <= ds_limit && n == w.wqebbs);
    if (w.opcode == GW_MLX5_UMR) require(gw_mlx5_wqe_bind(&w, &bind) == 0);
    memset(&copy, 0xdd, sizeof(copy)); /* a copy of what matters is as good as the whole */
    memcpy(&copy, &w, gw_mlx5_wqe_size(&w));
    while (gw_mlx5_wqe_piece(&copy, &unit, &piece)) {
        require(piece.length > 0);
        if (piece.inl) require(piece.inl >= copy.raw && piece.inl + piece.length <= copy.raw + copy.ds * 16);
        total += piece.length;
        pieces++;
    }
    require(total == w.length && pieces == w.pieces);
}

static void fuzz_receive(const uint8_t *queue, uint32_t wqes, uint32_t stride, uint32_t index, bool shared)
{
    uint16_t next;
    static struct gw_mlx5_rwqe r;
    struct gw_mlx5_piece piece;
    uint32_t unit = 0, pieces = 0;
    uint64_t total = 0;
    int n = shared ? gw_mlx5_srq_wqe_parse(&r, queue, wqes, stride, index, &next)
                   : gw_mlx5_rwqe_parse(&r, queue, wqes, stride, index);

    require((n < 0) == (r.why != GW_MLX5_OK));
    if (n < 0) return;
    while (gw_mlx5_rwqe_piece(&r, &unit, &piece)) {
        require(piece.length > 0 && !piece.inl);
        total += piece.length;
        pieces++;
    }
    require(total == r.length && pieces == r.pieces && (int)pieces == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t wqebbs, bytes, log_stride;
    uint16_t index;
    uint8_t *queue;

    if (size < 8) return 0;
    wqebbs = 1u << (data[0] & 7);
    bytes = wqebbs * GW_MLX5_WQEBB;
    index = (uint16_t)(data[2] << 8 | data[3]);
    queue = aligned_alloc(64, bytes);
    require(queue != NULL);
    memset(queue, 0, bytes);
    memcpy(queue, data + 8, size - 8 < bytes ? size - 8 : bytes);
    if (data[0] & 0x80) {
        struct gw_mlx5_sq sq = {queue, wqebbs, QPN};

        gw_mlx5_put(&sq, index * 4u, gw_mlx5_ctrl(data[4], index, QPN, data[5], data[6], data[7]));
    }
    for (int form = 0; form < 3; form++)
        fuzz_send(queue, wqebbs, index, data[1] & 31, data[6] & 1 ? 63 : data[7] & 63,
                  (enum gw_mlx5_form)form);
    log_stride = 4 + data[0] % 7;
    for (int shared = 0; shared < 2 && 1u << log_stride <= bytes; shared++)
        fuzz_receive(queue, bytes >> log_stride, 1u << log_stride, index, shared);
    free(queue);
    return 0;
}
