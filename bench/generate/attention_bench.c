/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged decode attention against the memory's bandwidth.
 *
 *     generate_attention_bench [--lanes N] [--tokens N] [--heads N] [--kv-heads N] [--head N] [--layers N]
 *
 * A graph has that number of attentions, each with the storing of the rows' keys and values and the join of
 * parts. Their caches together are larger than what the GPU keeps on its chip. Prints GB/s of keys and
 * values, what plain reads get in the same run, and the ratio.
 */
#include <math.h>
#include <stdio.h>

#include "bench/generate/gpu_rig.h"

/* Queries, keys and values are a part of an embedding. */
static struct gen_program *program(const struct gen_op *attend, uint32_t layers, uint32_t positions)
{
    struct gen_program *p = gen_program_new();
    uint32_t q = attend->heads * attend->head, kv = attend->kv_heads * attend->head;
    struct gen_op op = {.kind = GEN_EMBED, .weight = rig_weight(1024, q + 2 * kv), .scale = 1};
    int32_t x, y = -1;

    p->vocab = 1024;
    p->max_position = positions;
    x = rig_add(p, op, q + 2 * kv);
    for (uint32_t i = 0; i < layers; i++) {
        op = *attend;
        op.layer = i;
        op.a = (struct gen_part){x, 0, q};
        op.b = (struct gen_part){x, q, kv};
        op.c = (struct gen_part){x, q + kv, kv};
        y = rig_add(p, op, q);
    }
    y = rig_add(p, (struct gen_op){.kind = GEN_PICK, .a = rig_all(p, y)}, q);
    op = (struct gen_op){.kind = GEN_LINEAR, .a = rig_all(p, y), .weight = rig_weight(1024, q)};
    p->logits = rig_add(p, op, 1024);
    return p;
}

int main(int argc, char **argv)
{
    struct rig r = {.exec = rig_exec(),
                    .lanes = rig_option(argc, argv, "--lanes", 32),
                    .tokens = rig_option(argc, argv, "--tokens", 2048)};
    struct gen_op op = {.kind = GEN_ATTEND,
                        .heads = rig_option(argc, argv, "--heads", 32),
                        .kv_heads = rig_option(argc, argv, "--kv-heads", 8),
                        .head = rig_option(argc, argv, "--head", 128)};
    uint32_t layers = rig_option(argc, argv, "--layers", 8);
    double bytes = 2.0 * r.lanes * r.tokens * op.kv_heads * op.head * 2 * layers, us, limit;

    op.value_head = op.head;
    op.scale = 1 / sqrtf((float)op.head);
    r.max_rows = r.lanes;
    rig_open(&r, program(&op, layers, r.tokens));
    us = rig_time(&r, r.lanes);
    limit = rig_bandwidth(&r);
    printf("attention,%u lanes x %u tokens,%u/%u heads of %u,%.2f us,%.0f GB/s,%.0f GB/s,%.3f\n", r.lanes,
           r.tokens, op.heads, op.kv_heads, op.head, us / layers, bytes / us / 1e3, limit / 1e9,
           bytes / us * 1e6 / limit);
    rig_close(&r);
    return gw_exec_destroy(r.exec) != 0;
}
