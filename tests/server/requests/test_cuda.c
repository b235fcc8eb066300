/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA shared memory: another process's memory on a GPU is registered by its handle, read and written. In the
 * tests of CPU machines the driver is a fake one, whose GPU is host memory; gpu-check runs this with the
 * GPU's. Exit code 77: there is no driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/server/requests/infer.h"
#include "tests/server/requests/owner.h"

#define PART_OF(...) ((struct gw_region_part){__VA_ARGS__}) /* who, name, offset, bytes */

enum { BYTES = (3 << 20) + 64, PART = (2 << 20) + 5 }; /* more than is copied at once */

static struct gw_regions *regions;
static char me[32];

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 7 + i / 4096);
}

static uint8_t other(size_t i)
{
    return (uint8_t)(pattern(i) ^ 0xff);
}

/* ---- the owner of the memory: another process ---- */

static int own(int in, int out)
{
    static uint8_t bytes[BYTES];
    int (*alloc)(unsigned long long *, size_t), (*get)(void *, unsigned long long),
        (*put)(unsigned long long, const void *, size_t), (*take)(void *, unsigned long long, size_t);
    unsigned long long at = 0;
    uint8_t name[GW_CUDA_HANDLE], right = 1;
    char word;
    if (use_gpu() || driver("cuMemAlloc_v2", &alloc) || driver("cuIpcGetMemHandle", &get) ||
        driver("cuMemcpyHtoD_v2", &put) || driver("cuMemcpyDtoH_v2", &take))
        return 1;
    for (size_t i = 0; i < BYTES; i++) bytes[i] = pattern(i);
    if (alloc(&at, BYTES) || put(at, bytes, BYTES) || get(name, at)) return 1;
    if (write(out, name, sizeof(name)) != sizeof(name)) return 1;
    if (read(in, &word, 1) != 1) return 0; /* "look": what has been written there? */
    if (take(bytes, at, BYTES)) right = 0;
    for (size_t i = 0; i < PART; i++) right &= bytes[i + 3] == other(i);
    right &= bytes[2] == pattern(2) && bytes[PART + 3] == pattern(PART + 3);
    return write(out, &right, 1) != 1 || read(in, &word, 1) < 0; /* it stays until the test is over */
}

static int begin(void **state)
{
    (void)state;
    if (start_owner(own)) return -1;
    regions = gw_regions_create();
    snprintf(me, sizeof(me), "user %u", (unsigned)geteuid());
    return regions ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    gw_regions_destroy(regions);
    return end_owner();
}

/* ---- tests ---- */

static int add(const char *who, const char *name, uint64_t device, uint64_t bytes,
               struct gw_infer_error *error)
{
    struct gw_region_info info = {.bytes = bytes, .device = device};
    snprintf(info.name, sizeof(info.name), "%s", name);
    return gw_region_register_cuda(regions, who, &info, handle, error);
}

/* The driver is not loaded yet: as in a server on CPU threads. */
static void without_a_gpu_it_is_unsupported(void **state)
{
    struct gw_infer_error error;
    (void)state;
    assert_int_equal(add(me, "gpu", 0, BYTES, &error), -1);
    assert_int_equal(error.code, GW_INFER_UNSUPPORTED);
    assert_int_equal(use_gpu(), 0);
}

static void what_is_wrong_is_refused(void **state)
{
    struct gw_infer_error error;
    uint8_t kept[GW_CUDA_HANDLE];
    (void)state;
    assert_int_equal(add(me, "gpu", 77, BYTES, &error), -1);
    assert_int_equal(error.code, GW_INFER_UNSUPPORTED);
    assert_int_equal(add("user 54321", "gpu", 0, BYTES, &error), -1);
    assert_non_null(strstr(error.text, "host and user"));
    assert_int_equal(add("192.0.2.7", "gpu", 0, BYTES, &error), -1);
    assert_int_equal(add("this host", "gpu", 0, BYTES, &error), -1);
    assert_int_equal(add(me, "", 0, BYTES, &error), -1);
    assert_int_equal(add(me, "gpu", 0, 0, &error), -1);
    assert_int_equal(add(me, "gpu", 0, (uint64_t)1 << 40, &error), -1);
    assert_non_null(strstr(error.text, "goes beyond"));
    memcpy(kept, handle, sizeof(kept));
    memset(handle, 0x5a, sizeof(handle));
    assert_int_equal(add(me, "gpu", 0, BYTES, &error), -1);
    assert_int_equal(error.code, GW_INFER_INVALID);
    memcpy(handle, kept, sizeof(handle));
}

