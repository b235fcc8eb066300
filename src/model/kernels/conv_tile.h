/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One convolution kernel of 128 threads, for tiles of CONV_M channels by CONV_N positions. It is included
 * once per tile size, with CONV_NAME defined. One thread sums a part of CONV_TM × CONV_TN (4 or 8).
 *
 * Each round brings GWM_CONV_STEP taps of weights and pixels into shared memory while the round before is
 * multiplied: two buffers, so one barrier per round. Sums stay in fp32 registers.
 */
#define CONV_CAT_(a, b)   a##b
#define CONV_CAT(a, b)    CONV_CAT_(a, b)
#define CONV_SHARED       CONV_CAT(CONV_NAME, _shared)
#define CONV_ROOM         CONV_CAT(CONV_NAME, _room)
#define CONV_REGS         CONV_CAT(CONV_NAME, _regs)
#define CONV_LOADER       CONV_CAT(CONV_NAME, _loader)
#define CONV_KERNEL(name) GW_KERNEL(name, struct gwm_conv_args, a) /* expands the name */
/* Pixels and weights that a thread loads per round. */
#define CONV_X (GWM_CONV_STEP * CONV_N / GWM_CONV_THREADS)
#define CONV_W (GWM_CONV_STEP * CONV_M / GWM_CONV_THREADS)

struct CONV_SHARED {
    struct gwm_f4 w[2][GWM_CONV_STEP][CONV_M / 4];
    struct gwm_f4 x[2][GWM_CONV_STEP][CONV_N / 4];
};

/* When all is multiplied, the sums take the place of what was read: threads then store rows together. */
union CONV_ROOM {
    struct CONV_SHARED in;
    struct gwm_f4 sum[CONV_M][CONV_N / 4];
};

struct CONV_REGS {
    float w[CONV_W], x[CONV_X];
};

/* A thread loads pixels for one position only, so that its window is computed once. */
struct CONV_LOADER {
    const float *w, *x;
    int32_t row, col; /* of the window's corner; row is far outside for positions past the end */
};

GW_DEV void CONV_CAT(CONV_NAME, _load)(const struct gwm_conv_args *a, const struct CONV_LOADER *l,
                                       int32_t tap, struct CONV_REGS *r)
{
    int32_t i, tid = (int32_t)gw_thread_idx();

    GWM_UNROLL
    for (i = 0; i < CONV_W; i++) {
        int32_t e = tid + i * GWM_CONV_THREADS;
        r->w[i] = l->w[(size_t)(tap + e / CONV_M) * (size_t)a->mpad + (size_t)(e % CONV_M)];
    }
    GWM_UNROLL
    for (i = 0; i < CONV_X; i++) {
        struct gwm_tap t = a->tap[tap + tid / CONV_N + i * (GWM_CONV_THREADS / CONV_N)];
        int inside =
            (uint32_t)(l->row + t.row) < (uint32_t)a->h && (uint32_t)(l->col + t.col) < (uint32_t)a->w;
        r->x[i] = inside ? l->x[t.offset + l->row * a->w + l->col] : 0.0f;
    }
}

GW_DEV void CONV_CAT(CONV_NAME, _put)(struct CONV_SHARED *s, int32_t which, const struct CONV_REGS *r)
{
    int32_t i, tid = (int32_t)gw_thread_idx();
    float *w = (float *)s->w[which], *x = (float *)s->x[which];

    GWM_UNROLL
    for (i = 0; i < CONV_W; i++) w[tid + i * GWM_CONV_THREADS] = r->w[i];
    GWM_UNROLL
    for (i = 0; i < CONV_X; i++) x[tid + i * GWM_CONV_THREADS] = r->x[i];
}

/* A thread's 4 or 8 rows (and columns) are 4 that lie together, and 4 half the tile on: so neighbouring
 * threads read neighbouring words of shared memory. */
GW_DEV void CONV_CAT(CONV_NAME, _multiply)(const struct CONV_SHARED *s, int32_t which,
                                           float sum[CONV_TM][CONV_TN])
{
    int32_t tx = (int32_t)gw_thread_idx() % (CONV_N / CONV_TN),
            ty = (int32_t)gw_thread_idx() / (CONV_N / CONV_TN);
    int32_t k, i, j;

    GWM_UNROLL
    for (k = 0; k < GWM_CONV_STEP; k++) {
        float w[CONV_TM], x[CONV_TN];
        GWM_UNROLL
        for (i = 0; i < CONV_TM / 4; i++) {
            struct gwm_f4 v = s->w[which][k][ty + i * (CONV_M / 8)];
            w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
        }
        GWM_UNROLL
        for (i = 0; i < CONV_TN / 4; i++) {
            struct gwm_f4 v = s->x[which][k][tx + i * (CONV_N / 8)];
            x[4 * i] = v.x, x[4 * i + 1] = v.y, x[4 * i + 2] = v.z, x[4 * i + 3] = v.w;
        }
        GWM_UNROLL
        for (i = 0; i < CONV_TM; i++) {
            GWM_UNROLL
            for (j = 0; j < CONV_TN; j++) sum[i][j] += w[i] * x[j];
        }
    }
}

