/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles: joined, they equal what the whole plane would have given, to the last bit. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/image/image.h"
#include "src/image/tiles.h"

#define SCALE 3

static uint32_t seed = 12345;

static float noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 24);
}

/* Something like a network: each output looks `radius` pixels far, not linearly, and sees zeros beyond the
 * edges. */
static void fake_network(const float *in, uint32_t width, uint32_t height, int radius, float *out)
{
    for (int64_t y = 0; y < (int64_t)height * SCALE; y++) {
        for (int64_t x = 0; x < (int64_t)width * SCALE; x++) {
            float sum = 0;
            for (int dy = -radius; dy <= radius; dy++) {
                for (int dx = -radius; dx <= radius; dx++) {
                    int64_t iy = y / SCALE + dy, ix = x / SCALE + dx;
                    float v = iy < 0 || ix < 0 || iy >= height || ix >= width ? 0 : in[iy * width + ix];
                    sum += v * v *
                           (0.1f + 0.03f * (float)(dy * 3 + dx) +
                            0.01f * (float)(y % SCALE * SCALE + x % SCALE));
                }
            }
            out[y * width * SCALE + x] = sum;
        }
    }
}

/* The whole plane at once, its edges repeated `margin` pixels outwards as tiles see them, cut to size
 * afterwards. */
static void whole(const float *plane, uint32_t width, uint32_t height, uint32_t margin, int radius,
                  float *out)
{
    uint32_t w = width + 2 * margin, h = height + 2 * margin;
    float *padded = malloc((size_t)w * h * sizeof(float)),
          *made = malloc((size_t)w * h * SCALE * SCALE * sizeof(float));
    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) {
            uint32_t sy = y < margin ? 0 : y - margin >= height ? height - 1 : y - margin;
            uint32_t sx = x < margin ? 0 : x - margin >= width ? width - 1 : x - margin;
            padded[(size_t)y * w + x] = plane[(size_t)sy * width + sx];
        }
    }
    fake_network(padded, w, h, radius, made);
    for (uint32_t y = 0; y < height * SCALE; y++)
        memcpy(out + (size_t)y * width * SCALE, made + (((size_t)y + margin * SCALE) * w + margin) * SCALE,
               (size_t)width * SCALE * sizeof(float));
    free(padded);
    free(made);
}

static void tiled(const struct gw_tiles *tiles, const float *plane, int radius, float *out)
{
    size_t n = (size_t)tiles->side * tiles->side;
    float *tile = malloc(n * sizeof(float)), *answer = malloc(n * SCALE * SCALE * sizeof(float));
    for (uint32_t i = 0; i < tiles->count; i++) {
        uint32_t index = tiles->count - 1 - i; /* any order will do */
        gw_tile_extract(tiles, index, plane, tile);
        fake_network(tile, tiles->side, tiles->side, radius, answer);
        gw_tile_place(tiles, index, answer, out);
    }
    free(tile);
    free(answer);
}

static int seams(uint32_t width, uint32_t height, uint32_t side, uint32_t overlap, int radius)
{
    struct gw_tiles tiles;
    assert_int_equal(gw_tiles_plan(&tiles, width, height, side, overlap, SCALE), 0);
    size_t n = (size_t)width * height;
    float *plane = malloc(n * sizeof(float));
    float *want = malloc(n * SCALE * SCALE * sizeof(float)), *got = malloc(n * SCALE * SCALE * sizeof(float));
    for (size_t i = 0; i < n; i++) plane[i] = noise();
    memset(got, 0xff, n * SCALE * SCALE * sizeof(float));
    whole(plane, width, height, overlap, radius, want);
    tiled(&tiles, plane, radius, got);
    int differ = memcmp(got, want, n * SCALE * SCALE * sizeof(float)) != 0;
    free(plane);
    free(want);
    free(got);
    return differ;
}

static void joined_tiles_equal_the_whole(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {5, 40}, {12, 12}, {13, 12}, {37, 29}, {60, 1}, {24, 25}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        assert_int_equal(seams(sizes[i][0], sizes[i][1], 16, 2, 2), 0);
        assert_int_equal(seams(sizes[i][0], sizes[i][1], 16, 3, 2), 0);
        assert_int_equal(seams(sizes[i][0], sizes[i][1], 7, 3, 3), 0); /* a core of one pixel */
        assert_int_equal(seams(sizes[i][0], sizes[i][1], 16, 0, 0), 0);
    }
}

static void too_little_overlap_shows(void **state)
{
    (void)state;
    assert_int_equal(seams(37, 29, 16, 1, 2), 1);
}

static void plans(void **state)
{
    (void)state;
    struct gw_tiles t;
    assert_int_equal(gw_tiles_plan(&t, 600, 400, 224, 8, 3), 0);
    assert_int_equal(t.core, 208);
    assert_int_equal(t.columns, 3);
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.count, 6);
    assert_int_equal(gw_tiles_plan(&t, 208, 209, 224, 8, 3), 0);
    assert_int_equal(t.columns, 1);
    assert_int_equal(t.rows, 2);
    assert_int_equal(gw_tiles_plan(&t, 0, 1, 224, 8, 3), -EINVAL);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, 224, 112, 3), -EINVAL);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, 225, 112, 3), 0);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, 224, UINT32_MAX, 3), -EINVAL);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, 224, 8, 0), -EINVAL);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, 224, 8, 17), -EINVAL);
    assert_int_equal(gw_tiles_plan(&t, 1, 1, UINT32_MAX, 8, 3), -E2BIG);
    assert_int_equal(gw_tiles_plan(&t, GW_IMAGE_MAX_SIDE, 1, 224, 8, 3), -E2BIG);
    assert_int_equal(gw_tiles_plan(&t, 10000, 10000, 224, 8, 3), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_tiles_equal_the_whole),
        cmocka_unit_test(too_little_overlap_shows),
        cmocka_unit_test(plans),
    };
    printf("seed %u\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
