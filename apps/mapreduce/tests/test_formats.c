/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of input files: what a header says, and what it must not; which files a path stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "../formats.h"

/* ---- .npy ---------------------------------------------------------------------------------------------- */

/* A header of a version with this dictionary; returns its length. */
static size_t make(uint8_t *out, int version, const char *dictionary)
{
    size_t n = strlen(dictionary), head = version == 1 ? 10 : 12;

    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    out[8] = (uint8_t)n;
    out[9] = (uint8_t)(n >> 8);
    if (version > 1) out[10] = out[11] = 0;
    memcpy(out + head, dictionary, n);
    return head + n;
}

static int parse(const char *dictionary, uint64_t data, struct mr_npy *npy)
{
    uint8_t bytes[512];
    size_t n = make(bytes, 1, dictionary);

    return mr_npy_parse(bytes, n, n + data, "file", npy);
}

static void npy_good(void **state)
{
    uint8_t bytes[512];
    struct mr_npy npy;
    size_t n;

    (void)state;
    assert_int_equal(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }  \n", 60, &npy), 0);
    assert_true(npy.rows == 3 && npy.columns == 5 && npy.item == 4 && npy.type == 'f' && npy.start == 72);
    assert_int_equal(parse("{\"shape\":(7,),\"fortran_order\":False,\"descr\":\"<f8\"}", 56, &npy), 0);
    assert_true(npy.rows == 7 && npy.columns == 1 && npy.item == 8);
    assert_int_equal(parse("{'descr': '<f2', 'fortran_order': False, 'shape': (0, 9)}", 0, &npy), 0);
    assert_int_equal(parse("{'descr': '|u1', 'fortran_order': False, 'shape': (9, 1,)}", 9, &npy), 0);
    assert_true(npy.type == 'u' && npy.item == 1);
    for (int version = 2; version <= 3; version++) {
        n = make(bytes, version, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }\n");
        assert_int_equal(mr_npy_parse(bytes, n, n + 8, "file", &npy), 0);
        assert_true(npy.type == 'i' && npy.start == n);
    }
}

static void npy_bad(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "}",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5, 1)}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 5)}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), 'x': 1}",
        "{'descr': '<f444444444444444444', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3"};
    struct mr_npy npy;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (parse(bad[i], 60, &npy) != -EINVAL) fail_msg("accepted: %s", bad[i]);
}

/* Every beginning of a good file, in memory that ends there, and every one byte changed. */
static void npy_cut(void **state)
{
    static const char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }\n";
    uint8_t whole[512];
    size_t n = make(whole, 1, dictionary);
    struct mr_npy npy;

    (void)state;
    for (size_t k = 0; k < n; k++) {
        uint8_t *part = (uint8_t *)malloc(k + 1);

        memcpy(part, whole, k);
        assert_int_equal(mr_npy_parse(part, k, k, "file", &npy), -EINVAL);
        free(part);
    }
    for (size_t k = 0; k < n; k++)
        for (int v = 0; v < 256; v += 5) {
            uint8_t was = whole[k];

            whole[k] = (uint8_t)v;
            if (!mr_npy_parse(whole, n, n + 4, "file", &npy))
                assert_true(npy.start + npy.rows * npy.columns * npy.item == n + 4);
            whole[k] = was;
        }
}

static void npy_written(void **state)
{
    char header[MR_NPY_WRITTEN];
    struct mr_npy npy;
    size_t n = mr_npy_header(header, 12345678901, 77);

    (void)state;
    assert_int_equal(mr_npy_parse(header, n, n + 12345678901 * 77 * 4, "file", &npy), 0);
    assert_true(npy.rows == 12345678901 && npy.columns == 77 && npy.item == 4);
    n = mr_npy_header(header, 5, 0);
    assert_int_equal(mr_npy_parse(header, n, n + 20, "file", &npy), 0);
    assert_true(npy.rows == 5 && npy.columns == 1 && npy.start % 64 == 0);
}

static void halves(void **state)
{
    (void)state;
    assert_true(mr_half(0x3c00) == 1 && mr_half(0xc000) == -2 && mr_half(0x7bff) == 65504);
    assert_true(mr_half(1) == 0x1p-24f && mr_half(0x8200) == -0x1p-15f && mr_half(0x0400) == 0x1p-14f);
    assert_true(mr_half(0x7c00) > 1e38f && mr_half(0x7e00) != mr_half(0x7e00));
}

/* ---- files --------------------------------------------------------------------------------------------- */

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int enter(void **state)
{
    static char folder[] = "/tmp/gpuwire-formats.XXXXXX";

    *state = mkdtemp(folder);
    return *state ? chdir(folder) : -1;
}

static int leave(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", (const char *)*state);
    if (chdir("/")) return -1;
    return system(command);
}

static void expect(char **paths, int n, const char *wanted)
{
    struct mr_files files;
    char seen[512] = "";

    assert_int_equal(mr_files_find(paths, n, &files), 0);
    for (size_t i = 0; i < files.n; i++)
        snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s:%d ", files.file[i].path,
                 (int)files.file[i].size);
    assert_string_equal(seen, wanted);
    mr_files_free(&files);
}

static void folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("a", 0755) | mkdir("a/b", 0755) | mkdir("empty", 0755) | mkfifo("a/pipe", 0644),
                     0);
    assert_int_equal(symlink("..", "a/b/round") | symlink("one", "a/link") | symlink("nothing", "a/broken"),
                     0);
    put("a/one", "1");
    put("a/b/two", "22");
    put("a/none", "");
    put("zero", "333");
    expect((char *[]){"zero", "a"}, 2, "a/b/two:2 a/none:0 a/one:1 zero:3 ");
    expect((char *[]){"a/"}, 1, "a/b/two:2 a/none:0 a/one:1 ");
    expect((char *[]){"empty"}, 1, "");
    expect((char *[]){"a/link"}, 1, "a/link:1 "); /* a link that was named is followed */
    expect(NULL, 0, "");
}

static int find(const char *path)
{
    char *paths[] = {(char *)path};
    struct mr_files files;

    return mr_files_find(paths, 1, &files);
}

static void refused(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(find("missing"), -ENOENT);
    assert_int_equal(find(""), -EINVAL);
    assert_int_equal(find("a/pipe"), -EINVAL);
    assert_int_equal(mkdir("closed", 0700), 0);
    put("secret", "x");
    assert_int_equal(chmod("secret", 0600) | chmod(".", 0755), 0);
    if ((child = fork()) == 0) { /* as another user, where this one may become one */
        if (geteuid() == 0 && setuid(65534)) _exit(3);
        if (geteuid() != 65534 && (chmod("secret", 0) || chmod("closed", 0))) _exit(3);
        _exit(find("secret") != -EACCES || find("closed") != -EACCES);
    }
    assert_true(waitpid(child, &status, 0) == child && status == 0);
}

static void deep(void **state)
{
    char path[512] = "deep";

    (void)state;
    for (int i = 0; i < MR_MAX_DEPTH + 2; i++) {
        assert_int_equal(mkdir(path, 0755), 0);
        strcat(path, "/d");
    }
    assert_int_equal(find("deep"), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(npy_good), cmocka_unit_test(npy_bad),
                                       cmocka_unit_test(npy_cut),  cmocka_unit_test(npy_written),
                                       cmocka_unit_test(halves),   cmocka_unit_test(folders),
                                       cmocka_unit_test(refused),  cmocka_unit_test(deep)};

    return cmocka_run_group_tests(tests, enter, leave);
}