GW_DEV void CONV_CAT(CONV_NAME, _sums)(union CONV_ROOM *room, float sum[CONV_TM][CONV_TN])
{
    int32_t tx = (int32_t)gw_thread_idx() % (CONV_N / CONV_TN),
            ty = (int32_t)gw_thread_idx() / (CONV_N / CONV_TN);
    int32_t i, j;

    GWM_UNROLL
    for (i = 0; i < CONV_TM; i++) {
        GWM_UNROLL
        for (j = 0; j < CONV_TN / 4; j++) {
            struct gwm_f4 v = {sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]};
            room->sum[ty * 4 + i % 4 + i / 4 * (CONV_M / 2)][tx + j * (CONV_N / 8)] = v;
        }
    }
}

/* Multiplies the taps from `tap` to `end` into sum; all have read shared memory when it returns. */
GW_DEV void CONV_CAT(CONV_NAME, _taps)(const struct gwm_conv_args *a, const struct CONV_LOADER *l,
                                       struct CONV_SHARED *s, int32_t tap, int32_t end,
                                       float sum[CONV_TM][CONV_TN])
{
    struct CONV_REGS r;
    int32_t which = 0;

    CONV_CAT(CONV_NAME, _load)(a, l, tap, &r);
    CONV_CAT(CONV_NAME, _put)(s, 0, &r);
    gw_syncthreads();
    for (; tap < end; tap += GWM_CONV_STEP, which ^= 1) {
        int more = tap + GWM_CONV_STEP < end;
        if (more) CONV_CAT(CONV_NAME, _load)(a, l, tap + GWM_CONV_STEP, &r);
        CONV_CAT(CONV_NAME, _multiply)(s, which, sum);
        if (more) CONV_CAT(CONV_NAME, _put)(s, which ^ 1, &r);
        gw_syncthreads();
    }
}

CONV_KERNEL(CONV_NAME)
{
    GW_SHARED(union CONV_ROOM, room);
    struct gwm_conv_place at = gwm_conv_place(a);
    struct gwm_conv_store to = gwm_conv_store(a, at.n, at.split);
    int32_t tid = (int32_t)gw_thread_idx(), i, j, tap = at.split * a->taps_per_split;
    int32_t end = tap + a->taps_per_split < a->taps ? tap + a->taps_per_split : a->taps;
    int32_t position = at.tile_n * CONV_N + tid % CONV_N;
    struct CONV_LOADER l;
    float sum[CONV_TM][CONV_TN];

    l.w = a->weight + (size_t)at.group * (size_t)a->taps * (size_t)a->mpad + at.tile_m * CONV_M;
    l.x = gwm_at(&a->x) + (at.n * a->group + at.group) * (a->c / a->group) * a->h * a->w;
    l.row = position < a->oh * a->ow ? position / a->ow * a->sh - a->top : GWM_NO_TAP / 2;
    l.col = position % a->ow * a->sw - a->left;
    GWM_UNROLL
    for (i = 0; i < CONV_TM; i++) {
        GWM_UNROLL
        for (j = 0; j < CONV_TN; j++) sum[i][j] = 0;
    }
    CONV_CAT(CONV_NAME, _taps)(a, &l, &room->in, tap, end, sum);
    CONV_CAT(CONV_NAME, _sums)(room, sum);
    gw_syncthreads();
    if (position >= a->oh * a->ow) return;
    for (i = tid / CONV_N; i < CONV_M; i += GWM_CONV_THREADS / CONV_N) {
        int32_t m = at.tile_m * CONV_M + i;
        if (m < a->oc / a->group)
            gwm_conv_put(a, &to, at.group * (a->oc / a->group) + m, position,
                         ((const float *)room->sum[i])[tid % CONV_N]);
    }
}

#undef CONV_CAT_
#undef CONV_CAT
#undef CONV_SHARED
#undef CONV_ROOM
#undef CONV_REGS
#undef CONV_LOADER
#undef CONV_KERNEL
#undef CONV_X
#undef CONV_W
#undef CONV_NAME
#undef CONV_M
#undef CONV_N
#undef CONV_TM
#undef CONV_TN
