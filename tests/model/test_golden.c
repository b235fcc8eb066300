/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operator, in a couple of forms, and small whole networks: results against those of ONNX Runtime.
 *
 *     test_model_golden [--exec cpu|gpu|kernels] [NAME | models]
 *
 * cpu: oneDNN and own loops. gpu: own kernels, direct, and once more with indirect addresses; exit code 77
 * without a GPU. kernels: the GPU's kernels on CPU threads.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/npy.h"
#include "tests/model/pack.h"

#define TOLERANCE 1e-4 /* of the tensor's largest magnitude */

struct setup {
    const char *which, *only;
    struct gw_exec *exec;
    int failed, passed;
    double worst;
};

struct sample {
    char name[128];
    const void *onnx;
    size_t len;
    uint32_t nin, nout;
    struct pack_tensor in[16], out[16];
};

static void read_sample(struct pack *p, struct sample *s)
{
    pack_text(p, s->name, sizeof(s->name));
    s->onnx = pack_blob(p, &s->len);
    s->nin = pack_u32(p);
    for (uint32_t i = 0; i < s->nin; i++) pack_tensor(p, &s->in[i]);
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
    char why[128];

    if (info->dtype != GW_DTYPE_F32 || info->rank != want->rank || info->bytes != want->count * 4) {
        snprintf(why, sizeof(why), "%s: rank %u, %zu bytes; expected rank %u, %zu bytes", info->name,
                 info->rank, (size_t)info->bytes, want->rank, want->count * 4);
        return fail(t, s, "shape", why);
    }
    for (uint32_t i = 0; i < info->rank; i++)
        if (info->dims[i] != want->dims[i]) return fail(t, s, "shape", info->name);
    return 0;
}

static int compare(struct setup *t, const struct sample *s, float *const got[], const char *what)
{
    char why[160];

    for (uint32_t i = 0; i < s->nout; i++) {
        struct gw_tensor_diff d;
        gw_tensor_compare(got[i], s->out[i].data, s->out[i].count, TOLERANCE, &d);
        if (d.worst > t->worst) t->worst = d.worst;
        if (!d.wrong) continue;
        snprintf(why, sizeof(why),
                 "output %u: %zu of %zu differ, the worst by %.2g; [%zu] is %g, expected %g", i, d.wrong,
                 s->out[i].count, d.worst, d.first, got[i][d.first],
                 ((const float *)s->out[i].data)[d.first]);
        return fail(t, s, what, why);
    }
    return 0;
}

/* Device memory for all tensors and the block of addresses; enqueue, and read back. */
static int run_indirect(struct setup *t, const struct sample *s, struct gw_plan *plan, float *const got[])
{
    struct gw_mem io = {0}, mem[32] = {{0}};
    uint32_t n = 0;
    int rc = gw_mem_alloc(t->exec, GW_MEM_HOST, sizeof(struct gw_plan_io), &io);

    for (uint32_t i = 0; i < s->nin && !rc; i++, n++) {
        rc = gw_mem_alloc(t->exec, GW_MEM_DEVICE, s->in[i].count * 4, &mem[n]);
        if (!rc) rc = gw_copy_in(t->exec, mem[n].dev, s->in[i].data, s->in[i].count * 4);
        if (!rc) ((struct gw_plan_io *)io.host)->in[i] = mem[n].dev;
    }
    for (uint32_t i = 0; i < s->nout && !rc; i++, n++) {
        rc = gw_mem_alloc(t->exec, GW_MEM_DEVICE, s->out[i].count * 4, &mem[n]);
        if (!rc) ((struct gw_plan_io *)io.host)->out[i] = mem[n].dev;
    }
    if (!rc) rc = gw_plan_enqueue_indirect(plan, gw_exec_stream(t->exec), (struct gw_plan_io *)io.dev);
    if (!rc) rc = gw_exec_sync(t->exec, gw_deadline(60000000000u));
    for (uint32_t i = 0; i < s->nout && !rc; i++)
        rc = gw_copy_out(t->exec, got[i], mem[s->nin + i].dev, s->out[i].count * 4);
    for (uint32_t i = 0; i < n; i++) gw_mem_free(&mem[i]);
    gw_mem_free(&io);
    return rc ? fail(t, s, "indirect", gw_last_error()) : compare(t, s, got, "indirect");
}

