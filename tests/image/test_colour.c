/* SPDX-License-Identifier: Apache-2.0 */
/* Colours to planes and back, and PSNR. */
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

static void every_colour_comes_back(void **state)
{
    (void)state;
    struct gw_image in, out;
    assert_int_equal(gw_image_new(&in, 256, 256, 3), 0);
    assert_int_equal(gw_image_new(&out, 256, 256, 3), 0);
    size_t n = 256 * 256;
    float *y = malloc(3 * n * sizeof(*y));
    for (unsigned blue = 0; blue < 256; blue += 5) {
        for (size_t i = 0; i < n; i++) {
            in.data[3 * i] = (uint8_t)(i % 256);
            in.data[3 * i + 1] = (uint8_t)(i / 256);
            in.data[3 * i + 2] = (uint8_t)blue;
        }
        gw_planes_from_image(&in, y, y + n, y + 2 * n, NULL);
        gw_planes_to_image(y, y + n, y + 2 * n, NULL, &out);
        assert_memory_equal(in.data, out.data, 3 * n);
    }
    free(y);
    gw_image_free(&in);
    gw_image_free(&out);
}

static void the_colours_are_jpegs(void **state)
{
    (void)state;
    struct gw_image image = {13, 9, 3, (uint8_t *)golden_source};
    float y[13 * 9], cb[13 * 9], cr[13 * 9], alpha[13 * 9];
    gw_planes_from_image(&image, y, cb, cr, alpha);
    for (int i = 0; i < 13 * 9; i++) {
        assert_true(fabsf(y[i] * 255 - golden_ycbcr[3 * i]) <
                    1.01f); /* Pillow rounds its table's entries down */
        assert_true(fabsf(cb[i] * 255 - golden_ycbcr[3 * i + 1]) < 1.01f);
        assert_true(fabsf(cr[i] * 255 - golden_ycbcr[3 * i + 2]) < 1.01f);
        assert_true(alpha[i] == 1.0f);
    }
}

static void grey_and_alpha_stay_exact(void **state)
{
    (void)state;
    for (uint32_t channels = 1; channels <= 4; channels++) {
        struct gw_image in, out;
        float planes[4][256];
        assert_int_equal(gw_image_new(&in, 16, 16, channels), 0);
        assert_int_equal(gw_image_new(&out, 16, 16, channels), 0);
        for (size_t i = 0; i < gw_image_bytes(&in); i++) in.data[i] = (uint8_t)(i * 37);
        gw_planes_from_image(&in, planes[0], planes[1], planes[2], planes[3]);
        gw_planes_to_image(planes[0], planes[1], planes[2], planes[3], &out);
        assert_memory_equal(in.data, out.data, gw_image_bytes(&in));
        gw_image_free(&in);
        gw_image_free(&out);
    }
}

static void strange_values_are_limited(void **state)
{
    (void)state;
    const float y[] = {-INFINITY, -1, 2, INFINITY, NAN, 0.5f};
    const uint8_t want[] = {0, 0, 255, 255, 0, 128};
    uint8_t got[6];
    struct gw_image image = {6, 1, 1, got};
    gw_planes_to_image(y, NULL, NULL, NULL, &image);
    assert_memory_equal(got, want, 6);
}

static void psnr_is_what_the_formula_says(void **state)
{
    (void)state;
    float a[100] = {0}, b[100] = {0};
    double db;
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, 0, &db), 0);
    assert_true(isinf(db) && db > 0);
    for (int i = 0; i < 100; i++) b[i] = 0.1f;
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, 3, &db), 0);
    assert_true(fabs(db - 20) < 1e-5);
    b[3 * 10 + 3] = 1; /* inside a border of 3 */
    b[2 * 10 + 3] = 9; /* outside */
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, 3, &db), 0);
    assert_true(fabs(db - 10 * log10(16 / (15 * 0.01 + 1))) < 1e-5);
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, 4, &db), 0);
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, 5, &db), -EINVAL);
    assert_int_equal(gw_plane_psnr(a, b, 10, 10, UINT32_MAX, &db), -EINVAL);
}

static void psnr_of_pictures_compares_luma(void **state)
{
    (void)state;
    struct gw_image a, b;
    double db;
    assert_int_equal(gw_image_new(&a, 12, 8, 3), 0);
    assert_int_equal(gw_image_new(&b, 12, 8, 4), 0);
    memset(a.data, 100, gw_image_bytes(&a));
    memset(b.data, 100, gw_image_bytes(&b));
    assert_int_equal(gw_image_psnr(&a, &b, 3, &db), 0);
    assert_true(isinf(db) || db > 120);
    for (size_t i = 0; i < gw_image_bytes(&b); i++) b.data[i] = i % 4 == 3 ? 0 : 110;
    assert_int_equal(gw_image_psnr(&a, &b, 3, &db), 0);
    assert_true(fabs(db - 20 * log10(25.5)) < 1e-3);
    gw_image_free(&b);
    assert_int_equal(gw_image_psnr(&a, &b, 3, &db), -EINVAL);
    assert_int_equal(gw_image_new(&b, 8, 12, 3), 0);
    assert_int_equal(gw_image_psnr(&a, &b, 3, &db), -EINVAL);
    gw_image_free(&a);
    gw_image_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_colour_comes_back),       cmocka_unit_test(the_colours_are_jpegs),
        cmocka_unit_test(grey_and_alpha_stay_exact),     cmocka_unit_test(strange_values_are_limited),
        cmocka_unit_test(psnr_is_what_the_formula_says), cmocka_unit_test(psnr_of_pictures_compares_luma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
