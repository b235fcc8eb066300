/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long one run of a model takes.
 *
 *     model_bench MODEL.onnx [--exec cpu|gpu] [--threads N] [--runs N] [--out FILE]
 *
 * CPU: a call of gw_plan_run. GPU: the kernels alone, in batches of 20 on one stream, divided; and one call
 * of gw_plan_run, which copies in and out and waits. FILE gets the outputs, one after the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#define BATCH   20
#define WARM_UP 5
#define SYNC_NS 30000000000u

struct bench {
    const char *path, *which, *out_path;
    uint32_t threads, runs;
    struct gw_exec *exec;
    struct gw_model *model;
    struct gw_plan *plan;
    void *in[GW_MODEL_MAX_IO], *out[GW_MODEL_MAX_IO];
    struct gw_mem mem[2 * GW_MODEL_MAX_IO];
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
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
    *b = (struct bench){.which = "cpu", .threads = 1, .runs = 200};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            b->which = argv[++i];
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            b->threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
            b->runs = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--out") && i + 1 < argc)
            b->out_path = argv[++i];
        else if (argv[i][0] != '-' && !b->path)
            b->path = argv[i];
        else
            return -1;
    }
    return b->path && b->threads && b->runs ? 0 : -1;
}

static int make_plan(struct bench *b)
{
    struct gw_plan_options o = {.threads = b->threads};
    char err[GW_MODEL_ERR];

    if (gw_model_open(b->path, &b->model, err, sizeof(err))) {
        fprintf(stderr, "model_bench: %s\n", err);
        return 1;
    }
    if (!strcmp(b->which, "gpu")) {
        if (gw_exec_create("gpu", NULL, &b->exec)) return fail("--exec gpu", gw_last_error());
        o.place = GW_PLACE_GPU;
        o.flags = GW_PLAN_GPU_IO;
        o.exec = b->exec;
    }
    if (gw_plan_create(b->model, &o, &b->plan, err, sizeof(err))) return fail(b->path, err);
    return 0;
}

/* A ramp; of integers, 0 and 1 in turn, which is a token, an index or a mask. */
static void fill(const struct gw_tensor_info *t, void *to)
{
    size_t width = gw_dtype_bytes(t->dtype);

    memset(to, 0, t->bytes);
    for (size_t e = 0; e < t->bytes / width; e++) {
        float f = (float)(e % 255) / 255;
        char one = e % 2;
        memcpy((char *)to + e * width, t->dtype == GW_DTYPE_F32 ? (void *)&f : &one,
               t->dtype == GW_DTYPE_F32 ? 4 : 1);
    }
}

static int write_outputs(const struct bench *b)
{
    FILE *f = fopen(b->out_path, "wb");

    if (!f) return fail(b->out_path, strerror(errno));
    for (uint32_t i = 0; i < gw_model_outputs(b->model); i++)
        fwrite(b->out[i], 1, gw_model_output(b->model, i)->bytes, f);
    return fclose(f) ? fail(b->out_path, strerror(errno)) : 0;
}

static int make_tensors(struct bench *b)
{
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t n = k ? gw_model_outputs(b->model) : gw_model_inputs(b->model);
        for (uint32_t i = 0; i < n; i++) {
            size_t bytes = (k ? gw_model_output(b->model, i) : gw_model_input(b->model, i))->bytes;
            void **to = k ? &b->out[i] : &b->in[i];
            *to = aligned_alloc(64, (bytes + 63) / 64 * 64);
            if (!*to ||
                (b->exec && gw_mem_alloc(b->exec, GW_MEM_DEVICE, bytes, &b->mem[k * GW_MODEL_MAX_IO + i])))
                return fail(b->path, "out of memory");
            fill(k ? gw_model_output(b->model, i) : gw_model_input(b->model, i), *to);
            if (b->exec && gw_copy_in(b->exec, b->mem[k * GW_MODEL_MAX_IO + i].dev, *to, bytes))
                return fail(b->path, gw_last_error());
        }
    }
    return 0;
}

static int run(struct bench *b)
{
    return gw_plan_run(b->plan, (const void *const *)b->in, b->out);
}

static int run_kernels(struct bench *b)
{
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];

    for (int i = 0; i < GW_MODEL_MAX_IO; i++) {
        in[i] = b->mem[i].dev;
        out[i] = b->mem[GW_MODEL_MAX_IO + i].dev;
    }
    for (int i = 0; i < BATCH; i++)
        if (gw_plan_enqueue(b->plan, gw_exec_stream(b->exec), in, out)) return -EIO;
    return gw_exec_sync(b->exec, gw_deadline(SYNC_NS));
}

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

int main(int argc, char **argv)
{
    struct gw_plan_stats s;
    struct bench b;

    if (parse(&b, argc, argv)) {
        fprintf(stderr,
                "usage: model_bench MODEL.onnx [--exec cpu|gpu] [--threads N] [--runs N] [--out FILE]\n");
        return 2;
    }
    int rc = make_plan(&b);
    if (!rc) rc = make_tensors(&b);
    if (!rc) {
        gw_plan_stats(b.plan, &s);
        printf("bench: %s: %u %s, %.1f MB of weights, %.1f MB of arena\n", b.path, s.steps,
               b.exec ? "kernels" : "steps", (double)s.weight_bytes / 1e6, (double)s.arena_bytes / 1e6);
        rc = measure(&b, b.exec ? "gpu, with copies" : "cpu", run, 1);
    }
    if (!rc && b.exec) rc = measure(&b, "gpu, kernels", run_kernels, BATCH);
    if (!rc && b.out_path) rc = write_outputs(&b);
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
