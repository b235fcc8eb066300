/* SPDX-License-Identifier: Apache-2.0 */
/* Halves a picture again and again, and reads between its pixels. */
#include "apps/faceverify/picture/pyramid.h"

#include <math.h>
#include <string.h>

static void pyramid_halve(const struct face_picture *in, struct face_picture *out)
{
    for (uint32_t y = 0; y < out->height; y++)
        for (uint32_t x = 0; x < out->width; x++) {
            uint32_t l = 2 * x, r = l + 1 < in->width ? l + 1 : l;
            const uint8_t *up = in->grey + (size_t)(2 * y) * in->width;
            const uint8_t *down = 2 * y + 1 < in->height ? up + in->width : up;
            out->grey[(size_t)y * out->width + x] = (uint8_t)((up[l] + up[r] + down[l] + down[r] + 2) / 4);
        }
}

int face_pyramid_new(const struct face_picture *picture, struct face_pyramid *p)
{
    memset(p, 0, sizeof(*p));
    p->level[0] = *picture;
    for (p->levels = 1; p->levels < FACE_LEVELS; p->levels++) {
        const struct face_picture *in = &p->level[p->levels - 1];
        if (in->width == 1 && in->height == 1) break;
        int err = face_picture_new(&p->level[p->levels], (in->width + 1) / 2, (in->height + 1) / 2,
                                   "a smaller copy");
        if (err) {
            face_pyramid_free(p);
            return err;
        }
        pyramid_halve(in, &p->level[p->levels]);
    }
    return 0;
}

void face_pyramid_free(struct face_pyramid *p)
{
    for (uint32_t i = 1; i < p->levels; i++) face_picture_free(&p->level[i]);
    memset(p, 0, sizeof(*p));
}

static float pyramid_clamp(float x, uint32_t size)
{
    float most = (float)(size - 1);
    return x < 0 ? 0 : x > most ? most : x;
}

/* Between the four pixels around. */
static float pyramid_between(const struct face_picture *p, float x, float y)
{
    x = pyramid_clamp(x, p->width);
    y = pyramid_clamp(y, p->height);
    uint32_t l = (uint32_t)x, t = (uint32_t)y, r = l + 1 < p->width ? l + 1 : l,
             b = t + 1 < p->height ? t + 1 : t;
    float u = x - (float)l, v = y - (float)t;
    const uint8_t *up = p->grey + (size_t)t * p->width, *down = p->grey + (size_t)b * p->width;
    float top = (float)up[l] + ((float)up[r] - (float)up[l]) * u;
    float low = (float)down[l] + ((float)down[r] - (float)down[l]) * u;
    return top + (low - top) * v;
}

float face_pyramid_at(const struct face_pyramid *p, float x, float y, float step)
{
    uint32_t level = 0;
    while (step >= 2 && level + 1 < p->levels) {
        step /= 2;
        x = x / 2 - .25f; /* the middle of a pixel moves */
        y = y / 2 - .25f;
        level++;
    }
    if (step <= 1) return pyramid_between(&p->level[level], x, y);
    float sum = 0, quarter = step / 4;
    for (int i = 0; i < 4; i++)
        sum += pyramid_between(&p->level[level], x + (i & 1 ? quarter : -quarter),
                               y + (i & 2 ? quarter : -quarter));
    return sum / 4;
}
