/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's primitives as steps of a plan. Only the dnnl files know the library's API (2.6 and 3.x). */
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

struct gwm_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct gwm_prim *prims;
    struct gwm_form *forms;
    struct gwm_join *joins;
};

/* The negative errno of a status; primitives and their arguments. */
int gwm_dnnl_status(dnnl_status_t s);
/* Takes over pd; a primitive without arguments yet. */
struct gwm_prim *gwm_prim_new(struct gwm_cpu *p, dnnl_primitive_desc_t pd, int *err);
int gwm_prim_arg(struct gwm_cpu *p, struct gwm_prim *q, int arg, int buf, const_md_t md);
/* Adds the step of a primitive and gives it its scratch memory. */
int gwm_prim_step(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd);
/* Our attributes: scratch memory is ours. After the main operation come a factor, the sum with what lies
 * where the result goes, and a function (NULL: none of the three). */
int gwm_dnnl_attr(float alpha, bool sum, const struct gwm_act *act, dnnl_primitive_attr_t *attr);
/* Does the library's form of a function hide NaN, as far as we know? */
bool gwm_dnnl_hides(const struct gwm_act *act);
/* Takes over pd, the primitive without its function. */
int gwm_prim_bare(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_desc_t pd, const struct gwm_act *act);
/* Runs a primitive; `src` and `dst` are where its tensors lie, NULL: where the plan has them. */
int gwm_prim_execute(struct gwm_cpu *p, struct gwm_prim *q, dnnl_primitive_t prim, void *src, void *dst);
/* A function as the library's; -ENOTSUP when it has none. */
int gwm_dnnl_alg(const struct gwm_act *act, dnnl_alg_kind_t *alg, float *a, float *b);
/* Code made for this processor, or a loop that takes every case? */
bool gwm_dnnl_plain_loop(const_dnnl_primitive_desc_t pd);
/* Frees them all. */
void gwm_prims_free(struct gwm_prim *all);

#endif
