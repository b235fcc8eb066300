/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLASLt, with bias, a sum and a ReLU as part of them. The only file that knows its API.
 * Its matrices are stored by columns: ours are their transposes there, so that A and B change places.
 */
#include <cublasLt.h>
#include <errno.h>
#include <stdlib.h>

#include "src/model/gpu/lt.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/strided.h"
#include "src/model/gpu/weights.h"
#include "src/model/graph/half.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#define FUNCTIONS(f)                                                                                         \
    f(cublasLtGetVersion) f(cublasLtCreate) f(cublasLtDestroy) f(cublasLtMatmul)                             \
        f(cublasLtMatmulAlgoGetHeuristic) f(cublasLtMatmulDescCreate) f(cublasLtMatmulDescDestroy)           \
            f(cublasLtMatmulDescSetAttribute) f(cublasLtMatrixLayoutCreate) f(cublasLtMatrixLayoutDestroy)   \
                f(cublasLtMatrixLayoutSetAttribute) f(cublasLtMatmulPreferenceCreate)                        \
                    f(cublasLtMatmulPreferenceDestroy) f(cublasLtMatmulPreferenceSetAttribute)

struct gwm_lt {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    cublasLtHandle_t handle;
};

/* The addresses that a call takes. */
enum { A, B, BIAS, Y, ADD, WORK };

/* D[n][m] = Σ B[n][k] A[m][k] by our reading; `ta` says that A is stored so, else as [k][m]; and so on. */
struct product {
    int64_t m, n, k, batch;
    int64_t a_step, b_step, y_step; /* elements from one matrix of a batch to the next */
    int64_t lda, ldb, ldy;          /* and from one column to the next */
    size_t a_start, b_start;        /* bytes */
    bool ta, tb;                    /* as cuBLASLt means it */
    bool bias, sum, tf32;
    uint32_t type, y_type; /* enum gw_dtype: of the factors; of y, the bias, and what is added */
    float alpha;
};

struct lt_call {
    struct gwm_call call;
    struct gwm_lt *t;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, y;
    cublasLtMatmulAlgo_t algo;
    size_t work, a_start, b_start;
    bool bias;
    float alpha, sum;
};

struct gwm_lt *gwm_lt_open(void)
{
    static const struct gwm_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct gwm_lt, name)},
        FUNCTIONS(SYMBOL)
#undef SYMBOL
            {0}};
    struct gwm_lt *t = (struct gwm_lt *)calloc(1, sizeof(*t));

    if (t && gwm_lib_load("libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), symbols, t) &&
        t->cublasLtCreate(&t->handle) == CUBLAS_STATUS_SUCCESS)
        return t;
    free(t);
    return NULL;
}

void gwm_lt_close(struct gwm_lt *t)
{
    t->cublasLtDestroy(t->handle);
    free(t);
}

size_t gwm_lt_version(const struct gwm_lt *t)
{
    return t->cublasLtGetVersion();
}

static int lt_run(struct gwm_call *call, void *const addr[], void *stream)
{
    struct lt_call *c = (struct lt_call *)call;

    if (c->bias && c->t->cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &addr[BIAS],
                                                        sizeof(addr[BIAS])))
        return -EIO;
    return c->t->cublasLtMatmul(c->t->handle, c->op, &c->alpha, (char *)addr[A] + c->a_start, c->a,
                                (char *)addr[B] + c->b_start, c->b, &c->sum,
                                c->sum != 0 ? addr[ADD] : addr[Y], c->y, addr[Y], c->y, &c->algo, addr[WORK],
                                c->work, (cudaStream_t)stream)
               ? -EIO
               : 0;
}

static void lt_drop(struct gwm_call *call)
{
    struct lt_call *c = (struct lt_call *)call;

    if (c->op) c->t->cublasLtMatmulDescDestroy(c->op);
    if (c->a) c->t->cublasLtMatrixLayoutDestroy(c->a);
    if (c->b) c->t->cublasLtMatrixLayoutDestroy(c->b);
    if (c->y) c->t->cublasLtMatrixLayoutDestroy(c->y);
    free(c);
}

static cudaDataType_t lt_type(uint32_t type)
{
    return type == GW_DTYPE_F32 ? CUDA_R_32F : type == GW_DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static int lt_layout(struct lt_call *c, cublasLtMatrixLayout_t *to, const struct product *q,
                     const int64_t size[2], int64_t ld, int64_t step)
{
    int32_t batch = (int32_t)q->batch;
    uint32_t type = to == &c->y ? q->y_type : q->type;

    if (c->t->cublasLtMatrixLayoutCreate(to, lt_type(type), (uint64_t)size[0], (uint64_t)size[1], ld))
        return -ENOTSUP;
    if (batch == 1) return 0;
    return c->t->cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                  sizeof(batch)) ||
                   c->t->cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                          &step, sizeof(step))
               ? -ENOTSUP
               : 0;
}

