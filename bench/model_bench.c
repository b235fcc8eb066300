/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long one run of a model takes.
 *
 *     model_bench MODEL.onnx [--exec cpu|gpu] [--threads N] [--rows N] [--runs N] [--tf32 | --f16]
 *                 [--own | --resident] [--feed FILE] [--out FILE]
 *                 [--cpu-time] [--each]
 *
 * CPU: a call of gw_plan_run. GPU: a captured graph of the model's kernels, launched 20 times in a row,
 * divided; and one call of gw_plan_run, which copies in and out and waits. A feed holds the inputs one after
 * the other, as they lie in memory; --out gets the outputs so. --cpu-time measures the processor time of the
 * process. That is for machines that others use, too. --each tells what each launch of a GPU plan takes
 * alone. bench/model_torch.py runs it beside PyTorch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef GW_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/inside.h"

#define BATCH   20
#define WARM_UP 5
#define SYNC_NS 30000000000u

struct bench {
    const char *path, *which, *feed, *out_path;
    uint32_t threads, runs, rows, flags;
    int each;
    struct gw_exec *exec;
    struct gw_model *model;
    struct gw_plan *plan;
    void *in[GW_MODEL_MAX_IO], *out[GW_MODEL_MAX_IO];
    struct gw_mem mem[2 * GW_MODEL_MAX_IO];
#ifdef GW_HAVE_CUDA
    cudaGraphExec_t graph;
#endif
};

static clockid_t clock_used = CLOCK_MONOTONIC;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(clock_used, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int smaller_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "model_bench: %s: %s\n", what, why);
    return 1;
}

static int parse(struct bench *b, int argc, char **argv)
{
    *b = (struct bench){.which = "cpu", .threads = 1, .runs = 200, .rows = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            b->which = argv[++i];
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            b->threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
            b->runs = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--rows") && i + 1 < argc)
            b->rows = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--feed") && i + 1 < argc)
            b->feed = argv[++i];
        else if (!strcmp(argv[i], "--out") && i + 1 < argc)
            b->out_path = argv[++i];
        else if (!strcmp(argv[i], "--tf32"))
            b->flags |= GW_PLAN_TF32;
        else if (!strcmp(argv[i], "--f16"))
            b->flags |= GW_PLAN_F16;
        else if (!strcmp(argv[i], "--own"))
            b->flags |= GW_PLAN_OWN;
        else if (!strcmp(argv[i], "--cpu-time"))
            clock_used = CLOCK_PROCESS_CPUTIME_ID;
        else if (!strcmp(argv[i], "--each"))
            b->each = 1;
        else if (!strcmp(argv[i], "--resident"))
            b->flags |= GW_PLAN_RESIDENT;
        else if (argv[i][0] != '-' && !b->path)
            b->path = argv[i];
        else
            return -1;
    }
    return b->path && b->threads && b->runs && b->rows ? 0 : -1;
}

static int make_plan(struct bench *b)
{
    struct gw_plan_options o = {.threads = b->threads, .rows = b->rows};
    char err[GW_MODEL_ERR];

    if (gw_model_open(b->path, &b->model, err, sizeof(err))) {
        fprintf(stderr, "model_bench: %s\n", err);
        return 1;
    }
    if (!strcmp(b->which, "gpu")) {
        if (gw_exec_create("gpu", NULL, &b->exec)) return fail("--exec gpu", gw_last_error());
        o.place = GW_PLACE_GPU;
        o.flags = GW_PLAN_GPU_IO | b->flags;
        o.exec = b->exec;
    }
    if (gw_plan_create(b->model, &o, &b->plan, err, sizeof(err))) return fail(b->path, err);
    return 0;
}

static const struct gw_tensor_info *tensor(const struct bench *b, uint32_t k, uint32_t i)
{
    return k ? gw_model_output(b->model, i) : gw_model_input(b->model, i);
}

static size_t bytes_of(const struct bench *b, uint32_t k, uint32_t i)
{
    const struct gw_tensor_info *t = tensor(b, k, i);

    return t->bytes * (t->batched ? b->rows : 1);
}

