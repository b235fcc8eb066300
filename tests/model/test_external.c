/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in other files: found below the model's folder, and nowhere else. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/model.h>

#include "tests/model/pack.h"

#define WEIGHTS 64 /* floats in sub/weights.bin: 0, 1, 2, … */

static char folder[] = "/tmp/gpuwire-test-external-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t len)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

static void in_folder(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static int make_folder(void **state)
{
    char a[256], b[256];
    float w[WEIGHTS];

    (void)state;
    for (int i = 0; i < WEIGHTS; i++) w[i] = (float)i;
    assert_non_null(mkdtemp(folder));
    in_folder("sub", a, sizeof(a));
    assert_int_equal(mkdir(a, 0700), 0);
    in_folder("linked", b, sizeof(b));
    assert_int_equal(symlink(a, b), 0);
    write_file("sub/weights.bin", w, sizeof(w));
    write_file("short.bin", w + 4, 16);
    in_folder("short.bin", a, sizeof(a));
    in_folder("link.bin", b, sizeof(b));
    assert_int_equal(symlink(a, b), 0);
    in_folder("pipe", a, sizeof(a));
    assert_int_equal(mkfifo(a, 0600), 0);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"sub/weights.bin", "sub",  "linked",    "link.bin",
                                        "short.bin",       "pipe", "model.onnx"};
    char path[256];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        in_folder(names[i], path, sizeof(path));
        remove(path);
    }
    return rmdir(folder);
}

/* y = x + (4, 5, 6, 7) */
static void assert_runs(const struct gw_model *m)
{
    _Alignas(16) float x[4] = {1, 2, 3, 4}, y[4] = {0};
    char err[GW_MODEL_ERR];
    struct gw_plan *p;

    assert_int_equal(gw_plan_create(m, NULL, &p, err, sizeof(err)), 0);
    assert_int_equal(gw_plan_run(p, (const void *[]){x}, (void *[]){y}), 0);
    for (int i = 0; i < 4; i++) assert_true(y[i] == x[i] + 4 + (float)i);
    gw_plan_free(p);
}

static void test_external(void **state)
{
    char name[128], words[GW_MODEL_ERR], err[GW_MODEL_ERR], path[256];
    struct pack p;
    int runs = 0, refused = 0;

    (void)state;
    in_folder("model.onnx", path, sizeof(path));
    assert_int_equal(pack_open(&p, "external.bin"), 0);
    while (p.at < p.len) {
        struct gw_model *m;
        size_t len;
        pack_text(&p, name, sizeof(name));
        const void *onnx = pack_blob(&p, &len);
        pack_text(&p, words, sizeof(words));
        write_file("model.onnx", onnx, len);
        int rc = gw_model_open(path, &m, err, sizeof(err));
        if (*words ? !rc || !strstr(err, words) : rc)
            fail_msg("%s: '%s' does not say '%s'", name, rc ? err : "(accepted)", words);
        if (!rc) assert_runs(m);
        if (!rc) gw_model_close(m);
        *(rc ? &refused : &runs) += 1;
        /* From memory there is no folder. */
        assert_int_equal(gw_model_open_bytes(onnx, len, path, &m, err, sizeof(err)), -ENOTSUP);
    }
    assert_true(runs == 2 && refused > 10);
    pack_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_external, make_folder, remove_folder)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
