/* SPDX-License-Identifier: Apache-2.0 */
/* A network that hashes what its cache holds. */
#include "tests/generate/worker/fake_net.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void fake_shape(const void *net, struct gen_net_shape *out)
{
    const struct fake_net *f = net;
    *out = (struct gen_net_shape){.kind = "fake",
                                  .vocab = FAKE_VOCAB,
                                  .max_position = 100000,
                                  .layers = 1,
                                  .heads = 1,
                                  .width = 1,
                                  .dtype = GW_DTYPE_F32,
                                  .size = {f->rows ? f->rows : 256},
                                  .sizes = 1};
}

static int fake_bind(void *net, struct gw_exec *exec, struct gen_net_memory *memory)
{
    (void)exec;
    ((struct fake_net *)net)->memory = *memory;
    return 0;
}

static float *fake_at(const struct fake_net *f, uint32_t lane, uint32_t position)
{
    const struct gen_step *s = f->memory.step;
    uint32_t page = s->page[lane * s->lane_pages + position / GEN_PAGE];
    return (float *)f->memory.cache.at + gen_cache_page(&f->memory.cache, 0, 0, page) + position % GEN_PAGE;
}

static uint32_t fake_hash(uint32_t h, uint32_t token)
{
    return (h ^ token) * 16777619u;
}

uint32_t fake_net_next(const uint32_t *token, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++) h = fake_hash(h, token[i]);
    return (h >> 7) % FAKE_VOCAB;
}

static void fake_row(const struct fake_net *f, uint32_t i)
{
    const struct gen_step *s = f->memory.step;
    uint32_t row = s->out[i], h = 2166136261u;
    float *logit = f->memory.logits + (size_t)i * f->memory.logit_stride;
    for (uint32_t p = 0; p <= s->position[row]; p++) h = fake_hash(h, (uint32_t)*fake_at(f, s->lane[row], p));
    for (uint32_t k = 0; k < FAKE_VOCAB; k++) logit[k] = (float)((k * 7919u + h) % 13u) * 0.25f;
    logit[(h >> 7) % FAKE_VOCAB] = 20;
}

static int fake_run(void *ctx)
{
    struct fake_net *f = ctx;
    struct gen_step *s = f->memory.step;
    uint32_t nap = __atomic_load_n(&f->sleep_us, __ATOMIC_RELAXED);
    if (!s->rows) return 0;
    __atomic_fetch_add(&f->steps, 1, __ATOMIC_RELAXED);
    if (nap) usleep(nap);
    s->failed = __atomic_load_n(&f->fail, __ATOMIC_RELAXED) ? EIO : 0;
    for (uint32_t r = 0; r < s->rows; r++) *fake_at(f, s->lane[r], s->position[r]) = (float)s->token[r];
    for (uint32_t i = 0; i < s->outs; i++) fake_row(f, i);
    return 0;
}

static int fake_add(void *net, struct gw_loop *loop, uint32_t variant, uint32_t size)
{
    (void)size;
    const struct gw_loop_stage stage = {.name = "fake", .run = fake_run, .ctx = net, .variant = variant};
    return gw_loop_add(loop, &stage);
}

static void fake_free(void *net)
{
    (void)net;
}

static const struct gen_net_ops fake_ops = {fake_shape, fake_bind, fake_add, fake_free};

struct gen_net fake_net_of(struct fake_net *own)
{
    return (struct gen_net){&fake_ops, own};
}
