/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k-means on CPU threads. A thread takes a batch of points and keeps the scores of a few points and many
 * centres in vector registers, as a matrix product does. It has sums of its own, which are added at the end
 * of a round.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "../centres.h"
#include "baseline.h"
#include "vector.h"

enum { BATCH = 1200, PAD = 64 }; /* points of a batch; centres are padded to a multiple */

struct kmeans {
    const struct work *w;
    struct mr_npy npy;
    const float *point;
    uint64_t n, dims, k, padded;
    float *centre;        /* [k][dims] */
    float *column, *half; /* [dims][padded]; what scores start with, infinite where there is no centre */
    int64_t *sum;         /* [thread][k][dims + 1]: the last one counts */
    float *largest;       /* [thread] */
    double scale;
    atomic_uint_fast64_t next;
};

/* The nearest centres of n points. */
typedef void (*assign_fn)(const struct kmeans *s, const float *x, uint32_t n, uint32_t *nearest);

static void assign_plain(const struct kmeans *s, const float *x, uint32_t n, uint32_t *nearest)
{
    for (uint32_t i = 0; i < n; i++, x += s->dims) {
        float best = INFINITY;

        nearest[i] = 0;
        for (uint64_t k = 0; k < s->k; k++) {
            float score = s->half[k];

            for (uint64_t d = 0; d < s->dims; d++)
                score = __builtin_fmaf(-x[d], s->centre[k * s->dims + d], score);
            if (score < best) {
                best = score;
                nearest[i] = (uint32_t)k;
            }
        }
    }
}

#ifdef __x86_64__
/*
 * ROWS points and COLUMNS vectors of WIDTH centres at a time. `a - b * c` becomes one instruction with one
 * rounding: this file is compiled with -ffp-contract=fast. Rows that are no points repeat the last one.
 */
