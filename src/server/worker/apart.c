/* SPDX-License-Identifier: Apache-2.0 */
/* Tries by runs whether one row of a batch changes the results of another. */
#include "src/server/worker/apart.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "src/model/graph/half.h"

#define ALIGN 64u
/* Of the largest result: libraries may add up in another order. Numbers of 16 bits are coarser. */
#define NEAR    1e-3
#define NEAR_16 1e-2

/* Changes a row's numbers. */
enum change { SMALL, LARGE, STRANGE /* NaN and infinities */ };

struct tensors {
    uint8_t *at[GW_MODEL_MAX_IO];
};

struct attempt {
    const struct gw_apart_trial *t;
    struct tensors base, changed, first, then; /* inputs, inputs, results, results */
    uint64_t random;
    double noise[GW_MODEL_MAX_IO]; /* results that are not further apart are the same */
};

static uint32_t next_random(struct attempt *a)
{
    a->random = a->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(a->random >> 33);
}

/* ---- numbers ---- */

static void put_float(uint32_t dtype, void *to, float v)
{
    const union {
        float f;
        uint32_t u;
    } word = {v};
    const double wide = (double)v;
    const uint16_t upper = (uint16_t)(word.u >> 16), half = gwm_half_put(v);
    if (dtype == GW_DTYPE_F32) memcpy(to, &v, sizeof(v));
    if (dtype == GW_DTYPE_F64) memcpy(to, &wide, sizeof(wide));
    if (dtype == GW_DTYPE_BF16) memcpy(to, &upper, sizeof(upper));
    if (dtype == GW_DTYPE_F16) memcpy(to, &half, sizeof(half));
}

static double get_float(uint32_t dtype, const void *from)
{
    union {
        float f;
        uint32_t u;
        uint16_t h[2];
    } word = {0};
    double wide = 0;
    if (dtype == GW_DTYPE_F64) {
        memcpy(&wide, from, sizeof(wide));
        return wide;
    }
    memcpy(dtype == GW_DTYPE_BF16 ? &word.h[1] : &word.h[0], from, gw_dtype_bytes(dtype));
    return dtype == GW_DTYPE_F16 ? (double)gwm_half_get(word.h[0]) : (double)word.f;
}

static float float_for(struct attempt *a, enum change change)
{
    static const float strange[] = {NAN, INFINITY, NAN, -INFINITY};
    float unit = (float)(next_random(a) & 0xffff) / 65536;
    if (change == STRANGE) return strange[next_random(a) % 4];
    return change == SMALL ? unit : (next_random(a) & 1 ? 1.f : -1.f) * (64 + 900 * unit);
}

/* An integer may be an index, which has a range. So it becomes another one of the tensor's own, or 0 or 1. */
static void put_int(struct attempt *a, const uint8_t *all, uint64_t n, uint64_t bytes, const uint8_t *was,
                    uint8_t *to)
{
    const uint8_t *other = all + next_random(a) % n * bytes;
    bool zero = true;
    for (int i = 0; i < 8 && !memcmp(other, was, bytes); i++) other = all + next_random(a) % n * bytes;
    if (memcmp(other, was, bytes)) {
        memcpy(to, other, bytes);
        return;
    }
    for (uint64_t i = 0; i < bytes; i++) zero &= !was[i];
    memset(to, 0, bytes);
    to[0] = zero;
}

/* Changes row r of input i. */
static void change_row(struct attempt *a, uint32_t i, uint32_t r, enum change change)
{
    const struct gw_layout_tensor *l = &a->t->in->tensor[i];
    uint32_t dtype = gw_model_input(a->t->model, i)->dtype;
    uint64_t bytes = gw_dtype_bytes(dtype), at = l->batched ? r * l->bytes : 0;
    uint64_t all = gw_layout_tensor_bytes(a->t->in, i, a->t->rows) / bytes;
    for (uint64_t k = at; k < at + l->bytes; k += bytes) {
        if (dtype <= GW_DTYPE_F64)
            put_float(dtype, a->changed.at[i] + k, float_for(a, change));
        else
            put_int(a, a->base.at[i], all, bytes, a->base.at[i] + k, a->changed.at[i] + k);
    }
}

/* Results that are as near as this may come from the same inputs. */
static bool is_near(const struct attempt *a, uint32_t i, uint64_t at)
{
    uint32_t dtype = gw_model_output(a->t->model, i)->dtype;
    uint64_t bytes = gw_dtype_bytes(dtype);
    const uint8_t *x = a->first.at[i] + at, *y = a->then.at[i] + at;
    if (!memcmp(x, y, bytes)) return true;
    if (dtype > GW_DTYPE_F64) return false;
    double v = get_float(dtype, x), w = get_float(dtype, y);
    return (isnan(v) && isnan(w)) || fabs(v - w) <= a->noise[i];
}

static bool same_row(const struct attempt *a, uint32_t i, uint32_t r)
{
    const struct gw_layout_tensor *l = &a->t->out->tensor[i];
    uint64_t bytes = gw_dtype_bytes(gw_model_output(a->t->model, i)->dtype),
             at = l->batched ? r * l->bytes : 0;
    for (uint64_t k = at; k < at + l->bytes; k += bytes)
        if (!is_near(a, i, k)) return false;
    return true;
}

