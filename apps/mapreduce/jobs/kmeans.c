/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k-means. The points are an .npy file, a row each; the state holds the centres, which all ranks get before
 * a round. A map finds the nearest centre of each point of a block of them, and adds the point to the sum
 * of that centre's key. The sums are integers (centres.h), so the result has the same bytes however the
 * points are spread.
 *
 * Round 0 measures: its keys are the exponents of blocks' largest coordinates. From it comes the scale of
 * the sums.
 */
#include <errno.h>
#include <stdlib.h>

#include "../centres.h"
#include "../formats.h"
#include "../mapreduce.h"
#include "kmeans_tile.h"

/* Adds n points to the sums of their centres. Each warp looks up a few places at once, then adds point by
 * point: its lanes add neighbouring coordinates. */
GW_DEV void kmeans_add(struct mr_map *m, const uint8_t *point, uint32_t n, const uint32_t *nearest)
{
    const struct kmeans_state *s = (const struct kmeans_state *)m->state;
    uint32_t lanes = gw_warp_size(), lane = gw_lane(), mask = gw_warp_mask(), few = lanes < 16 ? lanes : 16;
    uint32_t warps = (gw_block_dim() + 31) / 32, first, i, d;

    for (first = gw_warp_idx() * few; first < n; first += warps * few) {
        uint64_t place = 0;

        if (lane < few && first + lane < n) place = (uint64_t)(uintptr_t)kmeans_sum(m, nearest[first + lane]);
        for (i = 0; i < few && first + i < n; i++) {
            uint64_t *sum = (uint64_t *)(uintptr_t)gw_shfl_u64(mask, place, i);
            const uint8_t *row = point + (uint64_t)(first + i) * m->record;

            for (d = lane; sum && d <= s->dims; d += lanes)
                gw_add_relaxed_u64_gpu(
                    sum + d,
                    d < s->dims ? (uint64_t)centres_fixed(mr_npy_value(row, d, s->item), s->scale) : 1);
        }
    }
}

/* Which exponent has the largest of a block's coordinates? Without the sign, the order of floats' bits is
 * that of the numbers; infinity and what is no number come last. All threads. */
GW_DEV void kmeans_measure(struct mr_map *m, const uint8_t *point, uint64_t values)
{
    typedef uint32_t all[1024];
    GW_SHARED(all, most);
    const struct kmeans_state *s = (const struct kmeans_state *)m->state;
    uint32_t largest = 0, bits, k;
    uint64_t i, *sum;

    for (i = gw_thread_idx(); i < values; i += gw_block_dim()) {
        float x = mr_npy_value(point, i, s->item);

        memcpy(&bits, &x, sizeof(bits));
        bits &= 0x7fffffff;
        if (bits > largest) largest = bits;
    }
    (*most)[gw_thread_idx()] = largest;
    gw_syncthreads();
    if (gw_thread_idx() == 0) {
        for (k = 1; k < gw_block_dim(); k++)
            if ((*most)[k] > largest) largest = (*most)[k];
        sum = kmeans_sum(m, largest >> 23);
        if (sum) gw_add_relaxed_u64_gpu(sum, 1);
    }
    gw_syncthreads(); /* the next call may change `most` now */
}

GW_DEV void kmeans_map(struct mr_map *m, const uint8_t *point, uint32_t bytes)
{
    GW_SHARED(struct kmeans_tile, tile);
    const struct kmeans_state *s = (const struct kmeans_state *)m->state;
    uint32_t n = bytes / m->record, first;

    if (s->measuring) {
        kmeans_measure(m, point, (uint64_t)n * s->dims);
        return;
    }
    for (first = 0; first < n; first += KMEANS_TILE) {
        const uint8_t *p = point + (uint64_t)first * m->record;
        uint32_t some = n - first < KMEANS_TILE ? n - first : KMEANS_TILE;

        if (gw_block_dim() >= KMEANS_THREADS)
            kmeans_nearest_tile(s, p, some, tile);
        else
            kmeans_nearest_each(s, p, some, tile);
        gw_syncthreads();
        kmeans_add(m, p, some, tile->nearest);
        gw_syncthreads(); /* the next points may change `nearest` now */
    }
}