static void bytes_go_there_and_back(void **state)
{
    static uint8_t bytes[PART];
    struct gw_infer_error error;
    struct gw_region_info info;
    uint8_t right = 0;
    (void)state;
    if (add(me, "gpu", 0, BYTES, &error)) fail_msg("%s", error.text);
    assert_int_equal(add(me, "gpu", 0, BYTES, &error), -1); /* the name is taken */
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "gpu", 11, PART), bytes, &error), 0);
    for (size_t i = 0; i < PART; i++)
        if (bytes[i] != pattern(i + 11)) fail_msg("byte %zu", i);
    for (size_t i = 0; i < PART; i++) bytes[i] = other(i);
    assert_int_equal(gw_region_write(regions, &PART_OF(me, "gpu", 3, PART), bytes, &error), 0);
    assert_int_equal(write(to_owner, "l", 1), 1);
    assert_int_equal(read(from_owner, &right, 1), 1);
    assert_int_equal(right, 1);
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "gpu", BYTES - 4, 5), bytes, &error), -1);
    assert_int_equal(gw_region_write(regions, &PART_OF(me, "gpu", UINT64_MAX, 5), bytes, &error), -1);
    assert_int_equal(gw_region_read(regions, &PART_OF("user 54321", "gpu", 0, 5), bytes, &error), -1);
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "gpu", 0, BYTES), &error), 0);
    assert_int_equal(gw_region_status(regions, GW_REGION_SYSTEM, me, "", 0, &info), 0);
    assert_int_equal(gw_region_status(regions, GW_REGION_CUDA, me, "gpu", 0, &info), 1);
    assert_int_equal(info.bytes, BYTES);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, ""); /* of the other kind */
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "gpu", 0, 1), &error), 0);
    gw_region_unregister(regions, GW_REGION_CUDA, me, "gpu");
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "gpu", 0, 1), &error), -1);
    assert_int_equal(add(me, "again", 0, BYTES, &error), 0); /* which gw_regions_destroy unmaps */
}

static void doors_give_a_whole_handle(void **state)
{
    struct gw_infer *infer;
    struct gw_infer_error error;
    struct gw_region_info info = {.name = "gpu", .bytes = BYTES};
    (void)state;
    assert_int_equal(gw_infer_create(&(struct gw_infer_opts){0}, &infer), 0);
    assert_int_equal(gw_infer_register_cuda(infer, me, &info, handle, 63, &error), -1);
    assert_non_null(strstr(error.text, "63 bytes"));
    assert_int_equal(gw_infer_register_cuda(infer, "192.0.2.7", &info, handle, 64, &error), -1);
    assert_int_equal(gw_infer_unregister_cuda(infer, me, "", &error), 0);
    if (gw_infer_register_cuda(infer, me, &info, handle, 64, &error)) fail_msg("%s", error.text);
    assert_int_equal(gw_infer_unregister_cuda(infer, me, "gpu", &error), 0);
    assert_int_equal(gw_region_status(gw_infer_regions(infer), GW_REGION_CUDA, me, "", 0, &info), 0);
    gw_infer_destroy(infer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_gpu_it_is_unsupported),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(bytes_go_there_and_back),
        cmocka_unit_test(doors_give_a_whole_handle),
    };
    if (no_gpu()) return 77;
    return cmocka_run_group_tests(tests, begin, end);
}
