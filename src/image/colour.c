/* SPDX-License-Identifier: Apache-2.0 */
/* Between pixels and planes of luma and colour differences: ITU-R BT.601, full range, as JFIF defines it. */
#include "src/image/planes.h"

#define RED_Y   0.299f
#define GREEN_Y 0.587f
#define BLUE_Y  0.114f
#define CB_SPAN 1.772f /* 2 (1 - BLUE_Y) */
#define CR_SPAN 1.402f /* 2 (1 - RED_Y) */
#define MIDDLE  (128.0f / 255.0f)

static void colour_split(const uint8_t *p, uint32_t channels, float *y, float *cb, float *cr)
{
    const float unit = 1.0f / 255.0f;
    if (channels < 3) {
        *y = p[0] * unit;
        *cb = *cr = MIDDLE;
        return;
    }
    float r = p[0] * unit, g = p[1] * unit, b = p[2] * unit;
    *y = RED_Y * r + GREEN_Y * g + BLUE_Y * b;
    *cb = MIDDLE + (b - *y) / CB_SPAN;
    *cr = MIDDLE + (r - *y) / CR_SPAN;
}

void gw_planes_from_image(const struct gw_image *image, float *y, float *cb, float *cr, float *alpha)
{
    uint32_t channels = image->channels;
    size_t n = (size_t)image->width * image->height;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = image->data + i * channels;
        float b, r;
        colour_split(p, channels, &y[i], &b, &r);
        if (cb) cb[i] = b;
        if (cr) cr[i] = r;
        if (alpha) alpha[i] = channels % 2 ? 1.0f : p[channels - 1] / 255.0f;
    }
}

static uint8_t level(float v)
{
    if (!(v > 0)) /* also what is not a number: a network may answer anything */
        return 0;
    return v >= 1 ? 255 : (uint8_t)(v * 255.0f + 0.5f);
}

void gw_planes_to_image(const float *y, const float *cb, const float *cr, const float *alpha,
                        struct gw_image *image)
{
    uint32_t channels = image->channels;
    size_t n = (size_t)image->width * image->height;
    for (size_t i = 0; i < n; i++) {
        uint8_t *p = image->data + i * channels;
        if (channels < 3) {
            p[0] = level(y[i]);
        } else {
            float r = y[i] + CR_SPAN * (cr[i] - MIDDLE);
            float b = y[i] + CB_SPAN * (cb[i] - MIDDLE);
            p[0] = level(r);
            p[1] = level((y[i] - RED_Y * r - BLUE_Y * b) / GREEN_Y);
            p[2] = level(b);
        }
        if (channels % 2 == 0) p[channels - 1] = level(alpha[i]);
    }
}