/* The host adds what the ranks have: a few sums for each centre. */
GW_DEV void kmeans_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
{
    const void *sum;
    uint32_t n;

    while ((sum = mr_next(r, &n))) {
        mr_put(r, key, bytes);
        mr_put(r, sum, n);
    }
}

#ifndef __CUDACC__
struct kmeans {
    uint64_t k, dims, rounds;
    float *centre; /* [k][dims] */
    int64_t *sum;  /* [k][dims + 1]; the last one counts */
    double scale;
};

/* Lays the centres out for the maps. */
static int kmeans_state_make(struct mr_host *h, bool measuring)
{
    const struct kmeans *km = (const struct kmeans *)h->own;
    uint64_t padded = (km->k + KMEANS_CENTRES - 1) / KMEANS_CENTRES * KMEANS_CENTRES;
    struct kmeans_state *s =
        (struct kmeans_state *)mr_state(h, sizeof(*s) + padded * (km->dims + 1) * sizeof(float));
    float *half, *column;

    if (!s) return mr_fail(h, -ENOMEM, "no memory for %llu centres", (unsigned long long)km->k);
    s->padded = (uint32_t)padded;
    s->dims = (uint32_t)km->dims;
    s->item = h->item;
    s->measuring = measuring;
    s->scale = km->scale;
    half = (float *)(s + 1);
    column = half + padded;
    for (uint64_t k = 0; k < padded; k++) {
        half[k] = k < km->k ? centres_half_square(km->centre + k * km->dims, km->dims) : INFINITY;
        for (uint64_t d = 0; d < km->dims && k < km->k; d++)
            column[d * padded + k] = km->centre[k * km->dims + d];
    }
    return 0;
}

/* The first centres are points, evenly spread over the file. */
static int kmeans_choose(struct mr_host *h)
{
    struct kmeans *km = (struct kmeans *)h->own;
    uint8_t *row = (uint8_t *)malloc(h->record);
    int err = row ? 0 : mr_fail(h, -ENOMEM, "no memory for a point");

    for (uint64_t k = 0; k < km->k && !err; k++) {
        err = mr_read(h, centres_first(k, km->k, mr_records(h)), 1, row);
        for (uint64_t d = 0; d < km->dims && !err; d++)
            km->centre[k * km->dims + d] = mr_npy_value(row, d, h->item);
    }
    free(row);
    return err;
}

static bool kmeans_number(const char *text, uint64_t max, uint64_t *v)
{
    char *end;

    *v = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *v >= 1 && *v <= max;
}

static int kmeans_setup(struct mr_host *h, int argc, char **argv)
{
    struct kmeans *km = (struct kmeans *)calloc(1, sizeof(*km));

    if (!(h->own = km)) return mr_fail(h, -ENOMEM, "no memory");
    km->k = 16;
    km->rounds = 10;
    if (argc > 2 || (argc > 0 && !kmeans_number(argv[0], 1 << 20, &km->k)) ||
        (argc > 1 && !kmeans_number(argv[1], 1 << 20, &km->rounds)))
        return mr_fail(h, -EINVAL,
                       "kmeans takes the number of clusters and of rounds, each from 1 to 1048576");
    if (h->type != 'f') return mr_fail(h, -EINVAL, "the points must be an .npy file of floats");
    km->dims = h->record / h->item;
    if (!km->dims || (km->dims + 1) * 8 > MR_MAX_VALUE)
        return mr_fail(h, -EINVAL, "points must have 1 to %d coordinates", MR_MAX_VALUE / 8 - 1);
    if (mr_records(h) < km->k)
        return mr_fail(h, -EINVAL, "there are %llu points for %llu clusters",
                       (unsigned long long)mr_records(h), (unsigned long long)km->k);
    h->value = (uint32_t)(km->dims + 1) * 8;
    h->keys = (uint32_t)km->k < 256 ? 256 : (uint32_t)km->k; /* round 0 has exponents */
    km->centre = (float *)calloc(km->k * km->dims, sizeof(float));
    km->sum = (int64_t *)calloc(km->k * (km->dims + 1), sizeof(int64_t));
    if (!km->centre || !km->sum)
        return mr_fail(h, -ENOMEM, "no memory for %llu centres", (unsigned long long)km->k);
    return kmeans_choose(h) ? -EIO : kmeans_state_make(h, true);
}

