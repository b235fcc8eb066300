/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl.h: what the files that use oneDNN share: primitives (dnnl.c), layouts (dnnl_layout.c) and nodes
 * (dnnl_nodes.c). */
#ifndef GW_MODEL_DNNL_H
#define GW_MODEL_DNNL_H

#include "src/model/cpu/cpu.h"
#include "src/model/cpu/dnnl_version.h"

#define GWM_PRIM_ARGS 72 /* densely connected networks put together what dozens of layers have made */

struct gwm_prim {
    struct gwm_prim *next;
    dnnl_primitive_t prim;
    /* For numbers out of the ordinary (ordinary.h). The library's functions, maxima and softmax turn NaN into
     * plausible numbers. */
    dnnl_primitive_t bare; /* the same without its function, which then is ours */
    void (*own)(struct gwm_cpu *p, struct gwm_prim *q); /* or own loops for all of it */
    const struct gwm_node *node;                        /* what `own` does */
    struct gwm_act act;
    int spare[2]; /* buffers as large as source and result; for pools */
    int scratch;  /* of `bare`: a buffer, or -1 */
    md_t scratch_md;
    dnnl_memory_t scratch_mem;
    bool always; /* its numbers may be so whatever the inputs are */
    int nargs;
    struct {
        int arg, buf;
        md_t md;
        dnnl_memory_t mem;
    } a[GWM_PRIM_ARGS];
};

/* A root's content in a layout of the library's. */
struct gwm_form {
    struct gwm_form *next;
    int root, buf;
    bool made; /* a primitive wrote it; else a reorder from C order */
    md_t md;
};

struct gwm_fixed {
    struct gwm_fixed *next;
    void *data;
};

/* A number for each channel, or with step 0 one for all. */
struct gwm_per_channel {
    const float *from;
    int step;
};

/* A product and a sum with numbers per channel: normalisation of a batch that no convolution could take. */
struct gwm_affine {
    struct gwm_per_channel by, plus;
    int sum; /* the node of the sum, whose function comes last */
};

struct gwm_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct gwm_prim *prims;
    struct gwm_form *forms;
    struct gwm_fixed *weights;
    struct gwm_join *joins;
};

/* dnnl.c: the negative errno of a status; primitives and their arguments. */
int gwm_dnnl_status(dnnl_status_t s);
/* Takes over pd; a primitive without arguments yet. */
struct gwm_prim *gwm_prim_new(struct gwm_cpu *p, dnnl_primitive_desc_t pd, int *rc);
int gwm_prim_arg(struct gwm_cpu *p, struct gwm_prim *q, int arg, int buf, const_md_t md);
/* Adds the step of a primitive and gives it its scratch memory. */
int gwm_prim_step(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd);
/* Our attributes: scratch memory is ours; after the main operation a factor, the sum with what lies where the
 * result goes, and a function (NULL: none of the three). */
int gwm_dnnl_attr(float alpha, bool sum, const struct gwm_act *act, dnnl_primitive_attr_t *attr);
/* Does the library's form of a function hide NaN, as far as we know? */
bool gwm_dnnl_hides(const struct gwm_act *act);
/* Takes over pd, the primitive without its function. */
int gwm_prim_bare(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd, const struct gwm_act *act);
/* Runs a primitive; `src` and `dst` are where its tensors lie, NULL: where the plan has them. */
int gwm_prim_execute(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_t prim, void *src, void *dst);
/* dnnl_careful.c: what a primitive is replaced by where NaN could be. */
void gwm_careful_act(struct gwm_cpu *p, struct gwm_prim *q);   /* after its bare form */
void gwm_careful_unary(struct gwm_cpu *p, struct gwm_prim *q); /* `own` of these */
void gwm_careful_softmax(struct gwm_cpu *p, struct gwm_prim *q);
void gwm_careful_pool(struct gwm_cpu *p, struct gwm_prim *q);
/* The buffers that gwm_careful_pool wants. */
int gwm_careful_room(struct gwm_cpu *p, struct gwm_prim *q);
/* A function as the library's; -ENOTSUP when it has none. */
int gwm_dnnl_alg(const struct gwm_act *act, dnnl_alg_kind_t *alg, float *a, float *b);

/* dnnl_layout.c. A root in that layout or, without one, in the layout that it was made in (NULL when that is
 * C order). */
const struct gwm_form *gwm_form_find(const struct gwm_cpu *p, int root, const_md_t md);
/* A buffer for a root in another layout than C order. */
int gwm_form_add(struct gwm_cpu *p, int root, const_md_t md, bool made);
/* How the result of a convolution or a pool looks in C order (a product's is always in it). */
md_t gwm_dnnl_c_order(const struct gwm_cpu *p, int root);
/* The buffer that holds `root` in layout `want`; `have` is how its C-order buffer looks to the primitive that
 * asks. Adds a reorder when there is none yet. */
int gwm_dnnl_in_layout(struct gwm_cpu *p, int root, const_md_t have, const_md_t want);
/* Root `root` lies in that layout in a buffer that another root no longer needs. */
int gwm_form_share(struct gwm_cpu *p, int root, const_md_t md, int buf);
/* Code made for this processor, or a loop that takes every case? */
bool gwm_dnnl_plain_loop(const_dnnl_primitive_desc_t pd);
/* Adds a step that copies a buffer from one layout to another. */
int gwm_dnnl_reorder(struct gwm_cpu *p, int from, const_md_t from_md, int to, const_md_t to_md);
/* Brings constants from one layout into another, now; the buffer's number. */
int gwm_fixed_in_layout(struct gwm_cpu *p, const float *data, const_md_t have, const_md_t want);
/* dnnl_simple.c: nodes that compute in any layout, or in C order: functions, sums, softmax, normalisation,
 * moves. */
int gwm_dnnl_simple(struct gwm_cpu *p, const struct gwm_node *n);
/* Is node `n` the product of such? */
bool gwm_affine_find(const struct gwm_cpu *p, const struct gwm_node *n, struct gwm_affine *a);
/* Constants for the plan, one for each channel; the buffer's number. */
int gwm_fixed_channels(struct gwm_cpu *p, int32_t channels, struct gwm_per_channel is);

/* dnnl_join.c: channels put together by our own loop; -ENOTSUP: not in the layout that it knows. */
int gwm_dnnl_join(struct gwm_cpu *p, const struct gwm_node *n);
void gwm_join_free(struct gwm_join *all);

/* A copy of a bias times a factor, so that its memory is aligned as the library likes it. */
int gwm_fixed_bias(struct gwm_cpu *p, const float *bias, int32_t n, float factor);

#endif
