/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operator, in a couple of forms, and small whole networks: results against those of ONNX Runtime.
 *
 *     test_model_golden [--exec cpu|gpu|kernels|resident] [NAME | models]
 *
 * cpu: oneDNN and own loops. gpu: own kernels, direct, and once more with indirect addresses; exit code 77
 * without a GPU. kernels: the GPU's kernels on CPU threads. resident: plans that one kernel runs, in several
 * blocks of CPU threads.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/import/npy.h"
#include "src/model/ref/ref.h"
#include "tests/model/pack.h"

/* Of the tensor's largest magnitude: for fp32, and for plans that are told to round more. */
#define TOLERANCE      1e-4
#define TOLERANCE_TF32 3e-3
#define TOLERANCE_F16  1e-2
#define HALF           2e-3 /* tensors of half floats: their own precision */
/* Of each number alone: in special.bin numbers of all sizes are side by side. */
#define EDGE_ABSOLUTE 2e-5f
#define EDGE_RELATIVE 1e-3f
#define EDGE_DOUBLE   1e-12

struct setup {
    const char *which, *only;
    struct gw_exec *exec;
    int failed, passed;
    uint32_t flags; /* of the plan at hand */
    double worst, worst_rounded;
};

struct sample {
    char name[128];
    const void *onnx;
    size_t len;
    uint32_t nin, nout, rows; /* rows: samples that the tensors hold */
    bool edges;               /* numbers at the edges: each must be right */
    struct pack_tensor in[16], out[16];
};

static void read_sample(struct pack *p, struct sample *s)
{
    pack_text(p, s->name, sizeof(s->name));
    s->onnx = pack_blob(p, &s->len);
    s->edges = !strncmp(s->name, "special", 7);
    s->nin = pack_u32(p);
    for (uint32_t i = 0; i < s->nin; i++) pack_tensor(p, &s->in[i]);
    s->rows = strncmp(s->name, "net rows", 8) ? 1 : s->in[0].dims[0];
    s->nout = pack_u32(p);
    for (uint32_t i = 0; i < s->nout; i++) pack_tensor(p, &s->out[i]);
}

static void free_sample(struct sample *s)
{
    for (uint32_t i = 0; i < s->nin; i++) free(s->in[i].data);
    for (uint32_t i = 0; i < s->nout; i++) free(s->out[i].data);
}

static int fail(struct setup *t, const struct sample *s, const char *what, const char *why)
{
    printf("FAILED %s: %s: %s\n", s->name, what, why);
    t->failed++;
    return -1;
}

static int check_info(struct setup *t, const struct sample *s, const struct gw_tensor_info *info,
                      const struct pack_tensor *want)
{
    uint32_t rows = info->batched ? s->rows : 1;
    char why[128];

    if (info->dtype != want->dtype || info->rank != want->rank || info->bytes * rows != want->bytes) {
        snprintf(why, sizeof(why), "%s: %s, rank %u, %zu bytes; expected %s, rank %u, %zu bytes", info->name,
                 gw_dtype_name(info->dtype), info->rank, (size_t)info->bytes * rows,
                 gw_dtype_name(want->dtype), want->rank, want->bytes);
        return fail(t, s, "shape", why);
    }
    for (uint32_t i = 0; i < info->rank; i++)
        if (info->dims[i] * (i ? 1 : rows) != want->dims[i]) return fail(t, s, "shape", info->name);
    return 0;
}

/* A tensor's elements as float32. */
static float *floats(const struct pack_tensor *t, const void *data)
{
    float *f = malloc(t->count * sizeof(*f) + 1);

    gwm_ref_convert(t->dtype, GW_DTYPE_F32, GW_DTYPE_F32, data, f, (int32_t)t->count);
    return f;
}

/* Is it the same at the edges of numbers: NaN, infinities, and each number by itself? */
static bool same_edge(float got, float want)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabsf(got - want) <= EDGE_ABSOLUTE + EDGE_RELATIVE * fabsf(want);
}

