/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by cuDNN, with bias, a sum and a ReLU as part of them. The only file that knows its API. */
#include <cudnn.h>
#include <errno.h>
#include <stdlib.h>

#include "src/model/gpu/cudnn.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/weights.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#define FUNCTIONS(f)                                                                                         \
    f(cudnnGetVersion) f(cudnnCreate) f(cudnnDestroy) f(cudnnSetStream) f(cudnnCreateTensorDescriptor)       \
        f(cudnnDestroyTensorDescriptor) f(cudnnSetTensor4dDescriptor) f(cudnnCreateFilterDescriptor)         \
            f(cudnnDestroyFilterDescriptor) f(cudnnSetFilter4dDescriptor)                                    \
                f(cudnnCreateConvolutionDescriptor) f(cudnnDestroyConvolutionDescriptor)                     \
                    f(cudnnSetConvolution2dDescriptor) f(cudnnSetConvolutionMathType)                        \
                        f(cudnnSetConvolutionGroupCount) f(cudnnCreateActivationDescriptor)                  \
                            f(cudnnDestroyActivationDescriptor) f(cudnnSetActivationDescriptor)              \
                                f(cudnnGetConvolutionForwardWorkspaceSize)                                   \
                                    f(cudnnConvolutionBiasActivationForward)

struct gwm_cudnn {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    cudnnHandle_t handle;
};

/* The addresses that a call takes. */
enum { X, W, BIAS, Y, ADD, WORK };

struct conv_call {
    struct gwm_call call;
    struct gwm_cudnn *d;
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t act;
    cudnnConvolutionFwdAlgo_t algo;
    size_t work;
    float sum; /* 1: there is an addend */
};

struct gwm_cudnn *gwm_cudnn_open(void)
{
    static const struct gwm_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct gwm_cudnn, name)},
        FUNCTIONS(SYMBOL)
#undef SYMBOL
            {0}};
    struct gwm_cudnn *d = (struct gwm_cudnn *)calloc(1, sizeof(*d));

    if (d && gwm_lib_load("libcudnn.so." TEXT(CUDNN_MAJOR), symbols, d) &&
        d->cudnnCreate(&d->handle) == CUDNN_STATUS_SUCCESS)
        return d;
    free(d);
    return NULL;
}

void gwm_cudnn_close(struct gwm_cudnn *d)
{
    d->cudnnDestroy(d->handle);
    free(d);
}

size_t gwm_cudnn_version(const struct gwm_cudnn *d)
{
    return d->cudnnGetVersion();
}

static int cudnn_run(struct gwm_call *call, void *const addr[], void *stream)
{
    struct conv_call *c = (struct conv_call *)call;
    const float one = 1;

    if (c->d->cudnnSetStream(c->d->handle, (cudaStream_t)stream)) return -EIO;
    return c->d->cudnnConvolutionBiasActivationForward(
               c->d->handle, &one, c->x, addr[X], c->w, addr[W], c->conv, c->algo, addr[WORK], c->work,
               &c->sum, c->y, c->sum != 0 ? addr[ADD] : addr[Y], c->bias, addr[BIAS], c->act, c->y, addr[Y])
               ? -EIO
               : 0;
}

static void cudnn_drop(struct gwm_call *call)
{
    struct conv_call *c = (struct conv_call *)call;

    if (c->x) c->d->cudnnDestroyTensorDescriptor(c->x);
    if (c->y) c->d->cudnnDestroyTensorDescriptor(c->y);
    if (c->bias) c->d->cudnnDestroyTensorDescriptor(c->bias);
    if (c->w) c->d->cudnnDestroyFilterDescriptor(c->w);
    if (c->conv) c->d->cudnnDestroyConvolutionDescriptor(c->conv);
    if (c->act) c->d->cudnnDestroyActivationDescriptor(c->act);
    free(c);
}

