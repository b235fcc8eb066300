/* SPDX-License-Identifier: Apache-2.0 */
/* How many lanes, pages and requests a generator has, from its options and its network. */
#include <errno.h>
#include <sys/random.h>

#include <gpuwire/dtype.h>
#include <gpuwire/error.h>

#include "src/generate/worker/worker_impl.h"

#define LANES       32u
#define CONTEXT     4096u
#define REQUESTS    1024u
#define CACHE_BYTES (UINT64_C(1) << 30)
#define PROMPT_CPU  32u
#define PROMPT_GPU  256u
#define MIN_DEPTH   16u

static uint32_t choose_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int choose_lanes(struct gen_worker *w)
{
    const struct gen_worker_opts *o = &w->opts;
    const struct gen_net_shape *n = &w->net;
    uint32_t most = n->fixed_lanes ? n->fixed_positions : n->max_position;
    w->shape.fixed = n->fixed_lanes != 0;
    w->shape.lanes = n->fixed_lanes ? n->fixed_lanes : o->lanes ? o->lanes : LANES;
    w->shape.context = o->context ? o->context : n->fixed_lanes ? most : choose_min(most, CONTEXT);
    if (w->shape.context > most)
        return gw_error(-EINVAL, "model %s: --context %u, and the model knows %u positions", w->name,
                        w->shape.context, most);
    if (w->shape.fixed && w->shape.context != most)
        return gw_error(-EINVAL,
                        "model %s: its graphs were captured for %u positions; --context must be that",
                        w->name, most);
    if (w->shape.lanes > GEN_MAX_LANES)
        return gw_error(-EINVAL, "model %s: --lanes %u: must be 1 to %u", w->name, w->shape.lanes,
                        GEN_MAX_LANES);
    return 0;
}

static unsigned long long choose_mib(uint64_t bytes)
{
    return (bytes + (1u << 20) - 1) >> 20;
}

/* Pages for all lanes with their longest context, or what fits into the memory that there may be. One request
 * must be able to have the whole context. */
static int choose_pages(struct gen_worker *w)
{
    const struct gen_net_shape *n = &w->net;
    struct gen_cache c = {.layers = n->layers, .heads = n->heads, .width = n->width, .dtype = n->dtype};
    uint64_t page = gen_cache_page_elements(&c) * gw_dtype_bytes((enum gw_dtype)n->dtype);
    uint64_t each = (w->shape.context + GEN_PAGE - 1) / GEN_PAGE, all = each * w->shape.lanes;
    uint64_t limit = w->opts.cache_bytes ? w->opts.cache_bytes : CACHE_BYTES;
    if (!page) return gw_error(-EINVAL, "model %s: its cache has no element", w->name);
    if (!w->shape.fixed && all > limit / page) all = limit / page;
    if (all < each && !w->opts.cache_bytes) all = each;
    if (all < each)
        return gw_error(-ENOMEM,
                        "model %s: a context of %u tokens takes %llu MiB of keys and values, and --kv-memory "
                        "is %llu MiB; raise it, or lower --context",
                        w->name, w->shape.context, choose_mib(each * page), choose_mib(limit));
    if (all > UINT32_MAX) return gw_error(-EINVAL, "model %s: lower --kv-memory", w->name);
    w->shape.pages = (uint32_t)all;
    w->cache_bytes = all * page;
    return 0;
}

static int choose_requests(struct gen_worker *w)
{
    const struct gen_worker_opts *o = &w->opts;
    uint64_t slots = (uint64_t)(o->sessions + o->own_sessions) * o->slots;
    bool gpu = gw_exec_kind(o->exec) == GW_EXEC_GPU;
    w->shape.sessions = o->sessions + o->own_sessions;
    w->shape.slots = o->slots;
    if (!o->slots || o->slots > GEN_MAX_SLOTS || !w->shape.sessions)
        return gw_error(-EINVAL, "model %s: --slots: must be 1 to %u, and there must be a session", w->name,
                        GEN_MAX_SLOTS);
    w->shape.requests = o->requests ? o->requests : slots < REQUESTS ? (uint32_t)slots : REQUESTS;
    if (w->shape.requests < w->shape.lanes) w->shape.requests = w->shape.lanes;
    /* Each lane posts an event with each step, and acknowledgements come a little later. */
    w->shape.depth = 2 * choose_min(o->slots, w->shape.lanes);
    if (w->shape.depth < MIN_DEPTH) w->shape.depth = MIN_DEPTH;
    w->shape.vocab = w->net.vocab;
    for (w->shape.sizes = 0; w->shape.sizes < w->net.sizes; w->shape.sizes++)
        w->shape.size[w->shape.sizes] = w->net.size[w->shape.sizes];
    w->shape.mixed_rows = w->shape.lanes + (o->prompt_rows ? o->prompt_rows : gpu ? PROMPT_GPU : PROMPT_CPU);
    w->shape.mixed_rows = choose_min(w->shape.mixed_rows, w->net.size[w->net.sizes - 1]);
    w->shape.picks = w->net.sizes > 1;
    return 0;
}

int gen_worker_choose(struct gen_worker *w)
{
    w->opts.net.ops->shape(w->opts.net.own, &w->net);
    if (!w->net.sizes || w->net.sizes > GEN_NET_SIZES)
        return gw_error(-EINVAL, "model %s: a network has 1 to %u sizes", w->name, GEN_NET_SIZES);
    int err = choose_lanes(w);
    if (!err) err = choose_requests(w);
    if (!err) err = choose_pages(w);
    if (!err && getrandom(&w->shape.secret, sizeof(w->shape.secret), 0) != sizeof(w->shape.secret))
        err = gw_error_errno(-errno, "generate: no random numbers");
    uint32_t tokens = w->opts.max_tokens;
    w->source = (struct gen_source_shape){.vocab = w->net.vocab,
                                          .context = w->shape.context,
                                          .max_tokens =
                                              tokens && tokens < w->shape.context ? tokens : w->shape.context,
                                          .lanes = w->shape.lanes};
    return err;
}