/* float64 as float64. */
static bool same_double(double got, double want)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= EDGE_DOUBLE * fabs(want);
}

/* Element k of a tensor that floats() has read into a and b. */
static bool same_at(const struct pack_tensor *out, const void *got, const float *a, const float *b, size_t k)
{
    size_t bytes = gw_dtype_bytes(out->dtype);

    if (out->dtype == GW_DTYPE_F64)
        return same_double(((const double *)got)[k], ((const double *)out->data)[k]);
    if (out->dtype < GW_DTYPE_BOOL) return same_edge(a[k], b[k]);
    return !memcmp((const char *)got + k * bytes, (const char *)out->data + k * bytes, bytes);
}

static int compare_edges(struct setup *t, const struct sample *s, void *const got[], const char *what)
{
    char why[160];

    for (uint32_t i = 0; i < s->nout; i++) {
        const struct pack_tensor *out = &s->out[i];
        float *a = floats(out, got[i]), *b = floats(out, out->data);
        size_t k = 0;
        while (k < out->count && same_at(out, got[i], a, b, k)) k++;
        if (k < out->count)
            snprintf(why, sizeof(why), "output %u: [%zu] of %zu is %g, expected %g", i, k, out->count,
                     (double)a[k], (double)b[k]);
        free(a);
        free(b);
        if (k < out->count) return fail(t, s, what, why);
    }
    return 0;
}

static int compare(struct setup *t, const struct sample *s, void *const got[], const char *what)
{
    char why[160];
    if (s->edges) return compare_edges(t, s, got, what);
    bool rounds = t->flags & (GW_PLAN_F16 | GW_PLAN_TF32);
    double tolerance = t->flags & GW_PLAN_F16 ? TOLERANCE_F16 : rounds ? TOLERANCE_TF32 : TOLERANCE;
    double *worst = rounds ? &t->worst_rounded : &t->worst;

    for (uint32_t i = 0; i < s->nout; i++) {
        const struct pack_tensor *out = &s->out[i];
        bool whole = out->dtype >= GW_DTYPE_BOOL;
        float *a = floats(out, got[i]), *b = floats(out, out->data);
        struct gw_tensor_diff d;
        /* One number is all there is to measure against, and it may be what is left of a large sum. */
        if (rounds && out->count == 1) tolerance = 10 * TOLERANCE_F16;
        gw_tensor_compare(a, b, out->count, out->dtype == GW_DTYPE_F16 && tolerance < HALF ? HALF : tolerance,
                          &d);
        if (whole && rounds)
            d.wrong = 0; /* a comparison may come out otherwise */
        else if (whole && memcmp(got[i], out->data, out->bytes))
            d.wrong = d.wrong ? d.wrong : 1;
        if (d.worst > *worst && out->dtype == GW_DTYPE_F32) *worst = d.worst;
        snprintf(why, sizeof(why),
                 "output %u: %zu of %zu differ, the worst by %.2g; [%zu] is %g, expected %g", i, d.wrong,
                 out->count, d.worst, d.first, (double)a[d.first], (double)b[d.first]);
        free(a);
        free(b);
        if (d.wrong) return fail(t, s, what, why);
    }
    return 0;
}

