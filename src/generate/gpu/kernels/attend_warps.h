/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on tensor cores, with a cache and queries of 16 bits. A warp has up to 16 vectors of queries:
 * some rows of a lane, each with the heads that share keys. It reads keys and values from the pages to
 * registers, 16 tokens at a time. No keys go through shared memory: lanes read them so that what they have
 * is a factor already.
 *
 * Keys: lane 4 g + t reads tokens g and g + 8 of a page, the t-th quarter of each 32 elements; queries are
 * read by the same rule. Values: it reads tokens 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, the g-th eighth of each
 * 64 elements. One element of two tokens makes a pair; so column g of the n-th product is element
 * 8 g + n of the 64. What is left of a head, 32 or 16 elements, lies likewise, in smaller eighths.
 *
 * Scores of two products have just the layout that the left factor needs.
 */
#ifndef GW_GENERATE_GPU_KERNELS_ATTEND_WARPS_H
#define GW_GENERATE_GPU_KERNELS_ATTEND_WARPS_H

#include "src/generate/gpu/kernels/attend.h"

/* Registers keep queries of that size; longer ones are read for each page. */
#define WARPS_KEPT 128

/* Of vectors g and g + 8 of a warp; `all` of this lane's columns alone. */
struct gen_warp_state {
    uint32_t row[2], head[2], there[2], position[2];
    float most[2], all[2];
    uint32_t q[WARPS_KEPT / 32][2][4]; /* queries of up to WARPS_KEPT elements */
};

/* A lane's part of a piece of `count` words (4, 2 or 1), at element `at`, which is aligned to it. */
GWM_INLINE void gen_warps_words(uint32_t to[4], const uint16_t *at, uint32_t count)
{
    if (count == 4) {
        struct gen_words w = *(const struct gen_words *)at;
        to[0] = w.w[0], to[1] = w.w[1], to[2] = w.w[2], to[3] = w.w[3];
    } else if (count == 2) {
        struct gwm_h4 h = *(const struct gwm_h4 *)at;
        to[0] = h.two[0], to[1] = h.two[1], to[2] = to[3] = 0;
    } else {
        to[0] = *(const uint32_t *)at, to[1] = to[2] = to[3] = 0;
    }
}

/* Words of a lane in piece i of the queries or keys of a head: pieces have 32 elements, the last may have
 * 16. */
#define WARPS_KEY_WORDS(size, i) ((size) - (i)*32 >= 32 ? 4u : 2u)
#define WARPS_KEY_PIECES(size)   (((size) + 31) / 32)
/* And in piece i of its values: pieces have 64 elements, then 32, then 16. */
#define WARPS_VALUE_PIECES(size)   ((size) / 64 + ((size) % 64 >= 32) + ((size) % 32 >= 16))
#define WARPS_VALUE_START(size, i) ((i) <= (size) / 64 ? (i)*64 : (size) / 64 * 64 + 32)
#define WARPS_VALUE_WORDS(size, i)                                                                           \
    ((i) < (size) / 64 ? 4u : (size)-WARPS_VALUE_START(size, i) >= 32 ? 2u : 1u)

GWM_INLINE void gen_warps_state(const struct gen_attend_args *a, const struct gen_attend_place *p,
                                struct gen_warp_state *st)
{
    uint32_t r;

    GWM_UNROLL
    for (r = 0; r < 2; r++) {
        uint32_t i = gw_lane() / 4 + r * 8;
        st->there[r] = i < p->rows * p->heads;
        st->row[r] = p->row + (st->there[r] ? i / p->heads : 0);
        st->head[r] = p->head + (st->there[r] ? i % p->heads : 0);
        st->position[r] = a->step->position[st->row[r]];
        st->most[r] = -INFINITY;
        st->all[r] = 0;
    }
}

/* Piece i of the queries of vectors g and g + 8. */
GWM_INLINE void gen_warps_query(const struct gen_attend_args *a, const struct gen_warp_state *st,
                                uint32_t size, uint32_t i, uint32_t q[2][4])
{
    uint32_t words = WARPS_KEY_WORDS(size, i), r;

    GWM_UNROLL
    for (r = 0; r < 2; r++)
        gen_warps_words(q[r],
                        (const uint16_t *)a->q.p + (uint64_t)st->row[r] * a->q.stride + st->head[r] * size +
                            i * 32 + gw_lane() % 4 * words * 2,
                        words);
}

