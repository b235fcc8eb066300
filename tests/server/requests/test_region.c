/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that clients register: who may, and what happens when its owner changes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/server/requests/region.h"

#define PART_OF(...) ((struct gw_region_part){__VA_ARGS__}) /* who, name, offset, bytes */

enum { BYTES = 8192 };

static char key[64], me[32];
static int object;
static struct gw_regions *regions;

static int begin(void **state)
{
    (void)state;
    snprintf(key, sizeof(key), "/gw-test-region-%d", (int)getpid());
    snprintf(me, sizeof(me), "user %u", (unsigned)getuid());
    object = shm_open(key, O_CREAT | O_EXCL | O_RDWR, 0600);
    assert_true(object >= 0);
    assert_int_equal(ftruncate(object, BYTES), 0);
    regions = gw_regions_create();
    assert_non_null(regions);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gw_regions_destroy(regions);
    close(object);
    shm_unlink(key);
    return 0;
}

static int add(const char *who, const char *name, const char *path, uint64_t offset, uint64_t bytes)
{
    struct gw_infer_error error = {.text = ""};
    struct gw_region_info info = {.offset = offset, .bytes = bytes};
    snprintf(info.name, sizeof(info.name), "%s", name);
    snprintf(info.key, sizeof(info.key), "%s", path);
    int wrong = gw_region_register(regions, who, &info, &error);
    assert_true(!wrong || error.text[0]);
    return wrong;
}

static void only_sound_ranges_are_taken(void **state)
{
    (void)state;
    assert_int_equal(add(me, "a", key, 0, BYTES + 1), -1);
    assert_int_equal(add(me, "a", key, BYTES, 1), -1);
    assert_int_equal(add(me, "a", key, UINT64_MAX, 2), -1);
    assert_int_equal(add(me, "a", key, 2, UINT64_MAX), -1);
    assert_int_equal(add(me, "a", key, 0, 0), -1);
    assert_int_equal(add(me, "", key, 0, 1), -1);
    assert_int_equal(add(me, "a", key + 1, 0, 1), -1);
    assert_int_equal(add(me, "a", "/", 0, 1), -1);
    assert_int_equal(add(me, "a", "/../etc/passwd", 0, 1), -1);
    assert_int_equal(add(me, "a", "/gw-test-none", 0, 1), -1);
    assert_int_equal(add(me, "a", key, 4096, 4096), 0);
    assert_int_equal(add(me, "a", key, 0, 1), -1); /* the name is taken */
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "a");
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "a");
}

static void bytes_go_where_they_belong(void **state)
{
    (void)state;
    struct gw_infer_error error;
    char text[8] = "";
    assert_int_equal(add(me, "a", key, 4096, 4096), 0);
    assert_int_equal(gw_region_write(regions, &PART_OF(me, "a", 100, 5), "hello", &error), 0);
    assert_int_equal(pread(object, text, 5, 4196), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(pwrite(object, "world", 5, 4196), 5);
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "a", 100, 5), text, &error), 0);
    assert_string_equal(text, "world");
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "a", 4092, 5), text, &error), -1);
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "a", UINT64_MAX, 5), text, &error), -1);
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "a", 4096, 0), &error), 0);
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "b", 0, 1), &error), -1);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "");
    assert_int_equal(gw_region_check(regions, &PART_OF(me, "a", 0, 1), &error), -1);
}

static void other_users_reach_nothing(void **state)
{
    (void)state;
    struct gw_infer_error error;
    struct gw_region_info info;
    char text[8];
    assert_int_equal(add("user 54321", "b", key, 0, BYTES), -1); /* the object's mode is 0600 */
    assert_int_equal(add("192.0.2.7", "b", key, 0, BYTES), -1);
    assert_int_equal(add("this host", "b", key, 0, BYTES), -1);
    assert_int_equal(add(me, "a", key, 0, BYTES), 0);
    assert_int_equal(gw_region_read(regions, &PART_OF("user 54321", "a", 0, 5), text, &error), -1);
    assert_int_equal(gw_region_write(regions, &PART_OF("user 54321", "a", 0, 5), "12345", &error), -1);
    assert_int_equal(gw_region_status(regions, GW_REGION_SYSTEM, "user 54321", "", 0, &info), 0);
    gw_region_unregister(regions, GW_REGION_SYSTEM, "user 54321", "");
    assert_int_equal(gw_region_status(regions, GW_REGION_SYSTEM, me, "a", 0, &info), 1);
    assert_string_equal(info.key, key);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "");
    /* One that everybody may read and write. */
    assert_int_equal(fchmod(object, 0666), 0);
    assert_int_equal(add("user 54321", "b", key, 0, BYTES), 0);
    assert_int_equal(add("192.0.2.7", "b", key, 0, BYTES), -1);
    assert_int_equal(fchmod(object, 0600), 0);
    gw_region_unregister(regions, GW_REGION_SYSTEM, "user 54321", "b");
}

static void an_object_that_shrinks_harms_nobody(void **state)
{
    (void)state;
    struct gw_infer_error error;
    struct stat st;
    char text[8];
    assert_int_equal(add(me, "a", key, 0, BYTES), 0);
    assert_int_equal(ftruncate(object, 100), 0);
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "a", 98, 5), text, &error), -1);
    assert_int_equal(gw_region_write(regions, &PART_OF(me, "a", 98, 5), "hello", &error), -1);
    assert_int_equal(fstat(object, &st), 0);
    assert_int_equal(st.st_size, 100);
    assert_int_equal(ftruncate(object, BYTES), 0);
    assert_int_equal(gw_region_read(regions, &PART_OF(me, "a", 98, 5), text, &error), 0);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "a");
}

static void one_client_has_so_many(void **state)
{
    (void)state;
    char name[16];
    int i = 0;
    for (; i < 200; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        if (add(me, name, key, 0, 1)) break;
    }
    assert_int_equal(i, 64);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "");
    assert_int_equal(add(me, "a", key, 0, 1), 0);
    gw_region_unregister(regions, GW_REGION_SYSTEM, me, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_sound_ranges_are_taken), cmocka_unit_test(bytes_go_where_they_belong),
        cmocka_unit_test(other_users_reach_nothing),   cmocka_unit_test(an_object_that_shrinks_harms_nobody),
        cmocka_unit_test(one_client_has_so_many),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