/* A ramp; of integers, 0 and 1 in turn, which is a token, an index or a mask. */
static void fill(const struct gw_tensor_info *t, void *to, size_t bytes)
{
    size_t width = gw_dtype_bytes(t->dtype);

    memset(to, 0, bytes);
    for (size_t e = 0; e < bytes / width; e++) {
        float f = (float)(e % 255) / 255;
        char one = e % 2;
        memcpy((char *)to + e * width, t->dtype == GW_DTYPE_F32 ? (void *)&f : &one,
               t->dtype == GW_DTYPE_F32 ? 4 : 1);
    }
}

static int make_tensors(struct bench *b)
{
    FILE *feed = b->feed ? fopen(b->feed, "rb") : NULL;
    int rc = b->feed && !feed ? fail(b->feed, strerror(errno)) : 0;

    for (uint32_t k = 0; k < 2; k++) {
        uint32_t n = k ? gw_model_outputs(b->model) : gw_model_inputs(b->model);
        for (uint32_t i = 0; i < n && !rc; i++) {
            size_t bytes = bytes_of(b, k, i);
            void **to = k ? &b->out[i] : &b->in[i];
            struct gw_mem *mem = &b->mem[k * GW_MODEL_MAX_IO + i];
            *to = aligned_alloc(64, (bytes + 63) / 64 * 64);
            if (!*to || (b->exec && gw_mem_alloc(b->exec, GW_MEM_DEVICE, bytes, mem)))
                rc = fail(b->path, "out of memory");
            if (!rc) fill(tensor(b, k, i), *to, bytes);
            if (!rc && !k && feed && fread(*to, 1, bytes, feed) != bytes) rc = fail(b->feed, "too short");
            if (!rc && b->exec && gw_copy_in(b->exec, mem->dev, *to, bytes))
                rc = fail(b->path, gw_last_error());
        }
    }
    if (feed) fclose(feed);
    return rc;
}

static int write_result(struct bench *b)
{
    FILE *f = fopen(b->out_path, "wb");
    int bad = !f;

    for (uint32_t i = 0; i < gw_model_outputs(b->model) && !bad; i++)
        bad = fwrite(b->out[i], 1, bytes_of(b, 1, i), f) != bytes_of(b, 1, i);
    if (f && fclose(f)) bad = 1;
    return bad ? fail(b->out_path, "cannot be written") : 0;
}

static int run(struct bench *b)
{
    return gw_plan_run(b->plan, (const void *const *)b->in, b->out);
}

#ifdef GW_HAVE_CUDA
static int capture(struct bench *b)
{
    cudaStream_t stream = (cudaStream_t)gw_exec_stream(b->exec);
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];
    cudaGraph_t graph = NULL;

    for (int i = 0; i < GW_MODEL_MAX_IO; i++) {
        in[i] = b->mem[i].dev;
        out[i] = b->mem[GW_MODEL_MAX_IO + i].dev;
    }
    int rc = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) ||
             gw_plan_enqueue(b->plan, stream, in, out) || cudaStreamEndCapture(stream, &graph) ||
             cudaGraphInstantiate(&b->graph, graph, cudaGraphInstantiateFlagDeviceLaunch) ||
             cudaGraphUpload(b->graph, stream);
    if (graph) cudaGraphDestroy(graph);
    return rc ? fail(b->path, "no graph that the device can launch") : 0;
}

static int run_kernels(struct bench *b)
{
    for (int i = 0; i < BATCH; i++)
        if (cudaGraphLaunch(b->graph, (cudaStream_t)gw_exec_stream(b->exec))) return -EIO;
    return gw_exec_sync(b->exec, gw_deadline(SYNC_NS));
}
#endif