/* Fills the descriptors; -ENOTSUP when cuDNN has no such convolution. */
static int cudnn_describe(struct conv_call *c, const struct gwm_conv *q, bool last, bool half, bool tf32)
{
    struct gwm_cudnn *d = c->d;
    const struct gwm_window *w = &q->win;
    cudnnTensorFormat_t form = last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    cudnnDataType_t type = half ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    cudnnMathType_t math = half ? CUDNN_TENSOR_OP_MATH : tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;

    if (d->cudnnCreateTensorDescriptor(&c->x) || d->cudnnCreateTensorDescriptor(&c->y) ||
        d->cudnnCreateTensorDescriptor(&c->bias) || d->cudnnCreateFilterDescriptor(&c->w) ||
        d->cudnnCreateConvolutionDescriptor(&c->conv) || d->cudnnCreateActivationDescriptor(&c->act))
        return -ENOMEM;
    if (d->cudnnSetTensor4dDescriptor(c->x, form, type, w->n, w->c, w->h, w->w) ||
        d->cudnnSetTensor4dDescriptor(c->y, form, type, w->n, q->oc, w->oh, w->ow) ||
        d->cudnnSetTensor4dDescriptor(c->bias, form, type, 1, q->oc, 1, 1) ||
        d->cudnnSetFilter4dDescriptor(c->w, type, form, q->oc, w->c / q->group, w->kh, w->kw) ||
        d->cudnnSetConvolution2dDescriptor(c->conv, w->top, w->left, w->sh, w->sw, w->dh, w->dw,
                                           CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) ||
        d->cudnnSetConvolutionMathType(c->conv, math) ||
        d->cudnnSetConvolutionGroupCount(c->conv, q->group) ||
        d->cudnnGetConvolutionForwardWorkspaceSize(d->handle, c->x, c->w, c->conv, c->y, c->algo, &c->work) ||
        c->work > GWM_LIB_WORK)
        return -ENOTSUP;
    return 0;
}

/* cuDNN pads both sides alike; what it would read past the other side's padding must not make a
 * difference. */
static bool same_size(const struct gwm_window *w)
{
    return (w->h + 2 * w->top - w->dh * (w->kh - 1) - 1) / w->sh + 1 == w->oh &&
           (w->w + 2 * w->left - w->dw * (w->kw - 1) - 1) / w->sw + 1 == w->ow;
}

/* The algorithms worth a try; another activation than these is a launch of its own. */
static bool algorithm(int setting, bool relu, cudnnConvolutionFwdAlgo_t *algo)
{
    static const cudnnConvolutionFwdAlgo_t some[] = {
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED};

    /* Without a ReLU cuDNN has but the first. */
    if (setting >= (relu ? (int)(sizeof(some) / sizeof(some[0])) : 1)) return false;
    *algo = some[setting];
    return true;
}

int gwm_lib_cudnn(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_conv *q = &n->conv;
    uint32_t form = gwm_gpu_wanted(p, to->out);
    bool relu = to->act.kind == GWM_ACT_RELU;
    cudnnConvolutionFwdAlgo_t algo;

    if (!p->lib || !p->lib->cudnn || to->block > 1 || !same_size(&q->win) || !algorithm(setting, relu, &algo))
        return -ENOTSUP;
    if (p->g->value[n->in[0]].root != n->in[0]) form &= ~GWM_LAST; /* seen in another shape: in C order */
    struct conv_call *c = (struct conv_call *)calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    *c = (struct conv_call){
        .call = {cudnn_run, cudnn_drop, "cuDNN"}, .d = p->lib->cudnn, .algo = algo, .sum = to->add >= 0};
    int err = cudnn_describe(c, q, form & GWM_LAST, p->half, p->tf32);
    if (!err && c->d->cudnnSetActivationDescriptor(
                    c->act, relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY, CUDNN_PROPAGATE_NAN, 0))
        err = -ENOTSUP;
    if (err) {
        cudnn_drop(&c->call);
        return err;
    }
    const int buf[] = {gwm_gpu_in(p, n->in[0], form, true),
                       gwm_conv_weights(p, q, form & GWM_LAST, p->half),
                       gwm_conv_bias(p, q, p->half),
                       gwm_gpu_out(p, to->out, form, true),
                       to->add < 0 ? GWM_NO_BUF : gwm_gpu_in(p, to->add, form, true),
                       gwm_gpu_scratch(p, c->work + 1, GW_DTYPE_U8)};
    err = gwm_lib_call(p, &c->call, buf);
    return err || relu ? err : gwm_gpu_activate(p, &to->act, buf[Y], p->g->value[to->out].count);
}
