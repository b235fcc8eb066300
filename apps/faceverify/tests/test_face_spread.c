/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are spread as libmemcached spreads them: the same server for each of thousands of keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libmemcached/memcached.h>

#include "apps/faceverify/memcache_ring.h"

static const char *const lists[] = {
    "127.0.0.1",
    "127.0.0.1:11211,127.0.0.1:11212",
    "127.0.0.1:11211/3,127.0.0.2:11211,127.0.0.3:7000/2",
    "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5,127.0.0.1:6,127.0.0.1:7",
};
enum { LISTS = sizeof(lists) / sizeof(lists[0]), KEYS = 5000 };

static memcached_st *theirs(const struct mc_servers *s, uint32_t spread)
{
    memcached_st *m = memcached_create(NULL);

    assert_non_null(m);
    if (spread != MC_MODULA)
        memcached_behavior_set(
            m, spread == MC_KETAMA ? MEMCACHED_BEHAVIOR_KETAMA : MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
    for (uint32_t i = 0; i < s->count; i++)
        assert_int_equal(MEMCACHED_SUCCESS, memcached_server_add_with_weight(
                                                m, s->server[i].host, s->server[i].port,
                                                spread == MC_KETAMA_WEIGHTED ? s->server[i].weight : 1));
    return m;
}

/* Any bytes that a key may have, also those above 127; every length. */
static size_t random_key(char *key)
{
    size_t len = 1 + (size_t)(rand() % 205);

    for (size_t i = 0; i < len; i++) do
            key[i] = (char)(rand() & 0xff);
        while ((uint8_t)key[i] <= ' ' || key[i] == 0x7f);
    return len;
}

static void same_server(void **state)
{
    static struct mc_point point[MC_POINTS_MAX];
    struct mc_servers s;
    struct mc_ring ring;
    char key[256];

    (void)state;
    srand(1);
    for (int l = 0; l < LISTS; l++) {
        assert_int_equal(0, mc_servers_parse("test", lists[l], &s));
        for (uint32_t spread = MC_MODULA; spread <= MC_KETAMA_WEIGHTED; spread++) {
            memcached_st *m = theirs(&s, spread);

            mc_ring_make(&s, spread, point, &ring);
            for (int i = 0; i < KEYS; i++) {
                size_t len = random_key(key);

                assert_int_equal(memcached_generate_hash(m, key, len),
                                 mc_server_of(&ring, key, (uint32_t)len));
            }
            memcached_free(m);
        }
    }
}

static void wrong_lists(void **state)
{
    static const char *const wrong[] = {
        "",     ",",          "a b",   "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1/0", "127.0.0.1:x",
        "[::1", "127.0.0.1,", ":11211"};
    struct mc_servers s;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_not_equal(0, mc_servers_parse("test", wrong[i], &s));
    assert_int_equal(0, mc_servers_parse("test", "[::1]:7,127.0.0.1/9", &s));
    assert_string_equal("::1", s.server[0].host);
    assert_int_equal(7, s.server[0].port);
    assert_int_equal(9, s.server[1].weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_server), cmocka_unit_test(wrong_lists)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
