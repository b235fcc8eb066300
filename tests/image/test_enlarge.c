/* SPDX-License-Identifier: Apache-2.0 */
/* Enlarging with a stand-in for the network: what surrounds it must be right for every kind of picture. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/image/enlarge.h"

#define SIDE 32

/* A network that does what bicubic interpolation does. */
static void answer_all(struct gw_enlarge *job)
{
    static float in[SIDE * SIDE], out[SIDE * SIDE * 9];
    struct gw_resizer *r;
    assert_int_equal(gw_resizer_new(SIDE, SIDE, 3 * SIDE, 3 * SIDE, &r), 0);
    for (uint32_t i = 0; i < job->tiles.count; i++) {
        gw_enlarge_tile(job, i, in);
        gw_resizer_run(r, in, out);
        gw_enlarge_answer(job, i, out);
    }
    gw_resizer_free(r);
}

static void smooth(struct gw_image *image)
{
    for (size_t i = 0; i < gw_image_bytes(image); i++) {
        size_t pixel = i / image->channels, x = pixel % image->width, y = pixel / image->width;
        double wave = sin(0.13 * (double)x + 0.9 * (double)(i % image->channels)) * cos(0.11 * (double)y);
        image->data[i] = (uint8_t)(128 + 80 * wave);
    }
}

/* With bicubic for luma too, the picture must be the bicubic one, but at the edges, where the taps are cut
 * off here and the pixels repeated there. */
static void the_parts_fit_together(void **state)
{
    (void)state;
    for (uint32_t channels = 1; channels <= 4; channels++) {
        struct gw_image small, larger, want;
        struct gw_enlarge job;
        assert_int_equal(gw_image_new(&small, 61, 47, channels), 0);
        smooth(&small);
        assert_int_equal(gw_enlarge_begin(&job, &small, SIDE, 4, 3), 0);
        assert_int_equal(job.tiles.count, 6);
        answer_all(&job);
        assert_int_equal(gw_enlarge_finish(&job, &larger), 0);
        gw_enlarge_end(&job);
        assert_int_equal(gw_image_resize(&small, 183, 141, &want), 0);
        assert_int_equal(larger.width, 183);
        assert_int_equal(larger.height, 141);
        assert_int_equal(larger.channels, channels);
        for (uint32_t y = 6; y < 141 - 6; y++)
            for (size_t i = 6 * channels; i < (183 - 6) * channels; i++)
                assert_in_range(larger.data[y * 183 * channels + i] - want.data[y * 183 * channels + i] + 2,
                                0, 4);
        gw_image_free(&small);
        gw_image_free(&larger);
        gw_image_free(&want);
    }
}

static void a_lost_tile_is_black(void **state)
{
    (void)state;
    struct gw_image small, larger;
    struct gw_enlarge job;
    assert_int_equal(gw_image_new(&small, 9, 9, 1), 0);
    smooth(&small);
    assert_int_equal(gw_enlarge_begin(&job, &small, SIDE, 4, 3), 0);
    assert_int_equal(gw_enlarge_finish(&job, &larger), 0);
    gw_enlarge_end(&job);
    for (size_t i = 0; i < gw_image_bytes(&larger); i++) assert_int_equal(larger.data[i], 0);
    gw_image_free(&small);
    gw_image_free(&larger);
}

static void bad_arguments(void **state)
{
    (void)state;
    struct gw_image small;
    struct gw_enlarge job;
    assert_int_equal(gw_image_new(&small, 12000, 1, 1), 0);
    assert_int_equal(gw_enlarge_begin(&job, &small, SIDE, 4, 3), -E2BIG);
    assert_int_equal(gw_enlarge_begin(&job, &small, SIDE, SIDE, 3), -EINVAL);
    gw_image_free(&small);
    assert_int_equal(gw_enlarge_begin(&job, &small, SIDE, 4, 3), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_fit_together),
        cmocka_unit_test(a_lost_tile_is_black),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