/* Products of the queries with a page's 16 keys. */
GWM_INLINE void gen_warps_score(const struct gen_attend_args *a, struct gen_warp_state *st,
                                const uint16_t *keys, uint32_t type, uint32_t size, float s[2][4])
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4, i, e, r;
    uint32_t k[8][2][4], other[2][4];

    GWM_UNROLL
    for (i = 0; i < WARPS_KEY_PIECES(size); i++) {
        uint32_t words = WARPS_KEY_WORDS(size, i);
        GWM_UNROLL
        for (r = 0; r < 2; r++)
            gen_warps_words(k[i][r], keys + (g + r * 8) * a->cache.width + i * 32 + t * words * 2, words);
    }
    GWM_UNROLL
    for (e = 0; e < 4; e++) s[0][e] = s[1][e] = 0;
    GWM_UNROLL
    for (i = 0; i < WARPS_KEY_PIECES(size); i++) {
        uint32_t words = WARPS_KEY_WORDS(size, i), (*q)[4] = size > WARPS_KEPT ? other : st->q[i];
        if (size > WARPS_KEPT) gen_warps_query(a, st, size, i, other);
        GWM_UNROLL
        for (e = 0; e < 4; e += 2) {
            if (e >= words) continue;
            const uint32_t left[4] = {q[0][e], q[1][e], q[0][e + 1], q[1][e + 1]};
            gen_mma(type, s[0], left, k[i][0][e], k[i][0][e + 1]);
            gen_mma(type, s[1], left, k[i][1][e], k[i][1][e + 1]);
        }
    }
}

/* Scores become weights, and what was summed up is scaled to the largest score known now. */
GWM_INLINE void gen_warps_weigh(const struct gen_attend_args *a, uint32_t first, struct gen_warp_state *st,
                                float s[2][4], float scaled[2])
{
    uint32_t t = gw_lane() % 4, r, e;

    GWM_UNROLL
    for (r = 0; r < 2; r++) {
        float most = st->most[r];
        GWM_UNROLL
        for (e = 0; e < 4; e++) {
            float *v = &s[e / 2][2 * r + e % 2];
            *v = gen_attend_score(a, *v, st->position[r], first + e / 2 * 8 + 2 * t + e % 2);
            most = *v > most ? *v : most;
        }
        most = gen_four(most, 1);
        scaled[r] = gen_attend_weight(st->most[r], most);
        st->most[r] = most;
        st->all[r] *= scaled[r];
        GWM_UNROLL
        for (e = 0; e < 4; e++) {
            float *v = &s[e / 2][2 * r + e % 2];
            st->all[r] += *v = gen_attend_weight(*v, most);
        }
    }
}

/* A pair: element `i` of two tokens' words. */
GWM_INLINE uint32_t gen_warps_pair(const uint32_t *u, const uint32_t *v, uint32_t i)
{
    if (i % 2) return u[i / 2] >> 16 | (v[i / 2] & 0xffff0000);
    return (u[i / 2] & 0xffff) | v[i / 2] << 16;
}

/* Values of tokens past `last` may be no numbers: they are taken as zeros. */
GWM_INLINE void gen_warps_fetch(const struct gen_attend_args *a, const uint16_t *values, uint32_t size,
                                uint32_t first, uint32_t last, uint32_t v[8][4][4])
{
    uint32_t g = gw_lane() / 4, t = gw_lane() % 4, i, e, w;

    GWM_UNROLL
    for (i = 0; i < WARPS_VALUE_PIECES(size); i++) {
        uint32_t words = WARPS_VALUE_WORDS(size, i);
        GWM_UNROLL
        for (e = 0; e < 4; e++) {
            uint32_t token = 2 * t + e % 2 + e / 2 * 8;
            gen_warps_words(
                v[i][e], values + token * a->cache.width + WARPS_VALUE_START(size, i) + g * words * 2, words);
            GWM_UNROLL
            for (w = 0; w < 4; w++)
                if (w < words && first + token > last) v[i][e][w] = 0;
        }
    }
}

GWM_INLINE void gen_warps_values(uint32_t type, uint32_t size, const float s[2][4], const float scaled[2],
                                 uint32_t v[8][4][4], float (*o)[4])
{
    const uint32_t left[4] = {gen_pack(type, s[0][0], s[0][1]), gen_pack(type, s[0][2], s[0][3]),
                              gen_pack(type, s[1][0], s[1][1]), gen_pack(type, s[1][2], s[1][3])};
    uint32_t i, n;

    GWM_UNROLL
    for (i = 0; i < WARPS_VALUE_PIECES(size); i++) {
        GWM_UNROLL
        for (n = 0; n < 8; n++) {
            if (n >= 2 * WARPS_VALUE_WORDS(size, i)) continue;
            float *d = o[WARPS_VALUE_START(size, i) / 8 + n];
            d[0] *= scaled[0], d[1] *= scaled[0], d[2] *= scaled[1], d[3] *= scaled[1];
            gen_mma(type, d, left, gen_warps_pair(v[i][0], v[i][1], n), gen_warps_pair(v[i][2], v[i][3], n));
        }
    }
}

