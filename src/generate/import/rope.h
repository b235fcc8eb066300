/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: what a configuration says of them, and the tables of cosines and sines. */
#ifndef GW_GENERATE_IMPORT_ROPE_H
#define GW_GENERATE_IMPORT_ROPE_H

#include "src/generate/import/builder.h"
#include "src/generate/import/json.h"

#define GEN_ROPE_MAX_HALF 512

/* A longer context is cut: its tables would take much memory, and no cache holds it. */
#define GEN_MODEL_MAX_CONTEXT 131072u

struct gen_rope {
    uint32_t half;                    /* pairs of elements that turn */
    float inverse[GEN_ROPE_MAX_HALF]; /* of pair i: radians per position */
    float scale;                      /* of cosines and sines */
    const float *cosine, *sine;       /* [positions][half], after gen_rope_tables */
    uint32_t positions;
};

/* What a configuration says. */
struct gen_rope_config {
    double theta;
    uint32_t half;
    uint32_t original; /* the context before scaling; 0: `scaling` says it, or it is the model's */
    const struct gen_json *scaling; /* "rope_scaling" or "rope_parameters"; its .at is NULL: nothing */
};

/* The angles. *context is the most positions of the model; a scaling whose short form ends earlier lowers it.
 * 0, -EBADMSG, -ENOTSUP. */
int gen_rope_init(struct gen_rope *r, const struct gen_rope_config *from, uint32_t *context);
/* Makes the tables for that many positions. */
void gen_rope_tables(struct gen_rope *r, struct gen_build *b, uint32_t positions);
/* Rotates heads of `head` elements. */
int32_t gen_rope_rotate(const struct gen_rope *r, struct gen_build *b, struct gen_part a, uint32_t head);

#endif