static int lt_describe(struct lt_call *c, const struct product *q)
{
    struct gwm_lt *t = c->t;
    cublasOperation_t ta = q->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = q->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    /* Its own Relu is the larger of a number and 0. Nothing says that NaN comes out of it. */
    cublasLtEpilogue_t end = q->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const void *aligned = (const void *)GWM_ARENA_ALIGN; /* as the bias will be */
    int err;

    if (t->cublasLtMatmulDescCreate(
            &c->op, q->tf32 && q->type == GW_DTYPE_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
            CUDA_R_32F) ||
        t->cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)) ||
        t->cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb)) ||
        t->cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof(end)) ||
        (q->bias && t->cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned,
                                                      sizeof(aligned))))
        return -ENOTSUP;
    const int64_t a[2] = {q->ta ? q->k : q->m, q->ta ? q->m : q->k},
                  b[2] = {q->tb ? q->n : q->k, q->tb ? q->k : q->n};
    err = lt_layout(c, &c->a, q, a, q->lda, q->a_step);
    if (!err) err = lt_layout(c, &c->b, q, b, q->ldb, q->b_step);
    return err ? err : lt_layout(c, &c->y, q, (const int64_t[]){q->m, q->n}, q->ldy, q->y_step);
}

/* The algorithm of that number in cuBLASLt's own order. */
static int lt_choose(struct lt_call *c, int setting)
{
    cublasLtMatmulHeuristicResult_t found[GWM_LIB_SETTINGS];
    cublasLtMatmulPreference_t pref = NULL;
    size_t most = GWM_LIB_WORK;
    uint32_t a = c->a_start ? 16 : GWM_ARENA_ALIGN, b = c->b_start ? 16 : GWM_ARENA_ALIGN; /* bytes */
    int n = 0;

    if (c->t->cublasLtMatmulPreferenceCreate(&pref)) return -ENOTSUP;
    if (c->t->cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                   sizeof(most)) ||
        c->t->cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a,
                                                   sizeof(a)) ||
        c->t->cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b,
                                                   sizeof(b)) ||
        c->t->cublasLtMatmulAlgoGetHeuristic(c->t->handle, c->op, c->a, c->b, c->y, c->y, pref,
                                             GWM_LIB_SETTINGS, found, &n))
        n = 0;
    c->t->cublasLtMatmulPreferenceDestroy(pref);
    if (setting >= n || found[setting].state != CUBLAS_STATUS_SUCCESS) return -ENOTSUP;
    c->algo = found[setting].algo;
    c->work = found[setting].workspaceSize;
    return 0;
}

static struct lt_call *new_call(struct gwm_lt *t, const struct product *q, int setting, int *err)
{
    struct lt_call *c = (struct lt_call *)calloc(1, sizeof(*c));

    *err = -ENOMEM;
    if (!c) return NULL;
    *c = (struct lt_call){.call = {lt_run, lt_drop, "cublasLt"},
                          .t = t,
                          .bias = q->bias,
                          .alpha = q->alpha,
                          .sum = q->sum,
                          .a_start = q->a_start,
                          .b_start = q->b_start};
    *err = lt_describe(c, q);
    if (!*err) *err = lt_choose(c, setting);
    if (!*err) return c;
    lt_drop(&c->call);
    return NULL;
}

/* Of the tensors of a plan. */
static uint32_t lt_element(const struct gwm_gpu *p)
{
    return p->half ? GW_DTYPE_F16 : GW_DTYPE_F32;
}

int gwm_lib_pointwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_conv *q = &n->conv;
    const struct gwm_window *w = &q->win;
    uint32_t form = gwm_gpu_wanted(p, to->out);
    struct product m = {.m = q->oc,
                        .n = (int64_t)w->n * w->h * w->w,
                        .k = w->c,
                        .batch = 1,
                        .alpha = 1,
                        .lda = w->c,
                        .ldb = w->c,
                        .ldy = q->oc,
                        .ta = true,
                        .bias = true,
                        .sum = to->add >= 0,
                        .type = lt_element(p),
                        .y_type = lt_element(p),
                        .tf32 = p->tf32};
    int err;

    if (!p->lib || !p->lib->lt || to->block > 1 || w->kh * w->kw > 1 || w->sh * w->sw > 1 || q->group > 1 ||
        w->top || w->left || w->bottom || w->right)
        return -ENOTSUP;
    /* Each position's channels lie together; where there is one position, they do anyway. */
    if (!(form & GWM_LAST) && w->h * w->w > 1) return -ENOTSUP;
    if (p->g->value[n->in[0]].root != n->in[0] && w->h * w->w > 1) return -ENOTSUP;
    struct lt_call *c = new_call(p->lib->lt, &m, setting, &err);
    if (!c) return err;
    const int buf[] = {gwm_conv_weights(p, q, true, p->half),
                       gwm_gpu_in(p, n->in[0], form, true),
                       gwm_conv_bias(p, q, p->half),
                       gwm_gpu_out(p, to->out, form | to->last, true),
                       to->add < 0 ? GWM_NO_BUF : gwm_gpu_in(p, to->add, form | to->last, true),
                       gwm_gpu_scratch(p, c->work + 1, GW_DTYPE_U8)};
    err = gwm_lib_call(p, &c->call, buf);
    return err ? err : gwm_gpu_activate(p, &to->act, buf[Y], p->g->value[to->out].count);
}