static int run_plan(struct setup *t, const struct sample *s, struct gw_plan *plan, uint32_t flags)
{
    const void *in[16];
    float *got[16];
    void *out[16];
    int rc = 0;

    for (uint32_t i = 0; i < s->nin; i++) in[i] = s->in[i].data;
    for (uint32_t i = 0; i < s->nout; i++) {
        out[i] = got[i] = aligned_alloc(64, (s->out[i].count * 4 + 64) / 64 * 64);
        memset(got[i], 0xff, s->out[i].count * 4);
    }
    int rounds = strcmp(t->which, "kernels") ? 2 : 1; /* emulated they are slow */
    for (int round = 0; round < rounds && !rc;
         round++) { /* the second sees what the first left in the arena */
        rc = gw_plan_run(plan, in, out);
        rc = rc ? fail(t, s, "run", strerror(-rc)) : compare(t, s, got, "run");
    }
    if (!rc && t->exec && (rounds == 2 || !flags)) {
        for (uint32_t i = 0; i < s->nout; i++) memset(got[i], 0xff, s->out[i].count * 4);
        rc = run_indirect(t, s, plan, got);
    }
    for (uint32_t i = 0; i < s->nout; i++) free(got[i]);
    return rc;
}

static int run_sample(struct setup *t, const struct sample *s, uint32_t flags)
{
    struct gw_plan_options o = {
        .place = t->exec ? GW_PLACE_GPU : GW_PLACE_CPU, .exec = t->exec, .flags = flags};
    char err[GW_MODEL_ERR] = "";
    struct gw_model *m;
    struct gw_plan *plan = NULL;
    int rc = 0;

    if (gw_model_open_bytes(s->onnx, s->len, s->name, &m, err, sizeof(err))) return fail(t, s, "open", err);
    if (gw_model_inputs(m) != s->nin || gw_model_outputs(m) != s->nout)
        rc = fail(t, s, "open", "another number of inputs or outputs");
    for (uint32_t i = 0; i < s->nin && !rc; i++) rc = check_info(t, s, gw_model_input(m, i), &s->in[i]);
    for (uint32_t i = 0; i < s->nout && !rc; i++) rc = check_info(t, s, gw_model_output(m, i), &s->out[i]);
    if (!rc && gw_plan_create(m, &o, &plan, err, sizeof(err))) rc = fail(t, s, "plan", err);
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
    s->in[0] = (struct pack_tensor){.rank = x.rank, .count = x.count, .data = x.data};
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
            y[i] = y[i / 168 * 4 * 672 + i % 168 * 4]; /* never behind what it reads */
        s.nout = 1;
        s.out[0] = (struct pack_tensor){.count = want.count, .data = want.data};
        t->passed += !compare(t, &s, &y, "golden");
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

static int run_all(struct setup *t)
{
    struct pack p;

    if (pack_open(&p, "goldens.bin")) return 1;
    while (p.at < p.len) {
        static struct sample s;
        read_sample(&p, &s);
        if (!t->only || strstr(s.name, t->only))
            if (!run_sample(t, &s, 0) && t->exec) run_sample(t, &s, GW_PLAN_GPU_IO);
        free_sample(&s);
    }
    pack_close(&p);
    if (t->only ? !strcmp(t->only, "models") : strcmp(t->which, "kernels")) /* emulated it takes a minute */
        run_models(t);
    printf(
        "measured: %d runs of models right on %s, %d wrong; worst difference %.2g of the largest magnitude\n",
        t->passed, t->which, t->failed, t->worst);
    return t->failed || !t->passed;
}

int main(int argc, char **argv)
{
    struct setup t = {.which = "cpu"};
    struct gw_exec_opts lanes = {.lanes = 128, .blocks = 1};
    char why[256];

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            t.which = argv[++i];
        else
            t.only = argv[i];
    }
    if (strcmp(t.which, "cpu") && strcmp(t.which, "gpu") && strcmp(t.which, "kernels")) {
        fprintf(stderr, "usage: test_model_golden [--exec cpu|gpu|kernels] [NAME | models]\n");
        return 2;
    }
    if (!strcmp(t.which, "gpu") && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    if (strcmp(t.which, "cpu") && gw_exec_create(strcmp(t.which, "gpu") ? "cpu" : "gpu",
                                                 strcmp(t.which, "gpu") ? &lanes : NULL, &t.exec)) {
        printf("FAILED %s\n", gw_last_error());
        return 1;
    }
    int rc = run_all(&t);
    if (t.exec) gw_exec_destroy(t.exec);
    return rc;
}
