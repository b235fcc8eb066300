/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says of captured graphs is checked before anything is copied. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "src/generate/captured/captured.h"

static uint64_t place[8][64]; /* addresses; the graphs are never run */
static const struct gen_captured_graph two[] = {{1, place[7]}, {8, place[7]}};

static struct gen_captured whole(void)
{
    return (struct gen_captured){.vocab = 100,
                                 .max_position = 512,
                                 .max_rows = 8,
                                 .lanes = 4,
                                 .lane_pages = 2,
                                 .step = place[0],
                                 .token = (uint32_t *)place[1],
                                 .position = (uint32_t *)place[2],
                                 .lane = (uint32_t *)place[3],
                                 .out = (uint32_t *)place[4],
                                 .page = (uint32_t *)place[5],
                                 .run = (struct gen_run *)place[6],
                                 .cache = {place[7], GW_DTYPE_BF16, 2, 8, 1, 16},
                                 .logits = (float *)place[7],
                                 .graph = two,
                                 .graphs = 2};
}

static void refused(const struct gen_captured *c, const char *why)
{
    struct gen_net net;

    assert_int_equal(gen_captured_net(c, &net), -EINVAL);
    if (!strstr(gw_last_error(), why)) fail_msg("%s: not because of: %s", gw_last_error(), why);
}

#define REFUSED(member, value, why)                                                                          \
    do {                                                                                                     \
        struct gen_captured c_ = whole();                                                                    \
        c_.member = value;                                                                                   \
        refused(&c_, why);                                                                                   \
    } while (0)

static void test_refused(void **state)
{
    static const struct gen_captured_graph none[] = {{4, NULL}, {8, place}},
                                           falling[] = {{8, place}, {8, place}},
                                           small[] = {{4, place}, {6, place}};

    (void)state;
    REFUSED(vocab, 0, "vocabulary");
    REFUSED(max_rows, GEN_MAX_ROWS + 1, "rows");
    REFUSED(lanes, GEN_MAX_LANES + 1, "lanes");
    REFUSED(lane_pages, 0, "lanes");
    REFUSED(cache.dtype, GW_DTYPE_I8, "cache");
    REFUSED(cache.pages, 0, "cache");
    REFUSED(token, NULL, "multiple of 8");
    REFUSED(page, (uint32_t *)((char *)place + 4), "multiple of 8");
    REFUSED(graphs, 0, "graphs");
    REFUSED(graphs, GEN_NET_SIZES + 1, "graphs");
    REFUSED(graph, none, "ascending");
    REFUSED(graph, falling, "ascending");
    REFUSED(graph, small, "max_rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
