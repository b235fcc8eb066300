/* SPDX-License-Identifier: Apache-2.0 */
/* Where the scheduler's records lie in its two pieces of memory. */
#include "src/generate/device/device.h"

#include <errno.h>

#include <gpuwire/error.h>

/* A piece of memory that is given away from its begin. `at` may be NULL, to count alone. */
struct piece {
    uint8_t *at;
    uint64_t used;
};

static void *piece_take(struct piece *p, uint64_t count, uint64_t size)
{
    uint64_t from = p->used;
    p->used += (count * size + 63) & ~(uint64_t)63; /* no two arrays share a cache line */
    return p->at ? p->at + from : NULL;
}

#define TAKE(p, type, count) ((type *)piece_take(p, count, sizeof(type)))

static uint32_t mask_for(uint64_t places)
{
    uint32_t mask = 1;
    while (mask + UINT64_C(1) < places) mask = mask << 1 | 1;
    return mask;
}

static int device_check(const struct gen_device_shape *s)
{
    if (!s->sessions || s->sessions > GEN_MAX_SESSIONS)
        return gw_error(-EINVAL, "generate: %u sessions: 1 to %u", s->sessions, GEN_MAX_SESSIONS);
    if (!s->slots || s->slots > GEN_MAX_SLOTS)
        return gw_error(-EINVAL, "generate: %u slots: 1 to %u", s->slots, GEN_MAX_SLOTS);
    if (!s->lanes || s->lanes > GEN_MAX_LANES)
        return gw_error(-EINVAL, "generate: %u lanes: 1 to %u", s->lanes, GEN_MAX_LANES);
    if (s->requests < s->lanes || s->requests > 1u << 24)
        return gw_error(-EINVAL, "generate: %u requests: %u (the lanes) to %u", s->requests, s->lanes,
                        1u << 24);
    if (!s->depth || !s->pages || s->pages > 1u << 28)
        return gw_error(-EINVAL, "generate: %u events under way, %u pages: 1 or more", s->depth, s->pages);
    if (s->context < 2 || s->context > 1u << 24)
        return gw_error(-EINVAL, "generate: a context of %u tokens: 2 to %u", s->context, 1u << 24);
    if (!s->vocab || s->vocab > 1u << 24)
        return gw_error(-EINVAL, "generate: a vocabulary of %u tokens: 1 to %u", s->vocab, 1u << 24);
    if (!s->sizes || s->sizes > GEN_NET_SIZES)
        return gw_error(-EINVAL, "generate: %u sizes of steps: 1 to %u", s->sizes, GEN_NET_SIZES);
    for (uint32_t i = 0; i < s->sizes; i++)
        if (s->size[i] > GEN_MAX_ROWS || s->size[i] <= (i ? s->size[i - 1] : 0))
            return gw_error(-EINVAL, "generate: steps of %u rows: sizes ascend, to %u", s->size[i],
                            GEN_MAX_ROWS);
    return 0;
}

static uint32_t lane_pages_of(const struct gen_device_shape *s)
{
    return (s->context + GEN_PAGE - 1) / GEN_PAGE;
}

static void place_step(const struct gen_device_shape *s, struct piece *p, struct gen_step *step)
{
    step->max_rows = s->size[s->sizes - 1];
    step->lanes = s->lanes;
    step->lane_pages = lane_pages_of(s);
    step->token = TAKE(p, uint32_t, step->max_rows);
    step->position = TAKE(p, uint32_t, step->max_rows);
    step->lane = TAKE(p, uint32_t, step->max_rows);
    step->run = TAKE(p, struct gen_run, step->max_rows);
    step->out = TAKE(p, uint32_t, s->lanes);
    step->page = TAKE(p, uint32_t, (uint64_t)s->lanes * step->lane_pages);
}

