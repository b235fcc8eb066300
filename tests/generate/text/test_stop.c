/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings: against a search through the whole text, however it is cut; and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/generate/text/stop.h"
#include "tests/rnd.h"

static struct gen_stop *open_stops(const char *const *strings, unsigned count)
{
    size_t bytes[GEN_MAX_STOP_STRINGS];
    struct gen_stop *s;
    for (unsigned i = 0; i < count; i++) bytes[i] = strlen(strings[i]);
    assert_int_equal(gen_stop_open(strings, bytes, count, &s), 0);
    return s;
}

/* Where the longest of the strings begins that end first in the text; the text's end for none. */
static size_t first_stop(const char *text, const char *const *strings, unsigned count, int *which)
{
    size_t n = strlen(text), start = n;
    *which = -1;
    for (size_t end = 1; end <= n && *which < 0; end++) {
        for (unsigned i = 0; i < count; i++) {
            size_t len = strlen(strings[i]);
            if (len <= end && !memcmp(text + end - len, strings[i], len) && end - len < start) {
                start = end - len;
                *which = (int)i;
            }
        }
    }
    return start;
}

static void feed_all(struct gen_stop *s, const char *text, struct rnd *rnd, struct gw_text *out)
{
    size_t n = strlen(text), at = 0;
    int ended = 0;
    while (at < n && !ended) {
        size_t piece = rnd_below(rnd, 4);
        if (piece > n - at) piece = n - at;
        ended = gen_stop_feed(s, text + at, piece, out);
        at += piece;
    }
    if (!ended) assert_int_equal(gen_stop_end(s, out), 0);
}

static void cut_in_any_way(void **state)
{
    (void)state;
    struct rnd rnd = {7};
    for (unsigned round = 0; round < 20000; round++) {
        char strings[4][8], text[64];
        const char *list[4];
        unsigned count = 1 + (unsigned)(rnd_below(&rnd, 4));
        for (unsigned i = 0; i < count; i++) {
            size_t len = 1 + rnd_below(&rnd, 6);
            for (size_t j = 0; j < len; j++) strings[i][j] = (char)('a' + rnd_below(&rnd, 2));
            strings[i][len] = 0;
            list[i] = strings[i];
        }
        size_t n = rnd_below(&rnd, 40);
        for (size_t j = 0; j < n; j++) text[j] = (char)('a' + rnd_below(&rnd, 3));
        text[n] = 0;
        int which;
        size_t start = first_stop(text, list, count, &which);
        struct gen_stop *s = open_stops(list, count);
        struct gw_text out = {0};
        feed_all(s, text, &rnd, &out);
        assert_int_equal(out.bytes, start);
        assert_memory_equal(out.at ? out.at : "", text, start);
        assert_int_equal(gen_stop_which(s) >= 0, which >= 0);
        if (which >= 0) assert_string_equal(list[gen_stop_which(s)], list[which]);
        free(out.at);
        gen_stop_close(s);
    }
}

static void holds_back_only_a_beginning(void **state)
{
    (void)state;
    const char *strings[] = {"\n\nUser:"};
    struct gen_stop *s = open_stops(strings, 1);
    struct gw_text out = {0};
    assert_int_equal(gen_stop_feed(s, "Hello\n", 6, &out), 0);
    assert_int_equal(out.bytes, 5);
    assert_int_equal(gen_stop_feed(s, "\nUs", 3, &out), 0);
    assert_int_equal(out.bytes, 5);
    assert_int_equal(gen_stop_feed(s, "e it", 4, &out), 0);
    assert_string_equal(out.at, "Hello\n\nUse it");
    assert_int_equal(gen_stop_feed(s, "\n\nUser: x", 9, &out), 1);
    assert_string_equal(out.at, "Hello\n\nUse it");
    assert_int_equal(gen_stop_feed(s, "more", 4, &out), 1);
    assert_int_equal(gen_stop_end(s, &out), 0);
    assert_string_equal(out.at, "Hello\n\nUse it");
    free(out.at);
    gen_stop_close(s);
}

static void refuses_what_is_too_much(void **state)
{
    (void)state;
    struct gen_stop *s;
    char *megabyte = malloc(1 << 20);
    assert_non_null(megabyte);
    memset(megabyte, 'a', 1 << 20);
    const char *strings[GEN_MAX_STOP_STRINGS + 1];
    size_t bytes[GEN_MAX_STOP_STRINGS + 1];
    for (unsigned i = 0; i <= GEN_MAX_STOP_STRINGS; i++) {
        strings[i] = megabyte;
        bytes[i] = 1;
    }
    assert_int_equal(gen_stop_open(strings, bytes, GEN_MAX_STOP_STRINGS + 1, &s), -E2BIG);
    assert_null(s);
    bytes[0] = 1 << 20;
    assert_int_equal(gen_stop_open(strings, bytes, 1, &s), -E2BIG);
    bytes[0] = GEN_MAX_STOP_BYTES - 1;
    assert_int_equal(gen_stop_open(strings, bytes, 3, &s), -E2BIG);
    bytes[0] = 0;
    assert_int_equal(gen_stop_open(strings, bytes, 1, &s), -EINVAL);
    /* The longest that is allowed, and the worst text for it: the time is linear, or this never ends. */
    bytes[0] = GEN_MAX_STOP_BYTES;
    megabyte[GEN_MAX_STOP_BYTES - 1] = 'b';
    assert_int_equal(gen_stop_open(strings, bytes, 1, &s), 0);
    struct gw_text out = {0};
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(gen_stop_feed(s, megabyte, GEN_MAX_STOP_BYTES - 2, &out), 0);
    assert_int_equal(gen_stop_end(s, &out), 0);
    assert_int_equal(out.bytes, 64 * (GEN_MAX_STOP_BYTES - 2));
    free(out.at);
    gen_stop_close(s);
    free(megabyte);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_in_any_way),
        cmocka_unit_test(holds_back_only_a_beginning),
        cmocka_unit_test(refuses_what_is_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
