/* SPDX-License-Identifier: Apache-2.0 */
/* The file of choices that GPU plans keep: what is kept comes back, and nothing else is believed. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/model/gpu/cache.h"

#define MACHINE "a machine; version 1"

static char folder[64], file[512];

/* The only file of the folder; how many there are. */
static int find_file(void)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;

    if (!d) return 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof(file), "%s/%s", folder, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gpuwire-cache-XXXXXX");
    return !mkdtemp(folder) || setenv("GPUWIRE_PLAN_CACHE", folder, 1);
}

static int teardown(void **state)
{
    (void)state;
    while (find_file()) unlink(file);
    return rmdir(folder);
}

static void keep(const char *what, const char *choice)
{
    struct gwm_cache *c = gwm_cache_open(MACHINE);

    assert_non_null(c);
    gwm_cache_put(c, what, choice);
    gwm_cache_close(c);
}

/* A new reader's choice under "conv"; NULL, or a text that is good until the next call. */
static const char *found(const char *machine)
{
    static char text[64];
    struct gwm_cache *c = gwm_cache_open(machine);
    const char *choice;

    assert_non_null(c);
    choice = gwm_cache_get(c, "conv");
    if (choice) snprintf(text, sizeof(text), "%s", choice);
    gwm_cache_close(c);
    return choice ? text : NULL;
}

static void write_file(const char *text, size_t len)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void test_kept(void **state)
{
    (void)state;
    assert_null(found(MACHINE));
    keep("conv", "cudnn 1");
    keep("gemm", "blocks 0");
    assert_string_equal(found(MACHINE), "cudnn 1");
    keep("conv", "tiles 0"); /* the newer choice wins */
    assert_string_equal(found(MACHINE), "tiles 0");
    assert_int_equal(find_file(), 1); /* and nothing unfinished lies there */
    assert_null(found("another machine"));
}

/* Two plans at once: neither loses what the other found. */
static void test_two_writers(void **state)
{
    struct gwm_cache *a = gwm_cache_open(MACHINE), *b = gwm_cache_open(MACHINE);

    (void)state;
    gwm_cache_put(a, "conv", "cudnn 1");
    gwm_cache_put(b, "gemm", "gemm 3");
    gwm_cache_close(a);
    gwm_cache_close(b);
    assert_string_equal(found(MACHINE), "cudnn 1");
}

static void test_damaged(void **state)
{
    static const char *const bad[] = {"",
                                      "\n\n\n",
                                      MACHINE "\nconv tiles 0\n",
                                      "another\nconv\ttiles 0\n",
                                      MACHINE,
                                      "\t\t\t\n" MACHINE "\nconv\ttiles 0\n"};
    char *large = calloc(1, 2 << 20);

    (void)state;
    keep("conv", "tiles 0");
    assert_int_equal(find_file(), 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_file(bad[i], strlen(bad[i]));
        assert_null(found(MACHINE));
    }
    write_file(MACHINE "\0\nconv\ttiles 0\n", sizeof(MACHINE) + 15);
    assert_null(found(MACHINE));
    snprintf(large, 2 << 20, "%s\nconv\ttiles 0\n", MACHINE);
    write_file(large, 2 << 20); /* longer than any that we write */
    assert_null(found(MACHINE));
    free(large);
    keep("conv", "tiles 0"); /* and is replaced */
    assert_string_equal(found(MACHINE), "tiles 0");
}

static void test_foreign(void **state)
{
    char other[600];

    (void)state;
    keep("conv", "tiles 0");
    assert_int_equal(find_file(), 1);
    assert_int_equal(chmod(file, 0666), 0); /* anybody may have written it */
    assert_null(found(MACHINE));
    assert_int_equal(chmod(file, 0600), 0);
    assert_string_equal(found(MACHINE), "tiles 0");
    snprintf(other, sizeof(other), "%s.moved", file);
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(symlink(other, file), 0); /* a link may lead anywhere */
    assert_null(found(MACHINE));
    unlink(other);
}

static void test_off(void **state)
{
    (void)state;
    setenv("GPUWIRE_PLAN_CACHE", "off", 1);
    assert_null(gwm_cache_open(MACHINE));
    assert_null(gwm_cache_get(NULL, "conv"));
    gwm_cache_put(NULL, "conv", "tiles 0");
    gwm_cache_close(NULL);
    assert_int_equal(find_file(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_writers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_off, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