GWM_INLINE void gen_warps_pages(const struct gen_attend_args *a, const struct gen_attend_place *p,
                                struct gen_warp_state *st, uint32_t type, uint32_t size, float (*o)[4])
{
    uint32_t page, last = a->step->position[p->row + p->rows - 1], r;

    GWM_UNROLL
    for (r = 0; size <= WARPS_KEPT && r < WARPS_KEY_PIECES(size); r++)
        gen_warps_query(a, st, size, r, st->q[r]);
    for (page = p->page; page < p->end; page += p->step) {
        const uint16_t *cache = (const uint16_t *)a->cache.at;
        uint32_t v[8][4][4];
        float s[2][4], scaled[2];
        gen_warps_fetch(a, cache + gen_attend_page(a, p, page, 1), size, page * GEN_PAGE, last, v);
        gen_warps_score(a, st, cache + gen_attend_page(a, p, page, 0), type, size, s);
        gen_warps_weigh(a, page * GEN_PAGE, st, s, scaled);
        gen_warps_values(type, size, s, scaled, v, o);
    }
    GWM_UNROLL
    for (r = 0; r < 2; r++) st->all[r] = gen_four(st->all[r], 0);
}

/* The element of a head that column c of product n of a piece is. */
#define WARPS_ELEMENT(size, i, c, n) (WARPS_VALUE_START(size, i) + (c)*2 * WARPS_VALUE_WORDS(size, i) + (n))

/* The opposite of gen_warps_words. */
GWM_INLINE void gen_warps_write(uint16_t *at, const uint32_t w[4], uint32_t count)
{
    if (count == 4) {
        struct gen_words v = {{w[0], w[1], w[2], w[3]}};
        *(struct gen_words *)at = v;
    } else if (count == 2) {
        struct gwm_h4 v = {{w[0], w[1]}};
        *(struct gwm_h4 *)at = v;
    } else {
        *(uint32_t *)at = w[0];
    }
}

/* A warp that had all pages writes its results: products of a column are elements that lie together. */
GWM_INLINE void gen_warps_store(const struct gen_attend_args *a, const struct gen_warp_state *st,
                                uint32_t type, uint32_t size, float (*o)[4])
{
    uint32_t t = gw_lane() % 4, r, c, i, n, w[4];

    GWM_UNROLL
    for (r = 0; r < 2; r++) {
        float by = gen_attend_by(a, st->head[r], st->most[r], st->all[r]);
        uint16_t *to = (uint16_t *)a->y.p + (uint64_t)st->row[r] * a->y.stride + st->head[r] * size;
        if (!st->there[r]) continue;
        GWM_UNROLL
        for (i = 0; i < WARPS_VALUE_PIECES(size); i++) {
            GWM_UNROLL
            for (c = 0; c < 2; c++) {
                GWM_UNROLL
                for (n = 0; n < 4; n++) {
                    float(*d)[4] = o + WARPS_VALUE_START(size, i) / 8 + 2 * n;
                    if (n < WARPS_VALUE_WORDS(size, i))
                        w[n] = gen_pack(type, d[0][2 * r + c] * by, d[1][2 * r + c] * by);
                }
                gen_warps_write(to + WARPS_ELEMENT(size, i, 2 * t + c, 0), w, WARPS_VALUE_WORDS(size, i));
            }
        }
    }
}

#define WARPS_MAX 4 /* of a block */
struct gen_warps_room {
    float most[WARPS_MAX][16], all[WARPS_MAX][16];
    float sum[WARPS_MAX][16][64];
};

/* Of all warps: the largest score of vector i, and the sum of weights with it. */
GW_DEV float gen_warps_most(const struct gen_warps_room *room, uint32_t warps, uint32_t i, float *all)
{
    float most = -INFINITY;
    uint32_t w;

    for (w = 0; w < warps; w++) most = room->most[w][i] > most ? room->most[w][i] : most;
    *all = 0;
    for (w = 0; w < warps; w++) *all += room->all[w][i] * gen_attend_weight(room->most[w][i], most);
    return most;
}

