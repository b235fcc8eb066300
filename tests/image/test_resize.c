/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing: Pillow's results are the reference. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "src/image/planes.h"

static const struct gw_image source = {13, 9, 3, (uint8_t *)golden_source};

static void bytes_equal_pillows(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height;
        const uint8_t *want;
    } cases[] = {{13, 9, golden_source}, {39, 27, golden_39x27}, {5, 4, golden_5x4},
                 {19, 20, golden_19x20}, {1, 1, golden_1x1},     {4, 21, golden_4x21}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct gw_image out;
        assert_int_equal(gw_image_resize(&source, cases[i].width, cases[i].height, &out), 0);
        assert_int_equal(out.width, cases[i].width);
        assert_int_equal(out.height, cases[i].height);
        assert_memory_equal(out.data, cases[i].want, gw_image_bytes(&out));
        gw_image_free(&out);
    }
}

static void plane_equals_pillows(uint32_t width, uint32_t height, const float *want)
{
    float in[13 * 9], out[31 * 25];
    for (int i = 0; i < 13 * 9; i++) in[i] = golden_source[3 * i + 2] / 255.0f;
    struct gw_resizer *r;
    assert_int_equal(gw_resizer_new(13, 9, width, height, &r), 0);
    for (int again = 0; again < 2; again++) {
        memset(out, 0xff, sizeof(out));
        gw_resizer_run(r, in, out);
        for (uint32_t i = 0; i < width * height; i++) assert_true(fabsf(out[i] - want[i]) < 2e-6f);
    }
    gw_resizer_free(r);
}

static void planes_equal_pillows(void **state)
{
    (void)state;
    plane_equals_pillows(31, 25, golden_plane_31x25);
    plane_equals_pillows(5, 4, golden_plane_5x4);
}

static void flat_stays_flat(void **state)
{
    (void)state;
    for (uint32_t side = 1; side < 40; side += 6) {
        struct gw_image in, out;
        assert_int_equal(gw_image_new(&in, side, 40 - side, 1), 0);
        memset(in.data, 201, gw_image_bytes(&in));
        assert_int_equal(gw_image_resize(&in, 3 * side, 3, &out), 0);
        for (size_t i = 0; i < gw_image_bytes(&out); i++) assert_int_equal(out.data[i], 201);
        gw_image_free(&in);
        gw_image_free(&out);
    }
}

static void bad_sizes_are_refused(void **state)
{
    (void)state;
    struct gw_image out, empty = {0};
    struct gw_resizer *r;
    assert_int_equal(gw_image_resize(&source, 0, 5, &out), -EINVAL);
    assert_int_equal(gw_image_resize(&empty, 5, 5, &out), -EINVAL);
    assert_int_equal(gw_image_resize(&source, GW_IMAGE_MAX_SIDE + 1, 5, &out), -E2BIG);
    assert_null(out.data);
    assert_int_equal(gw_resizer_new(0, 1, 1, 1, &r), -EINVAL);
    assert_int_equal(gw_resizer_new(1, 1, GW_IMAGE_MAX_SIDE, GW_IMAGE_MAX_SIDE, &r), -E2BIG);
    assert_null(r);
    gw_resizer_free(NULL);
}

static void crops_are_cut_out(void **state)
{
    (void)state;
    struct gw_image out;
    assert_int_equal(gw_image_crop(&source, 3, 2, 5, 6, &out), 0);
    for (uint32_t y = 0; y < 6; y++)
        assert_memory_equal(out.data + y * 15, golden_source + ((y + 2) * 13 + 3) * 3, 15);
    gw_image_free(&out);
    assert_int_equal(gw_image_crop(&source, 10, 0, 4, 1, &out), -EINVAL);
    assert_int_equal(gw_image_crop(&source, 0, 9, 1, 1, &out), -EINVAL);
    assert_int_equal(gw_image_crop(&source, 1, 0, UINT32_MAX, 1, &out), -EINVAL);
    assert_int_equal(gw_image_crop(&source, 0, 0, 0, 1, &out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_equal_pillows), cmocka_unit_test(planes_equal_pillows),
        cmocka_unit_test(flat_stays_flat),     cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(crops_are_cut_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
