/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemCreate, shared by its files and mapped again, on a CUDA driver made of host memory. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "softnic/cuda/cuda.h"
#include "tests/wire/fake_checks.h"
#include "tests/wire/fake_mapped.h"
#include "tests/wire/fake_memory.h"

enum { PARTS = SN_CUDA_FILES + 1, SIZE = 3 * FAKE_GRAIN, AT = FAKE_GRAIN + 100 };

static struct gw_cuda_driver api; /* its devices stay */

/* A place with memory mapped into it, part after part. */
static struct place {
    gw_cu_ptr at;
    size_t size, part[PARTS];
    unsigned n;
} place;

static int device_count(int *n)
{
    *n = FAKE_GPUS;
    return 0;
}

static int device_uuid(void *uuid, gw_cu_device dev)
{
    fake_uuid(dev, uuid);
    return 0;
}

static int ctx_state(gw_cu_device dev, unsigned *flags, int *active)
{
    *flags = 0;
    *active = fake_cuda_retained(dev);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    fake_cuda_reset();
    assert_int_equal(fake_mem_left(), 0);
    api = *fake_cuda_api();
    api.device_count = device_count;
    api.device_uuid = device_uuid;
    api.primary_ctx_state = ctx_state;
    api.mem_retain = fake_mem_retain;
    api.mem_release = fake_mem_release;
    api.mem_properties = fake_mem_properties;
    api.mem_export = fake_mem_export;
    api.mem_import = fake_mem_import;
    api.mem_reserve = fake_mem_reserve;
    api.mem_unreserve = fake_mem_unreserve;
    api.mem_map = fake_mem_map;
    api.mem_unmap = fake_mem_unmap;
    api.mem_access = fake_mem_access;
    return 0;
}

static void add_part(unsigned grains, int gpu, int types)
{
    struct gw_cu_memory_prop prop = {1, types, {GW_CU_LOCATION_DEVICE, gpu}, NULL, {0}};
    size_t size = (size_t)grains * FAKE_GRAIN, at = 0;
    gw_cu_memory memory;

    for (unsigned i = 0; i < place.n; i++) at += place.part[i];
    assert_int_equal(fake_mem_create(&memory, size, &prop, 0), 0);
    assert_int_equal(fake_mem_map(place.at + at, size, 0, memory, 0), 0);
    assert_int_equal(fake_mem_release(memory), 0);
    place.part[place.n++] = size;
}

static void reserve(size_t size)
{
    place = (struct place){.size = size};
    assert_int_equal(fake_mem_reserve(&place.at, size, 0, 0, 0), 0);
}

static void let_in(int gpu)
{
    struct gw_cu_access access = {{GW_CU_LOCATION_DEVICE, gpu}, GW_CU_ACCESS_READ_WRITE};
    size_t size = 0;

    for (unsigned i = 0; i < place.n; i++) size += place.part[i];
    assert_int_equal(fake_mem_access(place.at, size, &access, 1), 0);
}

/* The program frees its memory. Then no process has anything of it any more. */
static void give_up(void)
{
    size_t at = 0;

    for (unsigned i = 0; i < place.n; i++) {
        assert_int_equal(fake_mem_unmap(place.at + at, place.part[i]), 0);
        at += place.part[i];
    }
    assert_int_equal(fake_mem_unreserve(place.at, place.size), 0);
    assert_int_equal(fake_mem_left(), 0);
    assert_driver_well_used();
}

/* One part of one grain and one of two. */
static void two_parts(int gpu)
{
    reserve(SIZE);
    add_part(1, gpu, GW_CU_HANDLE_FILE);
    add_part(2, gpu, GW_CU_HANDLE_FILE);
    let_in(gpu);
}