/* Warps that shared a row's pages put their results together, a piece after another, and write them. */
GWM_INLINE void gen_warps_join(const struct gen_attend_args *a, const struct gen_attend_place *p,
                               struct gen_warp_state *st, uint32_t size, float (*o)[4])
{
    GW_SHARED(struct gen_warps_room, room);
    uint32_t warps = gw_block_dim() / 32, own = gw_warp_idx(), g = gw_lane() / 4, t = gw_lane() % 4;
    uint32_t i, n, e, w, width;
    float most, all;

    if (t == 0) {
        room->most[own][g] = st->most[0], room->most[own][g + 8] = st->most[1];
        room->all[own][g] = st->all[0], room->all[own][g + 8] = st->all[1];
    }
    GWM_UNROLL
    for (i = 0; i < WARPS_VALUE_PIECES(size); i++) {
        width = 16 * WARPS_VALUE_WORDS(size, i);
        gw_syncthreads(); /* all have used the piece before */
        GWM_UNROLL
        for (n = 0; n < 8; n++) {
            if (n >= 2 * WARPS_VALUE_WORDS(size, i)) continue;
            GWM_UNROLL
            for (e = 0; e < 4; e++)
                room->sum[own][g + e / 2 * 8]
                         [WARPS_ELEMENT(size, i, 2 * t + e % 2, n) - WARPS_VALUE_START(size, i)] =
                    o[WARPS_VALUE_START(size, i) / 8 + n][e];
        }
        gw_syncthreads(); /* all of it is there */
        for (e = gw_thread_idx(); e < p->heads * width; e += gw_block_dim()) {
            float sum = 0;
            most = gen_warps_most(room, warps, e / width, &all);
            for (w = 0; w < warps; w++)
                sum += room->sum[w][e / width][e % width] * gen_attend_weight(room->most[w][e / width], most);
            gen_attend_put(a, p, (p->head + e / width) * size + WARPS_VALUE_START(size, i) + e % width, sum,
                           gen_attend_by(a, p->head + e / width, most, all));
        }
    }
    if (a->splits == 1 || gw_thread_idx() >= p->heads) return;
    most = gen_warps_most(room, warps, gw_thread_idx(), &all);
    gen_attend_put_numbers(a, p, p->head + gw_thread_idx(), most, all);
}

/* A warp's tile, where there are tiles. */
GW_DEV bool gen_warps_tile(const struct gen_attend_args *a, struct gen_attend_place *p)
{
    uint32_t each = a->kv_heads * a->groups, tile;

    tile = gw_block_idx() / each * (gw_block_dim() / 32) + gw_warp_idx();
    if (tile >= *a->tiles) return false;
    p->row = a->tile[tile].row, p->rows = a->tile[tile].rows, p->lane = a->tile[tile].lane;
    gen_attend_range(a, gw_block_idx() % each, p);
    return p->lane != GEN_NO_LANE;
}

GWM_INLINE void gen_warps_attend(const struct gen_attend_args *a, uint32_t type, uint32_t size)
{
    struct gen_attend_place p;
    struct gen_warp_state st;
    float o[GEN_GPU_HEAD / 8][4];
    uint32_t i;

    if (a->tile ? !gen_warps_tile(a, &p) : !gen_attend_row(a, &p)) return;
    GWM_UNROLL
    for (i = 0; i < size / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
    gen_warps_state(a, &p, &st);
    if (a->tile) {
        gen_warps_pages(a, &p, &st, type, size, o);
        gen_warps_store(a, &st, type, size, o);
    } else {
        p.page += gw_warp_idx(), p.step = gw_block_dim() / 32; /* the warps share the pages */
        gen_warps_pages(a, &p, &st, type, size, o);
        gen_warps_join(a, &p, &st, size, o);
    }
}

#define WARPS_KERNEL(name, type, size)                                                                       \
    GW_KERNEL(name##_##size, struct gen_attend_args, a)                                                      \
    {                                                                                                        \
        gen_warps_attend(a, type, size);                                                                     \
    }
#define WARPS_KERNELS(name, type)                                                                            \
    WARPS_KERNEL(name, type, 16)                                                                             \
    WARPS_KERNEL(name, type, 64)                                                                             \
    WARPS_KERNEL(name, type, 80)                                                                             \
    WARPS_KERNEL(name, type, 96) WARPS_KERNEL(name, type, 128) WARPS_KERNEL(name, type, 256)

#endif
