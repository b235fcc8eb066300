/* SPDX-License-Identifier: Apache-2.0 */
/* memcached's answers, as a kernel reads them: whole ones, each of their beginnings, and such with bytes that
 * were changed. Buffers have the exact size, so that a sanitizer sees what is read beyond them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apps/faceverify/memcache.h"

enum { VALUE_MAX = 300, ROUNDS = 20000 };

struct said {
    uint8_t bytes[2000];
    uint32_t n, protocol, key_len, value_len, opaque;
    char key[MC_KEY_MAX + 1];
    bool there;
};

static void put(struct said *s, const void *bytes, uint32_t n)
{
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

static void put_binary(struct said *s, const uint8_t *value)
{
    uint32_t extras = s->there ? 4 : 0, body = extras + s->key_len + s->value_len;
    uint8_t head[MC_HEAD] = {MC_MAGIC_ANSWER, MC_GETK, 0, (uint8_t)s->key_len,
                             (uint8_t)extras, 0,       0, s->there ? 0 : MC_NOT_FOUND};

    head[10] = (uint8_t)(body >> 8);
    head[11] = (uint8_t)body;
    memcpy(head + 12, &s->opaque, 4);
    put(s, head, sizeof(head));
    put(s, "\0\0\0\7", extras);
    put(s, s->key, s->key_len);
    put(s, value, s->value_len);
}

static void put_text(struct said *s, const uint8_t *value)
{
    char line[MC_LINE_MAX];

    if (s->there) {
        put(s, line,
            (uint32_t)snprintf(line, sizeof(line), "VALUE %s 7 %u%s\r\n", s->key, s->value_len,
                               s->opaque & 1 ? " 18446744073" : ""));
        put(s, value, s->value_len);
        put(s, "\r\n", 2);
    }
    put(s, "END\r\n", 5);
}

/* An answer as memcached gives it. */
static void answer_make(struct said *s, uint32_t protocol)
{
    uint8_t value[2 * VALUE_MAX];

    memset(s, 0, sizeof(*s));
    s->protocol = protocol;
    s->there = rand() % 4;
    s->opaque = (uint32_t)rand();
    s->key_len = 1 + (uint32_t)rand() % MC_KEY_MAX;
    for (uint32_t i = 0; i < s->key_len; i++) s->key[i] = (char)('!' + rand() % 90);
    s->value_len = s->there ? (uint32_t)rand() % (VALUE_MAX + VALUE_MAX / 8) : 0;
    for (uint32_t i = 0; i < s->value_len; i++) value[i] = (uint8_t)rand();
    if (protocol == MC_TEXT)
        put_text(s, value);
    else
        put_binary(s, value);
}

/* The first n bytes, in memory that ends there. */
static struct mc_answer answer_read(const struct said *s, uint32_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    struct mc_answer a;

    memcpy(copy, s->bytes, n);
    mc_answer_read(s->protocol, copy, n, VALUE_MAX, &a);
    assert_true(a.kind <= MC_BROKEN);
    if (a.kind == MC_MORE || a.kind == MC_BROKEN) assert_int_equal(0, a.used);
    if (a.kind == MC_VALUE) {
        assert_true(a.key_len <= MC_KEY_MAX && a.value_len <= VALUE_MAX);
        assert_true(a.key + a.key_len <= a.used && a.value + a.value_len <= a.used);
    }
    if (a.kind == MC_VALUE || a.kind == MC_MISS || a.kind == MC_REFUSED) {
        assert_true(a.used && a.used <= n && a.used <= MC_ANSWER_ROOM(VALUE_MAX));
    }
    if (a.kind == MC_TOO_LONG) assert_true(a.used <= MC_SKIP_MAX + MC_LINE_MAX + 7);
    free(copy);
    return a;
}

static void whole(void **state)
{
    struct said s;

    (void)state;
    for (int i = 0; i < ROUNDS / 100; i++) {
        answer_make(&s, i % 2 ? MC_TEXT : MC_BINARY);
        struct mc_answer a = answer_read(&s, s.n);

        assert_int_equal(a.used, s.n);
        assert_int_equal(a.kind, !s.there ? MC_MISS : s.value_len > VALUE_MAX ? MC_TOO_LONG : MC_VALUE);
        if (s.protocol == MC_BINARY) assert_int_equal(a.opaque, s.opaque);
        if (a.kind == MC_VALUE) {
            assert_int_equal(a.key_len, s.key_len);
            assert_memory_equal(s.bytes + a.key, s.key, s.key_len);
            assert_int_equal(a.value_len, s.value_len);
        }
        for (uint32_t n = 0; n < s.n; n++) {
            a = answer_read(&s, n);
            assert_true(a.kind == MC_MORE || a.kind == MC_TOO_LONG);
        }
    }
}

static void changed(void **state)
{
    struct said s;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        answer_make(&s, i % 2 ? MC_TEXT : MC_BINARY);
        for (int k = rand() % 4; k >= 0; k--) {
            uint32_t at = (uint32_t)rand() % (rand() % 2 ? 30 : s.n);

            s.bytes[at] = rand() % 2 ? (uint8_t)rand() : (uint8_t)(s.bytes[at] ^ 1u << rand() % 8);
        }
        answer_read(&s, (uint32_t)rand() % (s.n + 1));
        answer_read(&s, s.n);
    }
}

/* A line of a megabyte, or a number that does not fit, ends the connection, and not the reader. */
static void endless(void **state)
{
    struct said s = {.protocol = MC_TEXT, .n = sizeof(s.bytes)};

    (void)state;
    memset(s.bytes, 'V', sizeof(s.bytes));
    assert_int_equal(MC_MORE, answer_read(&s, MC_LINE_MAX - 1).kind);
    assert_int_equal(MC_BROKEN, answer_read(&s, MC_LINE_MAX).kind);
    memcpy(s.bytes, "VALUE k 0 99999999999999999999\r\n", 32);
    assert_int_equal(MC_BROKEN, answer_read(&s, 100).kind);
    memcpy(s.bytes, "VALUE k 0 16777217 \r\n", 21);
    assert_int_equal(MC_BROKEN, answer_read(&s, 100).kind);
    memcpy(s.bytes, "VALUE k 0 16777216\r\n", 20);
    assert_int_equal(MC_TOO_LONG, answer_read(&s, 100).kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(changed),
                                       cmocka_unit_test(endless)};

    srand(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