static void make_region(uint64_t at, uint64_t len, struct sn_cuda_region *region)
{
    assert_int_equal(sn_cuda_region_init(&api, at, len, region, NULL), 1);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void both_places_are_the_same_memory(void **state)
{
    struct sn_cuda_region mine, theirs;
    struct sn_cuda_files files;
    char why[SN_CUDA_WHY] = "";
    uint8_t bytes[300], got[300];

    (void)state;
    two_parts(0);
    make_region(place.at + 4096, SIZE - 4096, &mine);
    assert_true(sn_cuda_share(&mine));
    assert_int_equal(mine.share.way, SN_GPU_BY_FILES);
    assert_int_equal(mine.share.base, place.at);
    assert_int_equal(mine.share.size, SIZE);
    assert_int_equal(mine.share.files, 2);
    assert_true(sn_cuda_files(&mine.share, &files));
    assert_int_equal(sn_cuda_open(&api, &mine.share, &files, &theirs, why), 0);
    sn_cuda_files_close(&files);
    assert_int_equal(theirs.len, SIZE);
    assert_int_not_equal(theirs.addr, place.at);

    memset(bytes, 77, sizeof(bytes));
    /* Across the border of the two. */
    assert_int_equal(sn_cuda_write(&theirs, theirs.addr + FAKE_GRAIN - 100, bytes, sizeof(bytes)), 0);
    assert_int_equal(sn_cuda_flush(&theirs), 0);
    assert_memory_equal((void *)(uintptr_t)(place.at + FAKE_GRAIN - 100), bytes, sizeof(bytes));
    memset((void *)(uintptr_t)(place.at + AT), 78, sizeof(got));
    assert_int_equal(sn_cuda_read(&theirs, theirs.addr + AT, got, sizeof(got), sizeof(got), 0), 0);
    assert_memory_equal((void *)(uintptr_t)(place.at + AT), got, sizeof(got));
    assert_int_equal(sn_cuda_move(&mine, place.at + 2 * FAKE_GRAIN, &theirs, theirs.addr + AT, 300), 0);
    assert_int_equal(sn_cuda_flush(&mine), 0);
    assert_memory_equal((void *)(uintptr_t)(place.at + 2 * FAKE_GRAIN), got, sizeof(got));

    assert_false(sn_cuda_may_close(&theirs));
    sn_cuda_region_fini(&mine);
    assert_true(sn_cuda_may_close(&theirs));
    sn_cuda_close(&theirs);
    give_up();
}

static void regions_of_the_same_memory_share_its_files(void **state)
{
    struct sn_cuda_region all, half, first;
    struct sn_cuda_files files;

    (void)state;
    two_parts(0);
    make_region(place.at, SIZE, &all);
    make_region(place.at + 100, FAKE_GRAIN, &half); /* lies in both */
    make_region(place.at + 100, 100, &first);       /* in one */
    assert_true(sn_cuda_share(&all) && sn_cuda_share(&half) && sn_cuda_share(&first));
    assert_memory_equal(&all.share, &half.share, sizeof(all.share));
    assert_int_equal(first.share.files, 1);
    assert_int_equal(first.share.size, FAKE_GRAIN);
    assert_int_not_equal(memcmp(first.share.handle, half.share.handle, sizeof(first.share.handle)), 0);
    sn_cuda_region_fini(&all);
    assert_true(sn_cuda_files(&half.share, &files));
    sn_cuda_files_close(&files);
    struct sn_gpu_share gone = half.share;
    sn_cuda_region_fini(&half);
    assert_false(sn_cuda_files(&gone, &files));
    sn_cuda_region_fini(&first);
    give_up();
}

/* The program puts another allocation at the same address: that is other memory, with other files. */
static void other_memory_at_that_place_is_another(void **state)
{
    struct sn_cuda_region was, is;
    struct sn_cuda_files files;
    gw_cu_ptr at;

    (void)state;
    two_parts(0);
    at = place.at;
    make_region(at, SIZE, &was);
    assert_true(sn_cuda_share(&was));
    assert_int_equal(fake_mem_unmap(at, FAKE_GRAIN), 0);
    assert_int_equal(fake_mem_unmap(at + FAKE_GRAIN, 2 * FAKE_GRAIN), 0);
    place.n = 0;
    add_part(1, 0, GW_CU_HANDLE_FILE);
    add_part(2, 0, GW_CU_HANDLE_FILE);
    let_in(0);
    make_region(at, SIZE, &is);
    assert_true(sn_cuda_share(&is));
    assert_int_not_equal(memcmp(&was.share, &is.share, sizeof(was.share)), 0);
    assert_true(sn_cuda_files(&is.share, &files));
    sn_cuda_files_close(&files);
    sn_cuda_region_fini(&was);
    sn_cuda_region_fini(&is);
    give_up();
}

static void assert_not_shared(size_t len)
{
    struct sn_cuda_region r;
    struct sn_cuda_view view = {.gpu = -1};
    uint64_t before = 0;

    make_region(place.at, len, &r);
    for (unsigned i = 0; sn_cuda_introspect(i, &view); i++) before += view.stats.unshared;
    assert_false(sn_cuda_share(&r));
    for (unsigned i = 0; sn_cuda_introspect(i, &view); i++) before -= view.stats.unshared;
    assert_int_equal(before, UINT64_MAX);
    assert_null(r.exported);
    sn_cuda_region_fini(&r);
}

static void what_gives_no_files_is_not_shared(void **state)
{
    struct sn_cuda_region most;

    (void)state;
    reserve(SIZE);
    add_part(1, 0, GW_CU_HANDLE_FILE);
    add_part(2, 0, 0);
    let_in(0);
    assert_not_shared(SIZE);
    give_up();
    reserve(PARTS * FAKE_GRAIN);
    for (int i = 0; i < PARTS; i++) add_part(1, 0, GW_CU_HANDLE_FILE);
    let_in(0);
    assert_not_shared(PARTS * FAKE_GRAIN);
    make_region(place.at, (PARTS - 1) * FAKE_GRAIN, &most);
    assert_true(sn_cuda_share(&most));
    sn_cuda_region_fini(&most);
    api.mem_export = NULL; /* an older driver */
    assert_not_shared(FAKE_GRAIN);
    give_up();
}

static void files_are_not_taken_at_their_word(void **state)
{
    struct sn_cuda_region mine, theirs;
    struct sn_cuda_files files, wrong;
    char why[SN_CUDA_WHY] = "";
    unsigned left;

    (void)state;
    two_parts(0);
    make_region(place.at, SIZE, &mine);
    assert_true(sn_cuda_share(&mine));
    assert_true(sn_cuda_files(&mine.share, &files));
    left = fake_mem_left();
#define REFUSED(change)                                                                                      \
    do {                                                                                                     \
        wrong = files;                                                                                       \
        change;                                                                                              \
        assert_int_equal(sn_cuda_open(&api, &mine.share, &wrong, &theirs, why), -EIO);                       \
        assert_int_equal(fake_mem_left(), left);                                                             \
    } while (0)
    REFUSED(wrong.n = 1);
    REFUSED(wrong.n = 0);
    REFUSED(wrong.size[0] += FAKE_GRAIN);                              /* more than is shared */
    REFUSED(wrong.size[0] += FAKE_GRAIN; wrong.size[1] -= FAKE_GRAIN); /* more than it has */
    REFUSED(wrong.size[0] = 0 - (uint64_t)FAKE_GRAIN; wrong.size[1] = SIZE + FAKE_GRAIN); /* overflows */
    REFUSED(wrong.size[0] = 0; wrong.size[1] = SIZE);
    REFUSED(wrong.fd[1] = STDERR_FILENO); /* no memory of a GPU */
    REFUSED(wrong.fd[1] = -1);
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), -EIO);
    assert_non_null(strstr(why, "cuMemImportFromShareableHandle"));
    api.mem_import = NULL;
    assert_int_equal(sn_cuda_open(&api, &mine.share, &files, &theirs, why), -ENOSYS);
    sn_cuda_files_close(&files);
    sn_cuda_region_fini(&mine);
    give_up();
}