static void measure_noise(struct attempt *a)
{
    for (uint32_t i = 0; i < a->t->out->tensors; i++) {
        uint32_t dtype = gw_model_output(a->t->model, i)->dtype;
        uint64_t bytes = gw_dtype_bytes(dtype), all = gw_layout_tensor_bytes(a->t->out, i, a->t->rows);
        double most = 0;
        for (uint64_t k = 0; dtype <= GW_DTYPE_F64 && k < all; k += bytes) {
            double v = fabs(get_float(dtype, a->first.at[i] + k));
            if (isfinite(v) && v > most) most = v;
        }
        a->noise[i] = most * (bytes == 2 ? NEAR_16 : NEAR);
    }
}

/* ---- runs ---- */

static int apart_run(struct attempt *a, const struct tensors *in, const struct tensors *out)
{
    return a->t->run(a->t->ctx, (const void *const *)in->at, (void *const *)out->at);
}

/* Rows with `side` as bit number `bit` change. */
static bool apart_changes(uint32_t r, uint32_t bit, uint32_t side)
{
    return (r >> bit & 1) == side;
}

static void apart_change(struct attempt *a, uint32_t bit, uint32_t side, enum change how)
{
    for (uint32_t i = 0; i < a->t->in->tensors; i++) {
        memcpy(a->changed.at[i], a->base.at[i], gw_layout_tensor_bytes(a->t->in, i, a->t->rows));
        if (!a->t->in->tensor[i].batched) continue;
        for (uint32_t r = 0; r < a->t->rows; r++)
            if (apart_changes(r, bit, side)) change_row(a, i, r, how);
    }
}

static int apart_try_rows(struct attempt *a, uint32_t bit, uint32_t side, enum change how)
{
    apart_change(a, bit, side, how);
    int err = apart_run(a, &a->changed, &a->then);
    /* Such numbers may be none that the model takes. */
    if (err) return how == SMALL ? err : 0;
    for (uint32_t i = 0; i < a->t->out->tensors; i++)
        for (uint32_t r = 0; a->t->out->tensor[i].batched && r < a->t->rows; r++)
            if (!apart_changes(r, bit, side) && !same_row(a, i, r)) return GW_APART_MEET;
    return 0;
}

/* Another run in between must leave no trace. */
static int try_again(struct attempt *a)
{
    for (uint32_t i = 0; i < a->t->in->tensors; i++)
        for (uint32_t r = 0; r < (a->t->in->tensor[i].batched ? a->t->rows : 1); r++)
            change_row(a, i, r, SMALL);
    int err = apart_run(a, &a->base, &a->first);
    measure_noise(a);
    if (!err) err = apart_run(a, &a->changed, &a->then);
    if (!err) err = apart_run(a, &a->base, &a->then);
    if (err) return err;
    for (uint32_t i = 0; i < a->t->out->tensors; i++)
        for (uint32_t r = 0; r < (a->t->out->tensor[i].batched ? a->t->rows : 1); r++)
            if (!same_row(a, i, r)) return GW_APART_CHANGES;
    return 0;
}

static int try_all(struct attempt *a)
{
    int found = try_again(a);
    for (uint32_t bit = 0; !found && (1u << bit) < a->t->rows; bit++)
        for (uint32_t side = 0; !found && side < 2; side++) {
            found = apart_try_rows(a, bit, side, LARGE);
            if (!found && !bit) found = apart_try_rows(a, bit, side, STRANGE);
        }
    return found;
}

/* ---- memory ---- */

static int apart_make(struct tensors *x, const struct gw_layout *l, uint32_t rows)
{
    for (uint32_t i = 0; i < l->tensors; i++) {
        uint64_t bytes = (gw_layout_tensor_bytes(l, i, rows) + ALIGN - 1) / ALIGN * ALIGN;
        x->at[i] = aligned_alloc(ALIGN, bytes + ALIGN);
        if (!x->at[i]) return -ENOMEM;
        memset(x->at[i], 0, bytes);
    }
    return 0;
}

static void apart_drop(struct tensors *x)
{
    for (uint32_t i = 0; i < GW_MODEL_MAX_IO; i++) free(x->at[i]);
}

/* Small numbers that any model takes; integers are 0 and 1. */
static void invent(struct attempt *a)
{
    for (uint32_t i = 0; i < a->t->in->tensors; i++) {
        uint64_t bytes = gw_dtype_bytes(gw_model_input(a->t->model, i)->dtype);
        for (uint64_t k = 0; k < gw_layout_tensor_bytes(a->t->in, i, a->t->rows); k += bytes)
            a->base.at[i][k] = next_random(a) & 1;
        for (uint32_t r = 0; r < (a->t->in->tensor[i].batched ? a->t->rows : 1); r++)
            change_row(a, i, r, SMALL);
        memcpy(a->base.at[i], a->changed.at[i], gw_layout_tensor_bytes(a->t->in, i, a->t->rows));
    }
}

int gw_apart_try(const struct gw_apart_trial *t)
{
    struct attempt a = {.t = t, .random = 1};
    int err = apart_make(&a.base, t->in, t->rows);
    if (!err) err = apart_make(&a.changed, t->in, t->rows);
    if (!err) err = apart_make(&a.first, t->out, t->rows);
    if (!err) err = apart_make(&a.then, t->out, t->rows);
    if (!err && t->example)
        err = t->example(t->ctx, (void *const *)a.base.at);
    else if (!err)
        invent(&a);
    if (!err) err = try_all(&a);
    apart_drop(&a.base);
    apart_drop(&a.changed);
    apart_drop(&a.first);
    apart_drop(&a.then);
    return err;
}