static int measure(struct bench *b, const char *what, int (*call)(struct bench *), int each)
{
    double *t = malloc(b->runs * sizeof(*t));
    int rc = t ? 0 : -ENOMEM;

    for (int i = 0; i < WARM_UP && !rc; i++) rc = call(b);
    for (uint32_t i = 0; i < b->runs && !rc; i++) {
        double start = now_us();
        rc = call(b);
        t[i] = (now_us() - start) / each;
    }
    if (!rc) {
        qsort(t, b->runs, sizeof(*t), smaller_first);
        printf("bench: %s: %s: p50 %.1f us, p90 %.1f us, p99 %.1f us, min %.1f us, %u runs\n", b->path, what,
               t[b->runs / 2], t[b->runs * 9 / 10], t[b->runs * 99 / 100], t[0], b->runs);
    }
    free(t);
    return rc ? fail(b->path, strerror(-rc)) : 0;
}

#define KERNELS 64 /* more of them are one */

struct sums {
    uint32_t n;
    struct sum {
        const char *kernel;
        uint32_t launches;
        double us;
    } of[KERNELS];
};

/* A node's name comes from the file. */
static void print_name(const char *name)
{
    for (int i = 0; name[i] && i < 60; i++) putchar(name[i] > ' ' && name[i] < 127 ? name[i] : '?');
    putchar('\n');
}

static void one_launch(void *arg, const char *kernel, const char *node, float us)
{
    struct sums *s = arg;
    uint32_t k = 0;

    printf("each: %8.1f us  %-24s ", (double)us, kernel);
    print_name(node);
    while (k < s->n && strcmp(s->of[k].kernel, kernel)) k++;
    if (k == KERNELS) k--;
    if (k == s->n) s->of[s->n++] = (struct sum){.kernel = kernel};
    s->of[k].launches++;
    if (us > 0) s->of[k].us += (double)us;
}

static int longer_first(const void *a, const void *b)
{
    double x = ((const struct sum *)a)->us, y = ((const struct sum *)b)->us;

    return (x < y) - (x > y);
}

static int tell_each(struct bench *b)
{
    struct sums s = {0};

    if (gwm_plan_each(b->plan, one_launch, &s)) return fail("--each", "is for GPU plans of several launches");
    qsort(s.of, s.n, sizeof(s.of[0]), longer_first);
    for (uint32_t k = 0; k < s.n; k++)
        printf("sum:  %8.1f us  %-24s %u launches\n", s.of[k].us, s.of[k].kernel, s.of[k].launches);
    return 0;
}

int main(int argc, char **argv)
{
    struct gw_plan_stats s;
    struct bench b;

    if (parse(&b, argc, argv)) {
        fprintf(stderr, "usage: model_bench MODEL.onnx [--exec cpu|gpu] [--threads N] [--rows N] [--runs N] "
                        "[--tf32 | --f16] [--own | --resident] [--feed FILE] [--out FILE] [--cpu-time]\n"
                        "                   [--each]\n");
        return 2;
    }
    double start = now_us();
    int rc = make_plan(&b);
    double planned = now_us() - start;
    if (!rc) rc = make_tensors(&b);
    if (!rc) {
        gw_plan_stats(b.plan, &s);
        printf("bench: %s: %u %s, %.1f MB of weights, %.1f MB of arena, planned in %.1f s\n", b.path, s.steps,
               b.exec ? "kernels" : "steps", (double)s.weight_bytes / 1e6, (double)s.arena_bytes / 1e6,
               planned / 1e6);
        rc = measure(&b, b.exec ? "gpu, with copies" : "cpu", run, 1);
    }
    if (!rc && b.out_path) rc = write_result(&b);
    if (!rc && b.each) rc = tell_each(&b);
#ifdef GW_HAVE_CUDA
    if (!rc && b.exec) rc = capture(&b);
    if (!rc && b.exec) rc = measure(&b, "gpu, kernels", run_kernels, BATCH);
    if (b.graph) cudaGraphExecDestroy(b.graph);
#endif
    for (int i = 0; i < GW_MODEL_MAX_IO; i++) {
        free(b.in[i]);
        free(b.out[i]);
        gw_mem_free(&b.mem[i]);
        gw_mem_free(&b.mem[GW_MODEL_MAX_IO + i]);
    }
    gw_plan_free(b.plan);
    gw_model_close(b.model);
    if (b.exec) gw_exec_destroy(b.exec);
    return rc;
}