#define ASSIGN(name, features, WIDTH, ROWS, COLUMNS)                                                         \
    typedef float name##_vec __attribute__((vector_size(4 * WIDTH), aligned(4)));                            \
    typedef int32_t name##_int __attribute__((vector_size(4 * WIDTH)));                                      \
    __attribute__((target(features))) static void name##_few(const struct kmeans *s, const float *const *x,  \
                                                             uint32_t *nearest)                              \
    {                                                                                                        \
        name##_vec best[ROWS];                                                                               \
        name##_int which[ROWS];                                                                              \
                                                                                                             \
        for (int r = 0; r < ROWS; r++) best[r] = (name##_vec){0} + INFINITY, which[r] = (name##_int){0};     \
        for (uint64_t k = 0; k < s->padded; k += COLUMNS * WIDTH) {                                          \
            const float *column = s->column + k;                                                             \
            name##_vec score[ROWS][COLUMNS];                                                                 \
                                                                                                             \
            for (int r = 0; r < ROWS; r++)                                                                   \
                for (int c = 0; c < COLUMNS; c++)                                                            \
                    score[r][c] = *(const name##_vec *)(s->half + k + c * WIDTH);                            \
            for (uint64_t d = 0; d < s->dims; d++, column += s->padded)                                      \
                for (int c = 0; c < COLUMNS; c++) {                                                          \
                    name##_vec v = *(const name##_vec *)(column + c * WIDTH);                                \
                                                                                                             \
                    for (int r = 0; r < ROWS; r++) score[r][c] = score[r][c] - v * x[r][d];                  \
                }                                                                                            \
            for (int r = 0; r < ROWS; r++)                                                                   \
                for (int c = 0; c < COLUMNS; c++) {                                                          \
                    name##_int less = score[r][c] < best[r];                                                 \
                                                                                                             \
                    best[r] =                                                                                \
                        (name##_vec)(((name##_int)score[r][c] & less) | ((name##_int)best[r] & ~less));      \
                    which[r] = (((int32_t)(k + (uint64_t)c * WIDTH)) & less) | (which[r] & ~less);           \
                }                                                                                            \
        }                                                                                                    \
        for (int r = 0; r < ROWS; r++) {                                                                     \
            float least = INFINITY;                                                                          \
                                                                                                             \
            for (int i = 0; i < WIDTH; i++) {                                                                \
                uint32_t k = (uint32_t)which[r][i] + (uint32_t)i;                                            \
                                                                                                             \
                if (best[r][i] < least || (best[r][i] == least && k < nearest[r])) {                         \
                    least = best[r][i];                                                                      \
                    nearest[r] = k;                                                                          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    __attribute__((target(features))) static void name(const struct kmeans *s, const float *x, uint32_t n,   \
                                                       uint32_t *nearest)                                    \
    {                                                                                                        \
        for (uint32_t i = 0; i < n; i += ROWS) {                                                             \
            const float *row[ROWS];                                                                          \
            uint32_t found[ROWS] = {0};                                                                      \
                                                                                                             \
            for (uint32_t r = 0; r < ROWS; r++) row[r] = x + (i + r < n ? i + r : n - 1) * s->dims;          \
            name##_few(s, row, found);                                                                       \
            for (uint32_t r = 0; r < ROWS && i + r < n; r++) nearest[i + r] = found[r];                      \
        }                                                                                                    \
    }

ASSIGN(assign_avx2, "avx2,fma", 8, 6, 2)
ASSIGN(assign_avx512, VECTOR_AVX512, 16, 6, 4)
#endif

static assign_fn choose_assign(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return assign_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return assign_avx2;
#endif
    return assign_plain;
}

static bool take_batch(struct kmeans *s, uint64_t *first, uint32_t *n)
{
    *first =
        BATCH * atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed); /* the number alone is shared */
    if (*first >= s->n) return false;
    *n = s->n - *first < BATCH ? (uint32_t)(s->n - *first) : BATCH;
    return true;
}

static void kmeans_assign(void *arg, uint64_t thread)
{
    struct kmeans *s = (struct kmeans *)arg;
    int64_t *sums = s->sum + thread * s->k * (s->dims + 1);
    assign_fn assign = choose_assign();
    uint32_t nearest[BATCH], n;
    uint64_t first;

    memset(sums, 0, s->k * (s->dims + 1) * sizeof(*sums));
    while (take_batch(s, &first, &n)) {
        const float *x = s->point + first * s->dims;

        assign(s, x, n, nearest);
        for (uint32_t i = 0; i < n; i++, x += s->dims) {
            int64_t *sum = sums + nearest[i] * (s->dims + 1);

            for (uint64_t d = 0; d < s->dims; d++) sum[d] += centres_fixed(x[d], s->scale);
            sum[s->dims]++;
        }
    }
}

static void kmeans_measure(void *arg, uint64_t thread)
{
    struct kmeans *s = (struct kmeans *)arg;
    float largest = 0;
    uint64_t first;
    uint32_t n;

    while (take_batch(s, &first, &n))
        for (uint64_t i = first * s->dims; i < (first + n) * s->dims; i++) {
            float x = fabsf(s->point[i]);

            largest = x <= largest ? largest : x; /* no number is kept, too */
        }
    s->largest[thread] = largest;
}

/* From the centres, what the scores need. */
static void kmeans_lay_out(struct kmeans *s)
{
    for (uint64_t k = 0; k < s->padded; k++) {
        s->half[k] = k < s->k ? centres_half_square(s->centre + k * s->dims, s->dims) : INFINITY;
        for (uint64_t d = 0; d < s->dims; d++)
            s->column[d * s->padded + k] = k < s->k ? s->centre[k * s->dims + d] : 0;
    }
}

static bool kmeans_move(struct kmeans *s)
{
    uint64_t each = s->k * (s->dims + 1);
    bool moved = false;

    for (uint32_t t = 1; t < s->w->threads; t++)
        for (uint64_t i = 0; i < each; i++) s->sum[i] += s->sum[t * each + i];
    for (uint64_t k = 0; k < s->k; k++) {
        const int64_t *sum = s->sum + k * (s->dims + 1);

        moved |= centres_move(s->centre + k * s->dims, sum, (uint64_t)sum[s->dims], s->dims, s->scale);
    }
    return moved;
}

static int kmeans_begin(struct kmeans *s)
{
    float largest = 0;

    s->padded = (s->k + PAD - 1) / PAD * PAD;
    s->centre = (float *)calloc(s->k * s->dims + 1, sizeof(float));
    s->column = (float *)calloc(s->padded * s->dims + 1, sizeof(float));
    s->half = (float *)calloc(s->padded, sizeof(float));
    s->sum = (int64_t *)calloc(s->w->threads * s->k * (s->dims + 1), sizeof(int64_t));
    s->largest = (float *)calloc(s->w->threads, sizeof(float));
    if (!s->centre || !s->column || !s->half || !s->sum || !s->largest)
        return gw_error(-ENOMEM, "no memory for the centres");
    parallel(s->w, s->w->threads, kmeans_measure, s);
    for (uint32_t t = 0; t < s->w->threads; t++) largest = s->largest[t] <= largest ? largest : s->largest[t];
    if (centres_exponent(largest) > CENTRES_MAX_EXPONENT)
        return gw_error(-EINVAL, "%s: coordinates must be numbers below 2^60", s->w->input[0].name);
    s->scale = centres_scale(centres_exponent(largest), s->n);
    for (uint64_t k = 0; k < s->k; k++)
        memcpy(s->centre + k * s->dims, s->point + centres_first(k, s->k, s->n) * s->dims,
               s->dims * sizeof(float));
    return 0;
}

static void kmeans_put(const struct kmeans *s)
{
    char header[MR_NPY_WRITTEN];

    fwrite(header, 1, mr_npy_header(header, s->k, s->dims), s->w->out);
    fwrite(s->centre, sizeof(float), s->k * s->dims, s->w->out);
}

static int kmeans_run(struct kmeans *s)
{
    const struct input *in = s->w->input;
    int err;

    if (s->w->inputs != 1) return gw_error(-EINVAL, "needs one file of points");
    err = mr_npy_parse(in->bytes, in->size < MR_NPY_HEADER ? in->size : MR_NPY_HEADER, in->size, in->name,
                       &s->npy);
    if (!err && (s->npy.type != 'f' || s->npy.item != 4))
        err = gw_error(-EINVAL, "%s: must hold float32", in->name);
    if (err) return err;
    s->point = (const float *)(in->bytes + s->npy.start);
    s->n = s->npy.rows;
    s->dims = s->npy.columns;
    s->k = s->w->clusters;
    if (s->n < s->k) return gw_error(-EINVAL, "%s: has fewer points than clusters", in->name);
    if ((err = kmeans_begin(s))) return err;
    for (uint32_t r = 0; r < s->w->rounds; r++) {
        kmeans_lay_out(s);
        s->next = 0;
        parallel(s->w, s->w->threads, kmeans_assign, s);
        if (!kmeans_move(s)) break;
    }
    kmeans_put(s);
    return 0;
}

int points_kmeans(const struct work *w)
{
    struct kmeans s = {.w = w};
    int err = kmeans_run(&s);

    free(s.centre);
    free(s.column);
    free(s.half);
    free(s.sum);
    free(s.largest);
    return err;
}
