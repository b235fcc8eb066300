/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder as most families of transformers have it: what they differ in, as numbers. */
#ifndef GW_GENERATE_IMPORT_DECODER_H
#define GW_GENERATE_IMPORT_DECODER_H

#include "src/generate/import/rope.h"
#include "src/generate/import/weights.h"

#define GEN_DECODER_MAX_LAYERS 1024

struct gen_decoder {
    uint32_t vocab, hidden, inner, layers, heads, kv_heads, head, context;
    float epsilon;
    bool mean;     /* norms subtract the mean, and have a bias */
    bool plus_one; /* a norm's factor is 1 + weight */
    bool tied;     /* the head is the embedding */
    bool parallel; /* attention and MLP see the same norm of x */
    bool packed_qkv, packed_gate, gated;
    bool bias_qkv, bias_o, bias_mlp, bias_head;
    bool before, after;  /* norms before each part; norms of what each part makes */
    uint32_t qk_segment; /* queries and keys are normed, in segments of that size; 0: not */
    enum gen_act act;
    float embed_scale, part_scale, attend_scale, logit_scale; /* part: of what attention and MLP add */
    float score_cap, logit_cap;                               /* 0: none */
    struct gen_rope rope, local; /* local: of layers with a window, where `two_ropes` */
    bool two_ropes;
    uint32_t window; /* of the layers that have one */
    bool windowed[GEN_DECODER_MAX_LAYERS], unrotated[GEN_DECODER_MAX_LAYERS];
    /* Names of tensors, without ".weight"; of norms: before attention and MLP, after each, the last one */
    const char *o, *up, *down, *norm[4], *last;
};

/* Writes the program of tensors that are called "model.…", or the same without "model.". */
void gen_decoder_build(struct gen_decoder *d, struct gen_build *b, const struct gen_tensors *tensors);

/* A norm over segments of a part; `name` is that of its tensor, without ".weight". */
struct gen_norm {
    float epsilon;
    bool mean, plus_one;
};
int32_t gen_decoder_norm(struct gen_weights *w, struct gen_part a, const char *name, uint32_t segment,
                         const struct gen_norm *n);
/* NAME.weight, and NAME.bias where there must be one. */
int32_t gen_decoder_linear(struct gen_weights *w, struct gen_part a, const char *name, uint32_t n, bool bias);

#endif
