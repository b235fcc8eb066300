/* SPDX-License-Identifier: Apache-2.0 */
/* Models that must be refused: in words that help, on one line, whatever the file holds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/model.h>

#include "tests/model/pack.h"
#include "tests/rnd.h"

static void assert_one_line(const char *err, const char *file)
{
    assert_true(*err);
    assert_int_equal(strncmp(err, file, strlen(file)), 0);
    for (const char *p = err; *p; p++) assert_true(*p >= 0x20 && *p < 0x7f);
}

static int open_bytes(const void *bytes, size_t len, char *err)
{
    struct gw_model *m = (struct gw_model *)1;
    int rc = gw_model_open_bytes(bytes, len, "file.onnx", &m, err, GW_MODEL_ERR);

    if (rc) {
        assert_true(rc < 0);
        assert_null(m);
        assert_one_line(err, "file.onnx: ");
    } else {
        gw_model_close(m);
    }
    return rc;
}

static void test_refused(void **state)
{
    char name[128], words[GW_MODEL_ERR], err[GW_MODEL_ERR];
    struct pack p;
    int n = 0;

    (void)state;
    assert_int_equal(pack_open(&p, "refused.bin"), 0);
    for (; p.at < p.len; n++) {
        size_t len;
        pack_text(&p, name, sizeof(name));
        const void *onnx = pack_blob(&p, &len);
        pack_text(&p, words, sizeof(words));
        int rc = open_bytes(onnx, len, err);
        if (!rc || !strstr(err, words))
            fail_msg("%s: '%s' does not say '%s'", name, rc ? err : "(accepted)", words);
    }
    assert_true(n >= 20);
    pack_close(&p);
}

/* Every golden model that is small, cut at every length: never accepted, never a crash. */
static void test_truncated(void **state)
{
    char name[128], err[GW_MODEL_ERR];
    struct pack p;
    int cuts = 0;

    (void)state;
    assert_int_equal(pack_open(&p, "goldens.bin"), 0);
    while (p.at < p.len) {
        size_t len;
        pack_text(&p, name, sizeof(name));
        const char *onnx = pack_blob(&p, &len);
        pack_skip_tensors(&p);
        if (len > 1000) continue;
        for (size_t cut = 0; cut + 8 < len;
             cut++, cuts++) {             /* the last field is the operator set: enough is enough */
            char *copy = malloc(cut + 1); /* so that a read past the end is seen by a sanitizer */
            memcpy(copy, onnx, cut);
            if (!open_bytes(copy, cut, err))
                fail_msg("%s: accepted when cut to %zu of %zu bytes", name, cut, len);
            free(copy);
        }
    }
    assert_true(cuts > 5000);
    pack_close(&p);
}

/* Single bytes changed at random: accepted or refused, never a crash, always with words. */
static void damage(const char *file)
{
    char name[128], err[GW_MODEL_ERR];
    struct rnd r = {11};
    struct pack p;

    assert_int_equal(pack_open(&p, file), 0);
    while (p.at < p.len) {
        size_t len;
        pack_text(&p, name, sizeof(name));
        const char *onnx = pack_blob(&p, &len);
        pack_skip_tensors(&p);
        char *copy = malloc(len);
        for (int round = 0; round < 60; round++) {
            memcpy(copy, onnx, len);
            for (int k = 0; k < 1 + round % 3; k++)
                copy[rnd_below(&r, (uint32_t)len)] = (char)rnd_below(&r, 256);
            open_bytes(copy, len, err);
        }
        free(copy);
    }
    pack_close(&p);
}

static void test_damaged(void **state)
{
    (void)state;
    printf("seed 11\n");
    damage("goldens.bin");
    damage("operators.bin");
}

/* Writes field `id` with `len` bytes, which lie at `p`, in front of them; the new start. */
static unsigned char *wrap(unsigned char *p, unsigned id, size_t len)
{
    unsigned char head[12];
    int n = 0;

    head[n++] = (unsigned char)(id << 3 | 2);
    for (; len > 0x7f; len >>= 7) head[n++] = (unsigned char)(len | 0x80);
    head[n++] = (unsigned char)len;
    return memcpy(p - n, head, (size_t)n);
}

/* Graphs within attributes within nodes within graphs, 50,000 deep: a recursive reader would run out of
 * stack. */
static void test_nested(void **state)
{
    size_t size = 4u << 20;
    unsigned char *room = malloc(size), *end = room + size, *p = end;
    char err[GW_MODEL_ERR];

    (void)state;
    for (int i = 0; i < 50000; i++) {
        p = wrap(p, 6, (size_t)(end - p)); /* AttributeProto.g */
        p = wrap(p, 5, (size_t)(end - p)); /* NodeProto.attribute */
        p = wrap(p, 1, (size_t)(end - p)); /* GraphProto.node */
    }
    p = wrap(p, 7, (size_t)(end - p)); /* ModelProto.graph */
    assert_int_equal(open_bytes(p, (size_t)(end - p), err), -EBADMSG);
    assert_non_null(strstr(err, "nested too deeply"));
    free(room);
}

/* Empty messages cost two bytes in the file and a hundred in memory: bounded, and quickly over. */
static void test_many_empty(void **state)
{
    size_t n = 8u << 20;
    unsigned char *room = malloc(n + 16), *p = room + 16;
    char err[GW_MODEL_ERR];

    (void)state;
    for (size_t i = 0; i < n; i += 2) {
        p[i] = 1 << 3 | 2; /* GraphProto.node */
        p[i + 1] = 0;
    }
    p = wrap(p, 7, n);
    assert_int_equal(open_bytes(p, (size_t)(room + 16 + n - p), err), -EBADMSG);
    free(room);
}

static int open_file(const char *path, char *err)
{
    struct gw_model *m;
    int rc = gw_model_open(path, &m, err, GW_MODEL_ERR);

    assert_true(rc < 0);
    assert_null(m);
    assert_one_line(err, path);
    return rc;
}

static void test_files(void **state)
{
    char err[GW_MODEL_ERR], path[] = "/tmp/gpuwire-test-model-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(open_file("/nonexistent/model.onnx", err), -ENOENT);
    assert_int_equal(
        gw_model_open("/nonexistent/mod\u00e8le.onnx", &(struct gw_model *){0}, err, sizeof(err)), -ENOENT);
    assert_string_equal(err, "/nonexistent/mod\u00e8le.onnx: No such file or directory");
    assert_int_equal(open_file("/tmp", err), -EISDIR);
    assert_int_equal(open_file("/dev/zero", err), -EINVAL);
    assert_int_equal(open_file(path, err), -EBADMSG);
    assert_non_null(strstr(err, "not an ONNX model, or truncated"));
    assert_int_equal(write(fd, "\x89PNG\r\n\x1a\n is no model", 21), 21);
    assert_int_equal(open_file(path, err), -EBADMSG);
    assert_non_null(strstr(err, "not an ONNX model, or truncated"));
    assert_int_equal(ftruncate(fd, (1l << 30) + 1), 0);
    assert_int_equal(open_file(path, err), -EFBIG);
    close(fd);
    unlink(path);
    assert_int_equal(gw_model_open_bytes("x", 1, "f", &(struct gw_model *){0}, NULL, 0),
                     -EBADMSG); /* no room for words */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_truncated),  cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_nested),  cmocka_unit_test(test_many_empty), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
