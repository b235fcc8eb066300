/* SPDX-License-Identifier: Apache-2.0 */
/* Bicubic resizing, separable: first along the rows, then along the columns, each output taking its few taps.
 *
 * Both forms use Pillow's taps (a = -0.5; antialiased where it shrinks; cut off and normalised at the edges).
 * The one for pictures computes as Pillow does for 8 bits, in fixed point with the lines rounded in between.
 * So its bytes are the same. The one for planes is in floats. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/image/planes.h"

#define SUPPORT    2.0 /* the cubic's reach, in input pixels when it does not shrink */
#define FIXED_BITS 22  /* Pillow's: 8 bits of pixel and 2 of overshoot are left of an int32_t */

struct span {
    uint32_t first, count; /* the input pixels an output takes */
};

/* One axis: for each output, which inputs and how much of each. */
struct axis {
    uint32_t in, out;
    uint32_t most; /* taps of an output at most: the stride of `taps` */
    struct span *spans;
    double *taps;
};

struct gw_resizer {
    struct axis across, down;
    float *across_taps, *down_taps;
    float *lines; /* the plane after the first pass: out width by in height */
};

static double resize_cubic(double x)
{
    x = fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

static void axis_free(struct axis *a)
{
    free(a->spans);
    free(a->taps);
    memset(a, 0, sizeof(*a));
}

static void axis_fill(struct axis *a, uint32_t i, double scale, double stretch)
{
    double centre = (i + 0.5) * scale, reach = SUPPORT * stretch, sum = 0;
    double low = centre - reach + 0.5, high = centre + reach + 0.5;
    uint32_t first = low > 0 ? (uint32_t)low : 0;
    uint32_t end = high < a->in ? (uint32_t)high : a->in;
    double *taps = a->taps + (size_t)i * a->most;
    for (uint32_t j = first; j < end; j++)
        sum += taps[j - first] = resize_cubic((j - centre + 0.5) / stretch);
    for (uint32_t j = first; j < end && sum != 0; j++) taps[j - first] /= sum;
    a->spans[i] = (struct span){first, end - first};
}

static int axis_make(struct axis *a, uint32_t in, uint32_t out)
{
    double scale = (double)in / out, stretch = scale > 1 ? scale : 1;
    *a = (struct axis){.in = in, .out = out, .most = 2 * (uint32_t)ceil(SUPPORT * stretch) + 1};
    a->spans = calloc(out, sizeof(*a->spans));
    a->taps = calloc((size_t)out * a->most, sizeof(*a->taps));
    if (!a->spans || !a->taps) {
        axis_free(a);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < out; i++) axis_fill(a, i, scale, stretch);
    return 0;
}

static int32_t *fixed_taps(const struct axis *a)
{
    size_t n = (size_t)a->out * a->most;
    int32_t *fixed = malloc(n * sizeof(*fixed));
    for (size_t i = 0; fixed && i < n; i++)
        fixed[i] = (int32_t)(a->taps[i] * (1 << FIXED_BITS) + (a->taps[i] < 0 ? -0.5 : 0.5));
    return fixed;
}

static float *float_taps(const struct axis *a)
{
    size_t n = (size_t)a->out * a->most;
    float *f = malloc(n * sizeof(*f));
    for (size_t i = 0; f && i < n; i++) f[i] = (float)a->taps[i];
    return f;
}

static uint8_t limit(int32_t v)
{
    v >>= FIXED_BITS;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* How to resize one line of 8-bit values: its values are `step` bytes apart. */
struct pass {
    const struct axis *axis;
    const int32_t *taps;
    size_t step;
};

static void run_pass(const struct pass *p, const uint8_t *in, uint8_t *out, size_t out_step)
{
    for (uint32_t i = 0; i < p->axis->out; i++) {
        struct span s = p->axis->spans[i];
        const int32_t *taps = p->taps + (size_t)i * p->axis->most;
        const uint8_t *from = in + s.first * p->step;
        int32_t sum = 1 << (FIXED_BITS - 1);
        for (uint32_t j = 0; j < s.count; j++) sum += from[j * p->step] * taps[j];
        out[i * out_step] = limit(sum);
    }
}

static void resize_rows(const struct pass *p, const struct gw_image *in, struct gw_image *out)
{
    uint32_t c = in->channels;
    for (uint32_t y = 0; y < in->height; y++)
        for (uint32_t k = 0; k < c; k++)
            run_pass(p, in->data + (size_t)y * in->width * c + k, out->data + (size_t)y * out->width * c + k,
                     c);
}

static void resize_columns(const struct pass *p, const struct gw_image *in, struct gw_image *out)
{
    size_t row = (size_t)in->width * in->channels;
    for (size_t x = 0; x < row; x++) run_pass(p, in->data + x, out->data + x, row);
}

/* Resizes along one axis; a size that stays is passed on unchanged (the taps would be 0, 1, 0 and change
 * nothing). */
static int resize_one_axis(const struct gw_image *in, uint32_t width, uint32_t height, struct gw_image *out)
{
    int rows = width != in->width;
    struct axis axis;
    int32_t *taps = NULL;
    int err = gw_image_new(out, width, height, in->channels);
    if (err) return err;
    err = rows ? axis_make(&axis, in->width, width) : axis_make(&axis, in->height, height);
    if (!err && !(taps = fixed_taps(&axis))) {
        axis_free(&axis);
        err = -ENOMEM;
    }
    if (err) {
        gw_image_free(out);
        return err;
    }
    struct pass pass = {&axis, taps, rows ? in->channels : (size_t)in->width * in->channels};
    if (rows)
        resize_rows(&pass, in, out);
    else
        resize_columns(&pass, in, out);
    free(taps);
    axis_free(&axis);
    return 0;
}

int gw_image_resize(const struct gw_image *in, uint32_t width, uint32_t height, struct gw_image *out)
{
    struct gw_image lines;
    memset(out, 0, sizeof(*out));
    if (!in->data || !width || !height) return -EINVAL;
    int err = resize_one_axis(in, width, in->height, &lines);
    if (err) return err;
    err = resize_one_axis(&lines, width, height, out);
    gw_image_free(&lines);
    return err;
}

static bool too_large(uint32_t width, uint32_t height)
{
    return width > GW_IMAGE_MAX_SIDE || height > GW_IMAGE_MAX_SIDE ||
           (uint64_t)width * height > GW_IMAGE_MAX_PIXELS;
}

int gw_resizer_new(uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height,
                   struct gw_resizer **resizer)
{
    *resizer = NULL;
    if (!in_width || !in_height || !out_width || !out_height) return -EINVAL;
    if (too_large(in_width, in_height) || too_large(out_width, out_height)) return -E2BIG;
    struct gw_resizer *r = calloc(1, sizeof(*r));
    if (!r) return -ENOMEM;
    int err = axis_make(&r->across, in_width, out_width);
    if (!err) err = axis_make(&r->down, in_height, out_height);
    if (!err) {
        r->across_taps = float_taps(&r->across);
        r->down_taps = float_taps(&r->down);
        r->lines = malloc((size_t)out_width * in_height * sizeof(*r->lines));
        if (!r->across_taps || !r->down_taps || !r->lines) err = -ENOMEM;
    }
    if (err) {
        gw_resizer_free(r);
        return err;
    }
    *resizer = r;
    return 0;
}

void gw_resizer_free(struct gw_resizer *r)
{
    if (!r) return;
    axis_free(&r->across);
    axis_free(&r->down);
    free(r->across_taps);
    free(r->down_taps);
    free(r->lines);
    free(r);
}

static void run_across(const struct gw_resizer *r, const float *in)
{
    const struct axis *a = &r->across;
    for (uint32_t y = 0; y < r->down.in; y++, in += a->in) {
        float *line = r->lines + (size_t)y * a->out;
        for (uint32_t i = 0; i < a->out; i++) {
            const float *taps = r->across_taps + (size_t)i * a->most, *from = in + a->spans[i].first;
            float sum = 0;
            for (uint32_t j = 0; j < a->spans[i].count; j++) sum += from[j] * taps[j];
            line[i] = sum;
        }
    }
}

void gw_resizer_run(struct gw_resizer *r, const float *in, float *out)
{
    const struct axis *a = &r->down;
    size_t width = r->across.out;
    run_across(r, in);
    for (uint32_t i = 0; i < a->out; i++, out += width) {
        memset(out, 0, width * sizeof(*out));
        for (uint32_t j = 0; j < a->spans[i].count; j++) {
            const float *line = r->lines + (a->spans[i].first + j) * width;
            float tap = r->down_taps[(size_t)i * a->most + j];
            for (size_t x = 0; x < width; x++) out[x] += line[x] * tap;
        }
    }
}