/* Device memory for all tensors and the block of addresses; enqueue, and read back. */
static int run_indirect(struct setup *t, const struct sample *s, struct gw_plan *plan, void *const got[])
{
    struct gw_mem io = {0}, mem[32] = {{0}};
    uint32_t n = 0;
    int rc = gw_mem_alloc(t->exec, GW_MEM_HOST, sizeof(struct gw_plan_io), &io);

    for (uint32_t i = 0; i < s->nin && !rc; i++, n++) {
        rc = gw_mem_alloc(t->exec, GW_MEM_DEVICE, s->in[i].bytes, &mem[n]);
        if (!rc) rc = gw_copy_in(t->exec, mem[n].dev, s->in[i].data, s->in[i].bytes);
        if (!rc) ((struct gw_plan_io *)io.host)->in[i] = mem[n].dev;
    }
    for (uint32_t i = 0; i < s->nout && !rc; i++, n++) {
        rc = gw_mem_alloc(t->exec, GW_MEM_DEVICE, s->out[i].bytes, &mem[n]);
        if (!rc) ((struct gw_plan_io *)io.host)->out[i] = mem[n].dev;
    }
    if (!rc) rc = gw_plan_enqueue_indirect(plan, gw_exec_stream(t->exec), (struct gw_plan_io *)io.dev);
    if (!rc) rc = gw_exec_sync(t->exec, gw_deadline(60000000000u));
    for (uint32_t i = 0; i < s->nout && !rc; i++)
        rc = gw_copy_out(t->exec, got[i], mem[s->nin + i].dev, s->out[i].bytes);
    for (uint32_t i = 0; i < n; i++) gw_mem_free(&mem[i]);
    gw_mem_free(&io);
    return rc ? fail(t, s, "indirect", gw_last_error()) : compare(t, s, got, "indirect");
}

static int run_plan(struct setup *t, const struct sample *s, struct gw_plan *plan, uint32_t flags)
{
    const void *in[16];
    void *got[16], *out[16];
    int rc = 0;

    for (uint32_t i = 0; i < s->nin; i++) in[i] = s->in[i].data;
    for (uint32_t i = 0; i < s->nout; i++) {
        out[i] = got[i] = aligned_alloc(64, (s->out[i].bytes + 64) / 64 * 64);
        memset(got[i], 0xff, s->out[i].bytes);
    }
    int rounds = strcmp(t->which, "kernels") ? 2 : 1; /* emulated they are slow */
    for (int round = 0; round < rounds && !rc;
         round++) { /* the second sees what the first left in the arena */
        rc = gw_plan_run(plan, in, out);
        rc = rc ? fail(t, s, "run", strerror(-rc)) : compare(t, s, got, "run");
    }
    if (!rc && t->exec && (rounds == 2 || !flags)) {
        for (uint32_t i = 0; i < s->nout; i++) memset(got[i], 0xff, s->out[i].bytes);
        rc = run_indirect(t, s, plan, got);
    }
    for (uint32_t i = 0; i < s->nout; i++) free(got[i]);
    return rc;
}

static int run_sample(struct setup *t, const struct sample *s, uint32_t flags)
{
    struct gw_plan_options o = {
        .place = t->exec ? GW_PLACE_GPU : GW_PLACE_CPU, .exec = t->exec, .flags = flags, .rows = s->rows};
    struct gw_plan_stats stats;
    char err[GW_MODEL_ERR] = "";
    struct gw_model *m;
    struct gw_plan *plan = NULL;
    int rc = 0;

    t->flags = flags;
    /* Such plans round numbers before they compute. */
    if (s->edges && flags & (GW_PLAN_F16 | GW_PLAN_TF32)) return 0;
    if (gw_model_open_bytes(s->onnx, s->len, s->name, &m, err, sizeof(err))) return fail(t, s, "open", err);
    if (gw_model_inputs(m) != s->nin || gw_model_outputs(m) != s->nout)
        rc = fail(t, s, "open", "another number of inputs or outputs");
    for (uint32_t i = 0; i < s->nin && !rc; i++) rc = check_info(t, s, gw_model_input(m, i), &s->in[i]);
    for (uint32_t i = 0; i < s->nout && !rc; i++) rc = check_info(t, s, gw_model_output(m, i), &s->out[i]);
    if (!rc && gw_plan_create(m, &o, &plan, err, sizeof(err))) rc = fail(t, s, "plan", err);
    if (!rc) gw_plan_stats(plan, &stats);
    if (!rc && (flags & GW_PLAN_RESIDENT) && stats.steps > 1)
        rc = fail(t, s, "plan", "it takes several kernels");
    if (!rc) rc = run_plan(t, s, plan, flags);
    gw_plan_free(plan);
    gw_model_close(m);
    t->passed += !rc;
    return rc;
}

