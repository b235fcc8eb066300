/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/model/import/npy.h"

static char path[] = "/tmp/gpuwire-test-npy-XXXXXX";

static void put(const char *header, size_t floats)
{
    FILE *f = fopen(path, "wb");
    size_t n = strlen(header);
    float x = 1.5f;

    assert_non_null(f);
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    fputc((int)(n & 0xff), f);
    fputc((int)(n >> 8), f);
    fwrite(header, 1, n, f);
    for (size_t i = 0; i < floats; i++) fwrite(&x, 4, 1, f);
    fclose(f);
}

static void refused(int code, const char *words)
{
    char err[GW_MODEL_ERR] = "";
    struct gw_npy npy;
    int rc = gw_npy_read(path, &npy, err, sizeof(err));

    if (rc != code || !strstr(err, words)) fail_msg("%d '%s', expected %d '%s'", rc, err, code, words);
    assert_null(npy.data);
}

static void test_round_trip(void **state)
{
    const uint64_t dims[][4] = {{2, 3, 4, 5}, {120}, {0}, {1, 120}};
    const uint32_t rank[] = {4, 1, 0, 2};
    const uint32_t type[] = {GW_DTYPE_F32, GW_DTYPE_I64, GW_DTYPE_BF16, GW_DTYPE_BOOL};
    double data[120];
    struct gw_npy npy;

    (void)state;
    for (int i = 0; i < 120; i++) data[i] = i * 0.25 - 7;
    for (int k = 0; k < 4; k++) {
        size_t count = rank[k] ? 120 : 1;
        struct gw_npy out = {.dtype = type[k], .rank = rank[k], .count = count, .data = data};
        memcpy(out.dims, dims[k], sizeof(dims[k]));
        assert_int_equal(gw_npy_write(path, &out, NULL, 0), 0);
        assert_int_equal(gw_npy_read(path, &npy, NULL, 0), 0);
        assert_int_equal(npy.dtype, type[k]);
        assert_int_equal(npy.rank, rank[k]);
        assert_int_equal(npy.count, count);
        assert_memory_equal(npy.dims, dims[k], rank[k] * 8);
        assert_memory_equal(npy.data, data, count * gw_dtype_bytes(type[k]));
        assert_int_equal((uintptr_t)npy.data % 64, 0);
        gw_npy_free(&npy);
    }
}

/* As numpy itself writes it: np.save of an array of shape (2, 1). */
static void test_numpy_file(void **state)
{
    struct gw_npy npy;

    (void)state;
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }                                         "
        "          "
        "        \n",
        2);
    assert_int_equal(gw_npy_read(path, &npy, NULL, 0), 0);
    assert_int_equal(npy.rank, 2);
    assert_int_equal(npy.count, 2);
    assert_int_equal(npy.dtype, GW_DTYPE_F32);
    assert_true(((float *)npy.data)[1] == 1.5f);
    gw_npy_free(&npy);
}

static void test_refused(void **state)
{
    char err[GW_MODEL_ERR];
    struct gw_npy npy;
    FILE *f;

    (void)state;
    put("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", 4);
    refused(-ENOTSUP, "not little-endian numbers");
    put("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }\n", 4);
    refused(-ENOTSUP, "not little-endian numbers");
    put("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", 3);
    refused(-EBADMSG, "truncated");
    put("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }\n", 2);
    refused(-ENOTSUP, "Fortran order");
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 2);
    refused(-EBADMSG, "truncated");
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n", 2);
    refused(-EFBIG, "shape");
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", 2);
    refused(-EBADMSG, "shape");
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n", 2);
    refused(-ENOTSUP, "shape");
    put("{'descr': '<f4', 'fortran_order': False, 'shape': (2", 2);
    refused(-EBADMSG, "");
    put("{}\n", 2);
    refused(-EBADMSG, "header makes no sense");
    f = fopen(path, "wb");
    fputs("\x93NUMPY\x01", f);
    fclose(f);
    refused(-EBADMSG, "not a .npy file");
    f = fopen(path, "wb");
    fputs("\x93NUMPY\x01 \xff\xff", f);
    fclose(f);
    refused(-EBADMSG, "not a .npy file");
    assert_int_equal(gw_npy_read("/nonexistent.npy", &npy, err, sizeof(err)), -ENOENT);
    npy = (struct gw_npy){.dtype = GW_DTYPE_F32, .rank = 1, .dims = {1}, .count = 1, .data = (float[]){1}};
    assert_int_equal(gw_npy_write("/nonexistent/x.npy", &npy, err, sizeof(err)), -ENOENT);
    assert_int_equal(gw_npy_write("/dev/full", &npy, err, sizeof(err)), -ENOSPC);
    assert_string_equal(err, "/dev/full: No space left on device");
}

static void test_fits(void **state)
{
    struct gw_tensor_info info = {
        .name = "input", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {3, 4}, .bytes = 48};
    struct gw_npy npy = {.dtype = GW_DTYPE_F32, .rank = 2, .dims = {3, 4}, .count = 12};
    char err[GW_MODEL_ERR];

    (void)state;
    assert_int_equal(gw_npy_fits(&npy, &info, err, sizeof(err)), 0);
    npy.dims[1] = 5;
    assert_int_equal(gw_npy_fits(&npy, &info, err, sizeof(err)), -EINVAL);
    assert_string_equal(err, "input: the model wants 3x4, the array is 3x5");
    npy.dtype = GW_DTYPE_I32;
    assert_int_equal(gw_npy_fits(&npy, &info, err, sizeof(err)), -EINVAL);
    assert_string_equal(err, "input: the model wants elements of type FP32, the array has INT32");
}

static void test_compare(void **state)
{
    const float want[] = {1, -2, 0, 4, INFINITY}, got[] = {1, -2, 1e-5f, 4.1f, INFINITY},
                nan[] = {1, -2, 0, NAN, INFINITY};
    struct gw_tensor_diff d;

    (void)state;
    gw_tensor_compare(want, want, 5, 0, &d);
    assert_int_equal(d.wrong, 0);
    assert_true(d.worst == 0);
    gw_tensor_compare(got, want, 5, 1e-4, &d);
    assert_int_equal(d.wrong, 1);
    assert_int_equal(d.first, 3);
    assert_true(fabs(d.worst - 0.025) < 1e-6);
    gw_tensor_compare(nan, want, 5, 1e-4, &d);
    assert_int_equal(d.wrong, 1);
    assert_int_equal(d.first, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_numpy_file), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_fits),       cmocka_unit_test(test_compare),
    };
    int fd = mkstemp(path);

    if (fd < 0) return 1;
    close(fd);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