static void place_numbers(const struct gen_device_shape *s, struct gen_args *a)
{
    a->in_stride = gen_slot_stride(s->context);
    a->secret = s->secret;
    a->vocab = a->logit_stride = s->vocab;
    a->sessions = s->sessions;
    a->slots = s->slots;
    a->depth = s->depth;
    a->requests = s->requests;
    a->lanes = s->lanes;
    a->pages = s->pages;
    a->lane_pages = lane_pages_of(s);
    a->context = s->context;
    a->change_mask = mask_for(2 * (uint64_t)s->sessions);
    a->bucket_mask = mask_for(s->pages);
    for (uint32_t i = 0; i < s->sizes; i++) a->size[i] = s->size[i];
    a->sizes = s->sizes;
    a->mixed_rows = s->mixed_rows ? s->mixed_rows : s->size[s->sizes - 1];
    a->fixed = s->fixed;
    a->picks = s->picks;
    a->wake_fd = -1;
}

static void place_all(const struct gen_device_shape *s, struct piece *host, struct piece *dev,
                      struct gen_args *a, struct gen_step *step)
{
    memset(a, 0, sizeof(*a));
    memset(step, 0, sizeof(*step));
    place_numbers(s, a);
    a->board = TAKE(host, struct gen_board, 1);
    a->notice = TAKE(host, struct gen_notice, s->sessions);
    a->change = TAKE(host, uint32_t, a->change_mask + 1);
    a->session = TAKE(dev, struct gen_session, s->sessions);
    a->work = TAKE(dev, struct gen_work, 1);
    a->job = TAKE(dev, struct gen_job, s->requests);
    a->heap = TAKE(dev, struct gen_key, s->requests);
    a->token = TAKE(dev, uint32_t, (uint64_t)s->requests * s->context);
    a->bias = TAKE(dev, struct gen_top, (uint64_t)s->requests * GEN_MAX_BIAS);
    a->slot = TAKE(dev, uint32_t, (uint64_t)s->sessions * s->slots);
    a->lane = TAKE(dev, struct gen_lane, s->lanes);
    if (!s->fixed) {
        a->page = TAKE(dev, struct gen_page, s->pages);
        a->bucket = TAKE(dev, uint32_t, a->bucket_mask + UINT64_C(1));
    }
    a->count = TAKE(dev, uint32_t, (uint64_t)s->lanes * s->vocab);
    a->sample = TAKE(dev, struct gen_sample, s->lanes);
    a->step = TAKE(dev, struct gen_step, 1);
    place_step(s, dev, step);
}

int gen_device_bytes(const struct gen_device_shape *s, struct gen_device_bytes *bytes)
{
    struct piece host = {NULL, 0}, dev = {NULL, 0};
    struct gen_args args;
    struct gen_step step;
    int err = device_check(s);
    if (err) return err;
    place_all(s, &host, &dev, &args, &step);
    if (s->fixed && s->pages != s->lanes * step.lane_pages)
        return gw_error(-EINVAL, "generate: %u pages, but %u lanes of %u each", s->pages, s->lanes,
                        step.lane_pages);
    bytes->host = host.used;
    bytes->dev = dev.used;
    return 0;
}

void gen_device_place(const struct gen_device_shape *s, void *host, void *dev, struct gen_args *args,
                      struct gen_step *step)
{
    struct piece h = {(uint8_t *)host, 0}, d = {(uint8_t *)dev, 0};
    place_all(s, &h, &d, args, step);
}

uint64_t gen_device_cqes(const struct gen_args *a)
{
    return (uint64_t)a->sessions * (gen_receives(a->slots) + a->depth);
}

bool gen_device_tell(struct gen_board *board, uint32_t *change, uint32_t mask, uint32_t session)
{
    uint32_t at = board->changes;
    /* Acquire: the kernel has read the entry that this one replaces. */
    if (at - gw_ld_acquire_u32(&board->taken) > mask) return false;
    gw_st_relaxed_u32(&change[at & mask], session);
    gw_st_release_u32(&board->changes, at + 1); /* release: the entry and the notice come before the count */
    return true;
}