/* Puts the model that lies in the repository and its input into a sample without outputs. */
static int read_model(struct sample *s, const char *name, const char *input)
{
    char path[1024], err[GW_MODEL_ERR];
    struct gw_npy x;

    memset(s, 0, sizeof(*s));
    snprintf(s->name, sizeof(s->name), "%s", name);
    pack_path(path, sizeof(path), 1, input);
    if (gw_npy_read(path, &x, err, sizeof(err))) {
        printf("FAILED %s\n", err);
        return -1;
    }
    s->nin = 1;
    s->in[0] = (struct pack_tensor){
        .dtype = GW_DTYPE_F32, .rank = x.rank, .count = x.count, .bytes = x.count * 4, .data = x.data};
    for (uint32_t i = 0; i < x.rank; i++) s->in[0].dims[i] = (uint32_t)x.dims[i];
    return 0;
}

/* Runs a model of the repository; its output, or NULL. */
static float *run_model(struct setup *t, const struct sample *s, size_t *count)
{
    struct gw_plan_options o = {.place = t->exec ? GW_PLACE_GPU : GW_PLACE_CPU, .exec = t->exec};
    char path[1024], name[256], err[GW_MODEL_ERR] = "";
    struct gw_model *m = NULL;
    struct gw_plan *plan = NULL;
    float *y = NULL;

    snprintf(name, sizeof(name), "%s/1/model.onnx", s->name);
    pack_path(path, sizeof(path), 1, name);
    int rc = gw_model_open(path, &m, err, sizeof(err));
    if (!rc) rc = gw_plan_create(m, &o, &plan, err, sizeof(err));
    if (!rc) {
        *count = gw_model_output(m, 0)->bytes / 4;
        y = aligned_alloc(64, (*count * 4 + 64) / 64 * 64);
        rc = gw_plan_run(plan, (const void *[]){s->in[0].data}, (void *[]){y});
    }
    if (rc) {
        fail(t, s, "run", *err ? err : strerror(-rc));
        free(y);
        y = NULL;
    }
    gw_plan_free(plan);
    gw_model_close(m);
    return y;
}

/* The super-resolution network on its golden tile: every fourth pixel of every fourth row is known. And
 * identity. */
static void run_models(struct setup *t)
{
    char path[1024], err[GW_MODEL_ERR];
    struct sample s;
    struct gw_npy want;
    size_t count = 0;

    if (read_model(&s, "superresolution", "superresolution/golden_input.npy")) exit(1);
    pack_path(path, sizeof(path), 1, "superresolution/golden_output.npy");
    if (gw_npy_read(path, &want, err, sizeof(err))) exit(fail(t, &s, "golden", err) < 0);
    float *y = run_model(t, &s, &count);
    if (y && count == 672 * 672 && want.count == 168 * 168) {
        for (size_t i = 0; i < want.count; i++)
            y[i] = y[i / 168 * 4 * 672 + i % 168 * 4]; /* never past what it reads */
        s.nout = 1;
        s.out[0] = (struct pack_tensor){
            .dtype = GW_DTYPE_F32, .count = want.count, .bytes = want.count * 4, .data = want.data};
        t->passed += !compare(t, &s, (void *[]){y}, "golden");
    } else if (y) {
        fail(t, &s, "golden", "another size");
    }
    free(y);
    gw_npy_free(&want);
    snprintf(s.name, sizeof(s.name), "identity");
    y = run_model(t, &s, &count);
    if (y && (count != s.in[0].count || memcmp(y, s.in[0].data, count * 4)))
        fail(t, &s, "run", "the output is not the input");
    else
        t->passed += y != NULL;
    free(y);
    free(s.in[0].data);
}

