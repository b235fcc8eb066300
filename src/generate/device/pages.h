/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the cache: which lanes hold them, and which can be found again by their tokens. One thread.
 *
 * A full page whose keys and values are there goes into the index. A lane that computes the same tokens after
 * the same page then holds that one instead. Pages that no lane holds any more are kept. When pages are
 * needed, they are given away, the one first that has been kept for longest. A lane lets go of its last page
 * first. So a page is given away before the one before it.
 */
#ifndef GW_GENERATE_DEVICE_PAGES_H
#define GW_GENERATE_DEVICE_PAGES_H

#include <stdbool.h>

#include <gpuwire/detail/assert.h>

#include "src/generate/device/shared.h"

/* Pages that a lane can get. */
GW_DEV uint32_t gen_pages_left(const struct gen_args *a)
{
    return a->pages - a->work->held_pages;
}

/* Pages for that number of tokens. */
GW_DEV uint32_t gen_pages_for(uint32_t tokens)
{
    return (tokens + GEN_PAGE - 1) / GEN_PAGE;
}

/* ---- those that are kept ---- */

GW_DEV void gen_page_keep(const struct gen_args *a, uint32_t n)
{
    struct gen_work *w = a->work;
    struct gen_page *p = &a->page[n];
    p->next = 0;
    p->prev = w->last_kept;
    if (w->last_kept)
        a->page[w->last_kept - 1].next = n + 1;
    else
        w->first_kept = n + 1;
    w->last_kept = n + 1;
    w->kept_pages++;
}

GW_DEV void gen_page_unkeep(const struct gen_args *a, uint32_t n)
{
    struct gen_work *w = a->work;
    const struct gen_page *p = &a->page[n];
    if (p->prev)
        a->page[p->prev - 1].next = p->next;
    else
        w->first_kept = p->next;
    if (p->next)
        a->page[p->next - 1].prev = p->prev;
    else
        w->last_kept = p->prev;
    w->kept_pages--;
}

/* ---- the index ---- */

/* The hash of the tokens of a page after those that `before` stands for. A client that does not know the
 * secret cannot make many pages of one bucket. */