/* Of a GPU that this process does not use, in the context of one that reaches it, or does not. */
static void another_gpus_memory_is_mapped_for_this_one(void **state)
{
    struct sn_cuda_region mine, theirs;
    struct sn_cuda_files files;
    char why[SN_CUDA_WHY] = "";

    (void)state;
    two_parts(0);
    make_region(place.at, SIZE, &mine);
    assert_true(sn_cuda_share(&mine));
    assert_true(sn_cuda_files(&mine.share, &files));
    mine.share.gpu[3] ^= 1; /* none of those here */
    fake_peers = 0;
    setenv("FAKE_GPU", "x", 1); /* that is how the driver comes to know it */
    assert_int_equal(sn_cuda_open(&api, &mine.share, &files, &theirs, why), -ENODEV);
    assert_non_null(strstr(why, "CUDA_VISIBLE_DEVICES"));
    fake_peers = 1;
    assert_int_equal(sn_cuda_open(&api, &mine.share, &files, &theirs, why), 0);
    unsetenv("FAKE_GPU");
    assert_true(theirs.elsewhere);
    memset((void *)(uintptr_t)place.at, 5, 1000);
    assert_int_equal(sn_cuda_move(&mine, place.at + AT, &theirs, theirs.addr, 1000), 0);
    assert_int_equal(sn_cuda_flush(&mine), 0);
    assert_memory_equal((void *)(uintptr_t)(place.at + AT), (void *)(uintptr_t)place.at, 1000);
    assert_int_equal(fake_faults, 0);
    sn_cuda_files_close(&files);
    sn_cuda_close(&theirs);
    sn_cuda_region_fini(&mine);
    give_up();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        T(both_places_are_the_same_memory),       T(regions_of_the_same_memory_share_its_files),
        T(other_memory_at_that_place_is_another), T(what_gives_no_files_is_not_shared),
        T(files_are_not_taken_at_their_word),     T(another_gpus_memory_is_mapped_for_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
