/* SPDX-License-Identifier: Apache-2.0 */
/* Captured graphs as a network: each size's stage puts its graph into the loop's. */
#include "src/generate/captured/captured.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/loop/child.h"

struct captured_net {
    struct gen_captured at; /* `graph` is the array below */
    struct gen_captured_graph graph[GEN_NET_SIZES];
    uint32_t graphs; /* copied so far */
};

static int captured_net_bad(const char *what)
{
    return gw_error(-EINVAL, "a captured network: %s", what);
}

static bool captured_net_is_cache(const struct gen_cache *c)
{
    bool type = c->dtype == GW_DTYPE_F32 || c->dtype == GW_DTYPE_F16 || c->dtype == GW_DTYPE_BF16;

    return type && c->at && c->layers && c->pages && c->heads && c->width;
}

static int captured_net_check(const struct gen_captured *c)
{
    const void *words[] = {c->step, c->token, c->position, c->lane, c->out, c->page, c->run, c->logits};

    if (!c->vocab || !c->max_position) return captured_net_bad("no vocabulary, or no positions");
    if (!c->max_rows || c->max_rows > GEN_MAX_ROWS) return captured_net_bad("rows: 1 to 1,024");
    if (!c->lanes || c->lanes > GEN_MAX_LANES || !c->lane_pages) return captured_net_bad("lanes: 1 to 256");
    if (!captured_net_is_cache(&c->cache))
        return captured_net_bad("a cache of floats, with layers, pages and heads");
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (!words[i] || (uintptr_t)words[i] % 8) return captured_net_bad("an address is no multiple of 8");
    if (!c->graph || !c->graphs || c->graphs > GEN_NET_SIZES) return captured_net_bad("graphs: 1 to 16");
    for (uint32_t i = 0; i < c->graphs; i++)
        if (!c->graph[i].graph || c->graph[i].rows <= (i ? c->graph[i - 1].rows : 0))
            return captured_net_bad("graphs must be for ascending numbers of rows");
    return c->graph[c->graphs - 1].rows == c->max_rows
               ? 0
               : captured_net_bad("the last graph must have max_rows");
}

static void captured_net_shape(const void *net, struct gen_net_shape *out)
{
    const struct captured_net *n = net;

    *out = (struct gen_net_shape){.kind = "captured",
                                  .vocab = n->at.vocab,
                                  .max_position = n->at.max_position,
                                  .layers = n->at.cache.layers,
                                  .heads = n->at.cache.heads,
                                  .width = n->at.cache.width,
                                  .dtype = n->at.cache.dtype,
                                  .sizes = n->graphs,
                                  .own_lanes = n->at.lanes,
                                  .own_lane_pages = n->at.lane_pages,
                                  .own_pages = n->at.cache.pages,
                                  .weight_bytes = n->at.weight_bytes};
    for (uint32_t i = 0; i < n->graphs; i++) out->size[i] = n->graph[i].rows;
}

/* The graphs' own memory takes the place of the worker's. */
static int captured_net_bind(void *net, struct gw_exec *exec, struct gen_net_memory *memory)
{
    const struct gen_captured *c = &((struct captured_net *)net)->at;
    struct gen_step step = {.max_rows = c->max_rows,
                            .lanes = c->lanes,
                            .lane_pages = c->lane_pages,
                            .token = c->token,
                            .position = c->position,
                            .lane = c->lane,
                            .run = c->run,
                            .out = c->out,
                            .page = c->page};
    int err = gw_copy_in(exec, c->step, &step, sizeof(step));

    if (err) return err;
    *memory = (struct gen_net_memory){
        .step = c->step, .cache = c->cache, .logits = c->logits, .logit_stride = c->vocab};
    return 1;
}

static int captured_net_enqueue(void *graph, void *stream)
{
    return gw_child_put(stream, graph);
}

static int captured_net_add(void *net, struct gw_loop *loop, uint32_t variant, uint32_t size)
{
    struct captured_net *n = net;

    for (uint32_t i = 0; i < n->graphs; i++) {
        struct gw_loop_stage stage = {.name = "network", .enqueue = captured_net_enqueue, .variant = variant};

        if (n->graph[i].rows != size) continue;
        stage.ctx = n->graph[i].graph;
        return gw_loop_add(loop, &stage);
    }
    return gw_error(-EINVAL, "no graph was captured for %u rows", size);
}

static void captured_net_free(void *net)
{
    struct captured_net *n = net;

    for (uint32_t i = 0; i < n->graphs; i++) gw_child_drop(n->graph[i].graph);
    free(n);
}

static const struct gen_net_ops captured_net_ops = {captured_net_shape, captured_net_bind, captured_net_add,
                                                    captured_net_free};

int gen_captured_net(const struct gen_captured *c, struct gen_net *out)
{
    int err = captured_net_check(c);
    struct captured_net *n = err ? NULL : calloc(1, sizeof(*n));

    if (!n) return err ? err : gw_error(-ENOMEM, "no memory for a captured network");
    n->at = *c;
    for (; !err && n->graphs < c->graphs; n->graphs += !err) {
        n->graph[n->graphs].rows = c->graph[n->graphs].rows;
        err = gw_child_clone(c->graph[n->graphs].graph, &n->graph[n->graphs].graph);
    }
    if (err) {
        captured_net_free(n);
        return err;
    }
    n->at.graph = n->graph;
    *out = (struct gen_net){&captured_net_ops, n};
    return 0;
}