GW_DEV uint64_t gen_page_hash(uint64_t before, const uint32_t *token)
{
    uint64_t h = before;
    for (uint32_t i = 0; i < GEN_PAGE; i++) {
        h = (h ^ token[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* The hash before the first page. */
GW_DEV uint64_t gen_page_root(const struct gen_args *a, uint64_t salt)
{
    uint64_t h = (a->secret ^ salt) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32 ^ a->secret << 7;
}

GW_DEV bool gen_page_is(const struct gen_page *p, const struct gen_page *like, const uint32_t *token)
{
    if (p->hash != like->hash || p->before != like->before) return false;
    if (!p->before && p->salt != like->salt) return false; /* further ones stand after such a page */
    for (uint32_t i = 0; i < GEN_PAGE; i++)
        if (p->token[i] != token[i]) return false;
    return true;
}

/* The page in the index with these tokens, and like's hash, salt and page before: its number + 1, or 0. */
GW_DEV uint32_t gen_page_find(const struct gen_args *a, const struct gen_page *like, const uint32_t *token)
{
    uint32_t n = a->bucket[like->hash & a->bucket_mask];
    while (n && !gen_page_is(&a->page[n - 1], like, token)) n = a->page[n - 1].chain;
    return n;
}

GW_DEV void gen_page_index(const struct gen_args *a, uint32_t n, const struct gen_page *like,
                           const uint32_t *token)
{
    struct gen_page *p = &a->page[n];
    uint32_t *bucket = &a->bucket[like->hash & a->bucket_mask];
    p->hash = like->hash;
    p->salt = like->salt;
    p->before = like->before;
    for (uint32_t i = 0; i < GEN_PAGE; i++) p->token[i] = token[i];
    p->chain = *bucket;
    *bucket = n + 1;
    p->found = 1;
}

GW_DEV void gen_page_unindex(const struct gen_args *a, uint32_t n)
{
    struct gen_page *p = &a->page[n];
    uint32_t *at = &a->bucket[p->hash & a->bucket_mask];
    while (*at != n + 1) at = &a->page[*at - 1].chain;
    *at = p->chain;
    p->found = 0;
}

/* ---- holding ---- */

/* A page for a lane to write into; one is left. */
GW_DEV uint32_t gen_page_take(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    uint32_t n;
    GW_ASSERT(gen_pages_left(a));
    if (w->free_page) {
        n = w->free_page - 1;
        w->free_page = a->page[n].chain;
    } else if (w->fresh_pages < a->pages) {
        n = w->fresh_pages++;
    } else {
        n = w->first_kept - 1;
        gen_page_unkeep(a, n);
        gen_page_unindex(a, n);
    }
    a->page[n].refs = 1;
    w->held_pages++;
    return n;
}

GW_DEV void gen_page_hold(const struct gen_args *a, uint32_t n)
{
    struct gen_work *w = a->work;
    uint32_t refs = a->page[n].refs++;
    if (refs == 1) w->stats.pages_shared++;
    if (refs) return;
    gen_page_unkeep(a, n);
    w->held_pages++;
}

GW_DEV void gen_page_drop(const struct gen_args *a, uint32_t n)
{
    struct gen_work *w = a->work;
    struct gen_page *p = &a->page[n];
    GW_ASSERT(p->refs);
    p->refs--;
    if (p->refs == 1) w->stats.pages_shared--;
    if (p->refs) return;
    w->held_pages--;
    if (p->found) {
        gen_page_keep(a, n);
        return;
    }
    p->chain = w->free_page;
    w->free_page = n + 1;
}

/* ---- a lane's pages ---- */

GW_DEV uint32_t *gen_lane_table(const struct gen_args *a, uint32_t lane)
{
    return a->step->page + (uint64_t)lane * a->lane_pages;
}

/* Gives the lane pages until it has n; they are there. */
GW_DEV void gen_lane_grow(const struct gen_args *a, uint32_t lane, uint32_t n)
{
    struct gen_lane *l = &a->lane[lane];
    uint32_t *table = gen_lane_table(a, lane);
    GW_NO_UNROLL_
    for (; l->pages < n; l->pages++)
        table[l->pages] = a->fixed ? lane * a->lane_pages + l->pages : gen_page_take(a);
}

/* Takes all of them away, the last one first. */
GW_DEV void gen_lane_shrink(const struct gen_args *a, uint32_t lane)
{
    struct gen_lane *l = &a->lane[lane];
    const uint32_t *table = gen_lane_table(a, lane);
    GW_NO_UNROLL_
    while (l->pages) {
        l->pages--;
        if (!a->fixed) gen_page_drop(a, table[l->pages]);
    }
}

/* Describes the lane's next page: the fields hash, before and salt. */
GW_DEV struct gen_page gen_lane_like(const struct gen_args *a, uint32_t lane, const struct gen_job *j,
                                     const uint32_t *token)
{
    const struct gen_lane *l = &a->lane[lane];
    const uint32_t *table = gen_lane_table(a, lane);
    struct gen_page like;
    uint32_t last = l->indexed ? table[l->indexed - 1] : 0;
    like.before = l->indexed ? last + 1 : 0;
    like.salt = j->salt;
    like.hash = gen_page_hash(l->indexed ? a->page[last].hash : gen_page_root(a, j->salt), token);
    return like;
}

/* The lane gets pages from the index: those of its next tokens, of the first `most`. It gets none once it has
 * begun to compute its next page itself. */
GW_DEV void gen_lane_match(const struct gen_args *a, uint32_t lane, const struct gen_job *j,
                           const uint32_t *token, uint32_t most)
{
    struct gen_lane *l = &a->lane[lane];
    uint32_t *table = gen_lane_table(a, lane);
    l->ahead = 0;
    while (l->indexed != GEN_NO_LANE && (l->indexed + 1) * GEN_PAGE <= most) {
        const uint32_t *at = token + l->indexed * GEN_PAGE;
        struct gen_page like = gen_lane_like(a, lane, j, at);
        l->ahead = like.hash;
        uint32_t n = l->computed == l->indexed * GEN_PAGE ? gen_page_find(a, &like, at) : 0;
        if (!n) return;
        gen_page_hold(a, n - 1);
        if (l->indexed < l->pages)
            gen_page_drop(a, table[l->indexed]); /* nothing is in it yet */
        else
            l->pages++;
        table[l->indexed++] = n - 1;
        l->computed = l->indexed * GEN_PAGE;
        l->ahead = 0;
    }
}

/* The pages that the lane has filled go into the index, or give way to those that are there already. */
GW_DEV void gen_lane_index(const struct gen_args *a, uint32_t lane, const struct gen_job *j,
                           const uint32_t *token)
{
    struct gen_lane *l = &a->lane[lane];
    uint32_t *table = gen_lane_table(a, lane);
    if (l->indexed == GEN_NO_LANE) return;
    for (; (l->indexed + 1) * GEN_PAGE <= l->computed; l->indexed++) {
        const uint32_t *at = token + l->indexed * GEN_PAGE;
        struct gen_page like = gen_lane_like(a, lane, j, at);
        uint32_t own = table[l->indexed], n = gen_page_find(a, &like, at);
        if (!n) {
            gen_page_index(a, own, &like, at);
            continue;
        }
        gen_page_hold(a, n - 1);
        gen_page_drop(a, own);
        table[l->indexed] = n - 1;
    }
}

#endif