static int row(struct gwm_gpu *p, const float *x, int32_t n, bool half)
{
    if (!half) return gwm_gpu_static(p, x, (size_t)n * sizeof(*x), GW_DTYPE_F32);
    uint16_t *h = (uint16_t *)malloc((size_t)n * sizeof(*h));
    for (int32_t i = 0; h && i < n; i++) h[i] = gwm_half_round(x[i]);
    return gwm_gpu_take(p, h, (size_t)n * sizeof(*h), GW_DTYPE_F16);
}

/* How far apart rows, or columns where those elements lie together, are; at least what cuBLASLt wants to
 * see. */
static int64_t leading(const struct gwm_strided *s, bool *turned)
{
    *turned = s->n[2] > 1 && s->stride[2] != 1;
    int64_t ld = s->stride[*turned ? 2 : 1], least = s->n[*turned ? 1 : 2];
    return ld > least ? ld : least;
}

int gwm_lib_gemm(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_gemm *q = &n->gemm;
    const struct gwm_strided *a = &to->product->b, *b = &to->product->a, *y = &to->product->y;
    uint32_t form = p->half ? GWM_HALF : 0;
    size_t width = p->half ? 2 : 4;
    bool ta, tb, ty;
    struct product m = {.m = q->n,
                        .n = q->m,
                        .k = q->k,
                        .batch = q->products,
                        .a_step = a->stride[0],
                        .b_step = b->stride[0],
                        .y_step = y->stride[0],
                        .lda = leading(a, &ta),
                        .ldb = leading(b, &tb),
                        .ldy = leading(y, &ty),
                        .a_start = (size_t)a->start * width,
                        .b_start = (size_t)b->start * width,
                        .alpha = q->alpha * a->scale * b->scale,
                        .bias = q->bias != NULL,
                        .sum = to->add >= 0,
                        .type = lt_element(p),
                        .y_type = lt_element(p),
                        .tf32 = p->tf32};
    int err;

    m.ta = q->tb != ta;
    m.tb = q->ta != tb;
    if (!p->lib || !p->lib->lt || (q->products > 1 && q->batch.rank > 1) || m.a_start % 16 || m.b_start % 16)
        return -ENOTSUP;
    struct lt_call *c = new_call(p->lib->lt, &m, setting, &err);
    if (!c) return err;
    const int buf[] = {gwm_gpu_in(p, a->root, form, true),
                       gwm_gpu_in(p, b->root, form, true),
                       q->bias ? row(p, q->bias, q->n, p->half) : GWM_NO_BUF,
                       gwm_gpu_out(p, to->out, form | to->last, true),
                       to->add < 0 ? GWM_NO_BUF : gwm_gpu_in(p, to->add, form | to->last, true),
                       gwm_gpu_scratch(p, c->work + 1, GW_DTYPE_U8)};
    err = gwm_lib_call(p, &c->call, buf);
    return err ? err : gwm_gpu_activate(p, &to->act, buf[Y], p->g->value[to->out].count);
}

int gwm_lt_product(struct gwm_lt *t, const struct gwm_lt_shape *s, struct gwm_call **call, size_t *work)
{
    struct product m = {.m = s->n,
                        .n = s->rows,
                        .k = s->k,
                        .batch = 1,
                        .lda = s->k,
                        .ldb = s->ldx,
                        .ldy = s->ldy,
                        .b_start = s->x_start,
                        .ta = true,
                        .bias = s->bias,
                        .sum = s->sum,
                        .type = s->type,
                        .y_type = s->y_type,
                        .alpha = 1};
    int err;
    struct lt_call *c = new_call(t, &m, 0, &err);

    if (!c) return err;
    *call = &c->call;
    *work = c->work;
    return 0;
}
