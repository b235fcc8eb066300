/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an ONNX file: imported, and, when the model is small, planned for the CPU and the GPU and run
 * on the CPU. Files are mutated mostly in place, so that lengths stay right, and start from the models of
 * tests/model.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/graph/graph.h"
#include "src/model/import/import.h"
#include "tests/model/pack.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define MAX_SEEDS 512
#define MAX_WORK  4000000 /* multiplications and copies of one run */

static struct {
    const void *onnx;
    size_t len;
} seeds[MAX_SEEDS];
static int nseeds;
static struct gw_exec *exec;

static void skip_tensors(struct pack *p)
{
    for (uint32_t n = pack_u32(p); n; n--) {
        struct pack_tensor t;
        pack_tensor(p, &t);
        free(t.data);
    }
}

static void add_seeds(struct pack *p, const char *file)
{
    char name[128];

    if (pack_open(p, file)) abort();
    while (p->at < p->len && nseeds < MAX_SEEDS) {
        pack_text(p, name, sizeof(name));
        seeds[nseeds].onnx = pack_blob(p, &seeds[nseeds].len);
        skip_tensors(p);
        skip_tensors(p);
        nseeds++;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static struct pack plain, more;
    struct gw_exec_opts lanes = {.lanes = 128, .blocks = 1};

    (void)argc;
    (void)argv;
    if (gw_exec_create("cpu", &lanes, &exec)) abort();
    add_seeds(&plain, "goldens.bin");
    add_seeds(&more, "operators.bin");
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    uint32_t r = seed * 2654435761u;

    if (size < 8 || r % 31 == 0) {
        int i = (int)((r >> 8) % (uint32_t)nseeds);
        if (seeds[i].len <= max_size) {
            memcpy(data, seeds[i].onnx, seeds[i].len);
            size = seeds[i].len;
        }
    }
    if (r % 3 == 0 || !size) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t k = 0; k <= r % 4; k++) { /* in place: a few bytes, as numbers mostly small */
        r = r * 1664525 + 1013904223;
        uint8_t *at = &data[(r >> 8) % size];
        r = r * 1664525 + 1013904223;
        *at = r >> 30 ? (uint8_t)(*at ^ 1u << (r >> 8 & 7)) : (uint8_t)(r >> 16);
    }
    return size;
}

/* How much one run computes, or more than MAX_WORK. */
static uint64_t work(const struct gwm_graph *g)
{
    uint64_t sum = 0;

    for (int v = 0; v < g->nvalue; v++) sum += (uint64_t)g->value[v].count;
    for (int i = 0; i < g->nnode && sum <= MAX_WORK; i++) {
        const struct gwm_node *n = &g->node[i];
        bool conv = n->op == GWM_CONV || n->op == GWM_DECONV;
        const struct gwm_window *w = conv ? &n->conv.win : &n->pool.win;
        uint64_t each = 1;
        if (conv || n->op == GWM_POOL)
            each = (uint64_t)w->kh * (uint64_t)w->kw * (conv ? (uint64_t)(w->c / n->conv.group) : 1);
        else if (n->op == GWM_GEMM)
            each = (uint64_t)n->gemm.k;
        else if (n->op == GWM_INTERP)
            each = (uint64_t)n->interp.taps;
        sum += (uint64_t)g->value[n->out].count * each;
    }
    return sum;
}

static bool small(const uint8_t *data, size_t size)
{
    struct gwm_msg msg = {NULL, 0, "fuzz"};
    struct gwm_graph *g;

    if (gwm_import(data, size, &g, &msg)) return false;
    bool yes = g->nnode <= 64 && work(g) <= MAX_WORK;
    gwm_graph_free(g);
    return yes;
}

static void run_cpu(struct gw_model *m, uint32_t rows)
{
    struct gw_plan_options cpu = {.rows = rows};
    void *mem[2][GW_MODEL_MAX_IO] = {{0}};
    struct gw_plan *plan;

    if (gw_plan_create(m, &cpu, &plan, NULL, 0)) return;
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < (k ? gw_model_outputs(m) : gw_model_inputs(m)); i++) {
            const struct gw_tensor_info *t = k ? gw_model_output(m, i) : gw_model_input(m, i);
            size_t bytes = t->bytes * (t->batched ? rows : 1);
            mem[k][i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
            memset(mem[k][i], 0x3e, bytes);
        }
    if (gw_plan_run(plan, (const void *const *)mem[0], mem[1])) abort();
    for (uint32_t i = 0; i < GW_MODEL_MAX_IO; i++) {
        free(mem[0][i]);
        free(mem[1][i]);
    }
    gw_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_plan_options gpu = {.place = GW_PLACE_GPU, .exec = exec};
    char err[GW_MODEL_ERR] = "";
    struct gw_model *m;
    struct gw_plan *plan;
    int rc = gw_model_open_bytes(data, size, "fuzz", &m, err, sizeof(err));

    if (rc) {
        if (rc > 0 || !*err || strchr(err, '\n')) abort(); /* every refusal has its line */
        return 0;
    }
    if (small(data, size)) {
        run_cpu(m, 1);
        run_cpu(m, 3);
        if (!gw_plan_create(m, &gpu, &plan, err, sizeof(err))) gw_plan_free(plan);
    }
    gw_model_close(m);
    return 0;
}