/* Has it numbers that fp16 cannot hold? */
static bool too_large(const struct sample *s)
{
    bool large = false;

    for (uint32_t i = 0; i < s->nout; i++) {
        float *f = floats(&s->out[i], s->out[i].data);
        for (size_t k = 0; k < s->out[i].count; k++) large = large || fabsf(f[k]) > 65504;
        free(f);
    }
    return large;
}

/* A sample in every kind of plan. A GPU's take several kernels for one node. */
static void run_kinds(struct setup *t, const struct sample *s)
{
    static const uint32_t kinds[] = {GW_PLAN_GPU_IO,
                                     GW_PLAN_GPU_IO | GW_PLAN_F16,
                                     GW_PLAN_F16,
                                     GW_PLAN_GPU_IO | GW_PLAN_TF32,
                                     GW_PLAN_OWN,
                                     GW_PLAN_RESIDENT | GW_PLAN_GPU_IO,
                                     GW_PLAN_RESIDENT | GW_PLAN_F16};
    size_t all = sizeof(kinds) / sizeof(kinds[0]), n = 0;
    bool resident = !strcmp(t->which, "resident");

    if (t->exec && !resident) n = strcmp(t->which, "gpu") ? 2 : all;
    int rc = resident ? run_sample(t, s, GW_PLAN_RESIDENT) : run_sample(t, s, 0);
    if (resident && !rc && !too_large(s)) rc = run_sample(t, s, GW_PLAN_RESIDENT | GW_PLAN_F16);
    for (size_t i = 0; i < n && !rc; i++)
        if (!(kinds[i] & GW_PLAN_F16) || !too_large(s)) rc = run_sample(t, s, kinds[i]);
    t->flags = 0;
}

static int run_pack(struct setup *t, const char *name)
{
    struct pack p;

    if (pack_open(&p, name)) return -1;
    while (p.at < p.len) {
        static struct sample s;
        read_sample(&p, &s);
        if (!t->only || strstr(s.name, t->only)) run_kinds(t, &s);
        free_sample(&s);
    }
    pack_close(&p);
    return 0;
}

static int run_all(struct setup *t)
{
    if (run_pack(t, "goldens.bin")) return 1;
    if (run_pack(t, "operators.bin")) return 1;
    if (run_pack(t, "special.bin")) return 1;
    if (t->only ? !strcmp(t->only, "models")
                : !t->exec || !strcmp(t->which, "gpu")) /* emulated it takes a minute */
        run_models(t);
    printf(
        "measured: %d runs of models right on %s, %d wrong; worst difference %.2g of the largest magnitude\n",
        t->passed, t->which, t->failed, t->worst);
    if (t->worst_rounded > 0) printf("measured: worst difference in TF32 or fp16: %.2g\n", t->worst_rounded);
    return t->failed || !t->passed;
}

int main(int argc, char **argv)
{
    struct setup t = {.which = "cpu"};
    struct gw_exec_opts lanes = {.lanes = 128, .blocks = 1}, few = {.lanes = 2, .blocks = 3};
    char why[256];

    setenv("GPUWIRE_PLAN_CACHE", "off", 0); /* a test leaves no files */
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            t.which = argv[++i];
        else
            t.only = argv[i];
    }
    if (strcmp(t.which, "cpu") && strcmp(t.which, "gpu") && strcmp(t.which, "kernels") &&
        strcmp(t.which, "resident")) {
        fprintf(stderr, "usage: test_model_golden [--exec cpu|gpu|kernels|resident] [NAME | models]\n");
        return 2;
    }
    if (!strcmp(t.which, "gpu") && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    if (strcmp(t.which, "cpu") && gw_exec_create(strcmp(t.which, "gpu") ? "cpu" : "gpu",
                                                 !strcmp(t.which, "gpu")       ? NULL
                                                 : strcmp(t.which, "resident") ? &lanes
                                                                               : &few,
                                                 &t.exec)) {
        printf("FAILED %s\n", gw_last_error());
        return 1;
    }
    int rc = run_all(&t);
    if (t.exec) gw_exec_destroy(t.exec);
    return rc;
}