/* What round 0 found: the largest exponent. */
static int kmeans_scale(struct mr_host *h, const uint8_t *out, uint64_t bytes, uint64_t each)
{
    struct kmeans *km = (struct kmeans *)h->own;
    uint32_t exponent, most = 0;

    for (uint64_t at = 0; at < bytes; at += each) {
        memcpy(&exponent, out + at, sizeof(exponent));
        if (exponent > most) most = exponent;
    }
    if (most > CENTRES_MAX_EXPONENT) return mr_fail(h, -EINVAL, "coordinates must be numbers below 2^60");
    km->scale = centres_scale(most, mr_records(h));
    return kmeans_state_make(h, false) ? -ENOMEM : 1;
}

static int kmeans_end(struct mr_host *h)
{
    const struct kmeans *km = (const struct kmeans *)h->own;
    char header[MR_NPY_WRITTEN];
    size_t n = mr_npy_header(header, km->k, km->dims);

    if (mr_result(h, header, n) || mr_result(h, km->centre, km->k * km->dims * sizeof(float)))
        return mr_fail(h, -ENOMEM, "no memory for the result");
    return 0;
}

static int kmeans_round(struct mr_host *h, const uint8_t *out, uint64_t bytes)
{
    struct kmeans *km = (struct kmeans *)h->own;
    uint64_t each = sizeof(uint32_t) + (km->dims + 1) * 8, k;
    bool moved = false;

    if (bytes % each) return mr_fail(h, -EIO, "the sums have %llu bytes", (unsigned long long)bytes);
    if (h->round == 0) return kmeans_scale(h, out, bytes, each);
    memset(km->sum, 0, km->k * (km->dims + 1) * sizeof(*km->sum));
    for (uint64_t at = 0; at < bytes; at += each) {
        uint32_t key;
        int64_t v;

        memcpy(&key, out + at, sizeof(key));
        if (key >= km->k) return mr_fail(h, -EIO, "there is no centre %u", key);
        for (uint64_t d = 0; d <= km->dims; d++) {
            memcpy(&v, out + at + sizeof(key) + d * 8, sizeof(v));
            km->sum[key * (km->dims + 1) + d] += v;
        }
    }
    for (k = 0; k < km->k; k++) {
        const int64_t *sum = km->sum + k * (km->dims + 1);

        moved |= centres_move(km->centre + k * km->dims, sum, (uint64_t)sum[km->dims], km->dims, km->scale);
    }
    if (!moved || h->round == km->rounds) return kmeans_end(h);
    return kmeans_state_make(h, false) ? -ENOMEM : 1;
}

static void kmeans_finish(struct mr_host *h)
{
    struct kmeans *km = (struct kmeans *)h->own;

    if (!km) return;
    free(km->centre);
    free(km->sum);
    free(km);
}
#endif

MR_JOB(kmeans, kmeans_map, MR_NO_COMBINE, kmeans_reduce,
       .what = "finds the centres of clusters of points (.npy)", .setup = kmeans_setup, .round = kmeans_round,
       .finish = kmeans_finish, .args = "[CLUSTERS [ROUNDS]]", .input = MR_NPY, .by = MR_BY_BLOCK,
       .combine = MR_SUM_U64, .flags = MR_ONE_TABLE | MR_KEEP, .threads = KMEANS_THREADS,
       .key = sizeof(uint32_t), .value = MR_MAX_VALUE);
