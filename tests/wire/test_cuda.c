/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory as a DMA target, on a CUDA driver made of host memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/cuda/cuda.h"
#include "tests/wire/fake_checks.h"

static struct sn_cuda_region whole;
static uint64_t base;
static uint8_t source[FAKE_GPU_SIZE], model[FAKE_GPU_SIZE];

static int setup(void **state)
{
    (void)state;
    fake_cuda_reset();
    base = (uintptr_t)fake_gpu;
    for (size_t i = 0; i < sizeof(source); i++) source[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
    return sn_cuda_region_init(fake_cuda_api(), base, FAKE_GPU_SIZE, &whole, NULL) == 1 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sn_cuda_region_fini(&whole);
    assert_driver_well_used();
    return 0;
}

static void host_memory_is_none_of_ours(void **state)
{
    struct sn_cuda_region r;

    (void)state;
    assert_int_equal(sn_cuda_region_init(NULL, base, 4096, &r, NULL), 0);
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), (uintptr_t)source, sizeof(source), &r, NULL), 0);
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base, 0, &r, NULL), 0);
}

static void refusals_say_why(void **state)
{
    struct sn_cuda_region r;
    char why[SN_CUDA_WHY] = "";

    (void)state;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + 1, FAKE_GPU_SIZE, &r, why), -EFAULT);
    assert_non_null(strstr(why, "part of the range"));
    fake_managed = 1;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base, 4096, &r, why), -EOPNOTSUPP);
    assert_non_null(strstr(why, "cudaMalloc"));
}

static void regions_of_a_context_share_its_staging(void **state)
{
    struct sn_cuda_region r;
    unsigned before = fake_allocations;

    (void)state;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + 4096, 4096, &r, NULL), 1);
    assert_ptr_equal(r.dev, whole.dev);
    assert_int_equal(fake_allocations, before);
    sn_cuda_region_fini(&r);
}

static void a_message_becomes_one_copy(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(sn_cuda_write(&whole, base + i * 4096, source + i * 4096, 4096), 0);
    assert_int_equal(stats_of(&whole).copies_in, 0);
    assert_int_equal(sn_cuda_flush(&whole), 0);
    assert_int_equal(stats_of(&whole).copies_in, 1);
    assert_memory_equal(fake_gpu, source, 50 * 4096);
}

static void interleaved_messages_combine_too(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        for (uint32_t m = 0; m < SN_CUDA_WRITERS; m++) {
            uint32_t at = m * (256 << 10) + i * 1024;
            assert_int_equal(sn_cuda_write(&whole, base + at, source + at, 1024), 0);
        }
    }
    assert_int_equal(sn_cuda_flush(&whole), 0);
    assert_int_equal(stats_of(&whole).copies_in, SN_CUDA_WRITERS);
    for (uint32_t m = 0; m < SN_CUDA_WRITERS; m++) {
        assert_memory_equal(fake_gpu + m * (256 << 10), source + m * (256 << 10), 40 * 1024);
    }
}

static void long_messages_are_copied_while_they_arrive(void **state)
{
    uint32_t len = 9 * SN_CUDA_STAGE + 100;

    (void)state;
    for (uint32_t at = 0; at < len; at += 4096) {
        assert_int_equal(sn_cuda_write(&whole, base + at, source + at, len - at < 4096 ? len - at : 4096), 0);
    }
    assert_int_equal(stats_of(&whole).copies_in, 9);
    assert_int_equal(sn_cuda_flush(&whole), 0);
    assert_int_equal(stats_of(&whole).copies_in, 10);
    assert_memory_equal(fake_gpu, source, len);
}

static void the_later_of_two_writes_stays(void **state)
{
    uint8_t a[4096], b[4096];

    (void)state;
    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    assert_int_equal(sn_cuda_write(&whole, base + 8192, a, 4096), 0);
    assert_int_equal(sn_cuda_write(&whole, base + 10000, b, 4096), 0);
    assert_int_equal(sn_cuda_write(&whole, base + 9000, a, 100), 0);
    assert_int_equal(sn_cuda_flush(&whole), 0);
    assert_int_equal(fake_gpu[9999], 'a');
    assert_memory_equal(fake_gpu + 10000, b, 4096);
}

static void reads_run_ahead_within_one_request(void **state)
{
    uint8_t got[4096];

    (void)state;
    memcpy(fake_gpu, source, FAKE_GPU_SIZE);
    for (uint32_t at = 0; at < 2 * SN_CUDA_STAGE; at += 4096) {
        assert_int_equal(sn_cuda_read(&whole, base + at, got, 4096, 2 * SN_CUDA_STAGE - at, 7), 0);
        assert_memory_equal(got, source + at, 4096);
    }
    assert_int_equal(stats_of(&whole).copies_out, 2);
    memset(fake_gpu, 0x55, FAKE_GPU_SIZE); /* the next request has a doorbell of its own and must see this */
    assert_int_equal(sn_cuda_read(&whole, base, got, 4096, 8192, 8), 0);
    assert_int_equal(got[0], 0x55);
    assert_int_equal(got[4095], 0x55);
    assert_int_equal(stats_of(&whole).bytes_out, 2 * SN_CUDA_STAGE + 8192);
}

static void reads_without_a_request_are_fresh(void **state)
{
    uint8_t got[64];

    (void)state;
    for (int i = 1; i < 4; i++) {
        memset(fake_gpu, i, 4096);
        assert_int_equal(sn_cuda_read(&whole, base + 10, got, 64, 4096, 0), 0);
        assert_int_equal(got[63], i);
    }
}

static void reads_see_writes_on_their_way(void **state)
{
    uint8_t got[100];

    (void)state;
    assert_int_equal(sn_cuda_read(&whole, base, got, 100, 65536, 3), 0);
    assert_int_equal(sn_cuda_write(&whole, base + 50, source, 4096), 0);
    assert_int_equal(sn_cuda_read(&whole, base + 50, got, 100, 65536 - 50, 3), 0);
    assert_memory_equal(got, source, 100);
}

static void what_is_outside_stays_outside(void **state)
{
    struct sn_cuda_region r;
    uint8_t b[64] = {0};

    (void)state;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + 4096, 4096, &r, NULL), 1);
    assert_int_equal(sn_cuda_write(&r, base + 4095, b, 1), -EFAULT);
    assert_int_equal(sn_cuda_write(&r, base + 8192 - 63, b, 64), -EFAULT);
    assert_int_equal(sn_cuda_write(&r, UINT64_MAX - 3, b, 64), -EFAULT);
    assert_int_equal(sn_cuda_read(&r, base + 8192, b, 1, 1, 1), -EFAULT);
    assert_int_equal(sn_cuda_read(&r, base + 8192 - 64, b, 64, 1 << 20, 1), 0);
    assert_int_equal(stats_of(&whole).bytes_out, 64); /* the read-ahead does not leave the region, either */
    sn_cuda_region_fini(&r);
}

static void memory_moves_within_a_gpu(void **state)
{
    enum { LEN = 2 * SN_CUDA_STAGE + 77 };
    struct sn_cuda_region r;
    uint8_t got[64];
    uint32_t to = 2 << 20;

    (void)state;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + to, LEN, &r, NULL), 1);
    memcpy(fake_gpu, source, LEN);
    /* What is on its way there comes after what is moved, and what is on its way here comes before. */
    assert_int_equal(sn_cuda_write(&whole, base + to + 10, source + 5000, 100), 0);
    assert_int_equal(sn_cuda_write(&whole, base + 20, source + 9000, 100), 0);
    assert_int_equal(sn_cuda_move(&r, base + to, &whole, base, LEN), 0);
    assert_int_equal(sn_cuda_read(&whole, base + to, got, 64, 64, 0), 0);
    assert_memory_equal(got, source, 20);
    assert_memory_equal(got + 20, source + 9000, 44);
    assert_int_equal(sn_cuda_flush(&r), 0);
    assert_memory_equal(fake_gpu + to + 120, source + 120, LEN - 120);
    assert_int_equal(sn_cuda_move(&r, base + to + 1, &whole, base, LEN), -EFAULT);
    assert_int_equal(sn_cuda_move(&r, base + to, &whole, base + FAKE_GPU_SIZE - 9, 10), -EFAULT);
    fake_fail_copies = 1;
    assert_int_equal(sn_cuda_move(&r, base + to, &whole, base, 10), -EIO);
    sn_cuda_region_fini(&r);
}

/* ---- another process's memory, which here is the array ---- */

static unsigned opens;

static int one_device(int *n)
{
    *n = 1;
    return 0;
}

static int device(gw_cu_device *dev, int ordinal)
{
    *dev = ordinal;
    return 0;
}

static int uuid(void *id, gw_cu_device dev)
{
    (void)dev;
    memset(id, 7, 16);
    return 0;
}

static int active(gw_cu_device dev, unsigned *flags, int *yes)
{
    (void)dev;
    *flags = 0;
    *yes = 1;
    return 0;
}

static int handle_of(gw_cu_ipc *h, gw_cu_ptr p)
{
    memset(h, 1, sizeof(*h));
    return p != base;
}

static int apart; /* no GPU reaches another one */

static int opened(gw_cu_ptr *p, gw_cu_ipc h, unsigned flags)
{
    if (apart) return 217;
    *p = base;
    opens += h.bytes[0];
    return flags != GW_CU_IPC_LAZY_PEER_ACCESS;
}

static int closed(gw_cu_ptr p)
{
    opens--;
    return p != base;
}

static void shared_memory_is_opened_no_further_than_it_reaches(void **state)
{
    static struct gw_cuda_driver api; /* its devices stay */
    struct sn_cuda_region mine, theirs;
    char why[SN_CUDA_WHY] = "";

    (void)state;
    api = *fake_cuda_api();
    api.device_count = one_device;
    api.device_get = device;
    api.device_uuid = uuid;
    api.primary_ctx_state = active;
    api.ipc_get = handle_of;
    api.ipc_open = opened;
    api.ipc_close = closed;
    assert_int_equal(sn_cuda_region_init(&api, base + 4096, 4096, &mine, NULL), 1);
    assert_true(sn_cuda_share(&mine));
    assert_int_equal(mine.share.base, base);
    assert_int_equal(mine.share.size, FAKE_GPU_SIZE);
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), 0);
    assert_int_equal(opens, 1);
    assert_int_equal(sn_cuda_move(&theirs, base + 100, &mine, base + 4096, 100), 0);
    /* A kernel that uses the process's own memory may run, for which closing would wait. */
    assert_false(sn_cuda_may_close(&theirs));
    struct sn_gpu_share share = mine.share;
    sn_cuda_region_fini(&mine);
    assert_true(sn_cuda_may_close(&theirs));
    sn_cuda_close(&theirs);
    assert_int_equal(opens, 0);
    assert_int_equal(sn_cuda_region_init(&api, base + 4096, 4096, &mine, NULL), 1);
    mine.share = share;
    assert_int_equal(opens, 0);

    /* After it is other memory of the GPU. */
    fake_cuda_add_memory(fake_gpu + FAKE_GPU_SIZE, 4096, 0, 0);
    mine.share.size++;
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), -EIO);
    assert_non_null(strstr(why, "shorter"));
    assert_int_equal(opens, 0);
    fake_cuda_remove_memory(fake_gpu + FAKE_GPU_SIZE);
    mine.share.gpu[3] = 1;
    apart = 1;
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), -ENODEV);
    assert_non_null(strstr(why, "CUDA_VISIBLE_DEVICES"));
    apart = 0;
    mine.share.size--;
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), 0);
    assert_true(theirs.elsewhere);
    sn_cuda_close(&theirs);
    assert_int_equal(opens, 0);
    api.ipc_open = NULL;
    assert_int_equal(sn_cuda_open(&api, &mine.share, NULL, &theirs, why), -ENOSYS);
    sn_cuda_region_fini(&mine);
}

static void a_refused_copy_fails_its_own_region(void **state)
{
    struct sn_cuda_region r;

    (void)state;
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + (1 << 20), 4096, &r, NULL), 1);
    assert_int_equal(sn_cuda_write(&r, base + (1 << 20), source, 100), 0);
    fake_fail_copies = 1;
    assert_int_equal(sn_cuda_flush(&r), -EIO);
    assert_int_equal(sn_cuda_flush(&r), 0);
    assert_int_equal(sn_cuda_write(&whole, base, source, 100), 0);
    assert_int_equal(sn_cuda_flush(&whole), 0);
    sn_cuda_region_fini(&r);
}

static void a_dead_gpu_is_an_error_and_no_hang(void **state)
{
    uint8_t b[16];

    (void)state;
    assert_int_equal(sn_cuda_write(&whole, base, source, 100), 0);
    fake_dead = 1;
    assert_int_equal(sn_cuda_flush(&whole), -EIO);
    assert_int_equal(sn_cuda_write(&whole, base, source, 100), -EIO);
    assert_int_equal(sn_cuda_read(&whole, base, b, 16, 16, 0), -EIO);
    assert_int_equal(sn_cuda_flush(&whole), -EIO);
}

/* Random reads, writes and flushes of a few regions against plain memory. */
static void random_operations(void **state)
{
    enum { REGIONS = 4, SPAN = 600 << 10 };
    struct sn_cuda_region r[REGIONS];
    uint8_t *got = malloc(SPAN);
    unsigned seed = 20260;

    (void)state;
    printf("seed %u\n", seed);
    srandom(seed);
    memset(model, 0, sizeof(model));
    for (int i = 0; i < REGIONS; i++) {
        assert_int_equal(
            sn_cuda_region_init(fake_cuda_api(), base + (uint64_t)i * (SPAN / 2), SPAN, &r[i], NULL), 1);
    }
    for (int op = 0; op < 20000; op++) {
        struct sn_cuda_region *region = &r[random() % REGIONS];
        uint32_t len = (uint32_t)random() % (random() % 50 ? 6000 : 300 << 10),
                 at = (uint32_t)random() % (SPAN - len);
        uint64_t addr = region->addr + at;

        switch (random() % 8) {
        case 0: assert_int_equal(sn_cuda_flush(region), 0); break;
        case 1:
        case 2:
            /* A request of its own each time: any read must be as of now. */
            assert_int_equal(sn_cuda_read(region, addr, got, len, len + 10000, (uint64_t)op + 1), 0);
            assert_memory_equal(got, model + (addr - base), len);
            break;
        default:
            assert_int_equal(sn_cuda_write(region, addr, source + op, len), 0);
            memcpy(model + (addr - base), source + op, len);
        }
    }
    for (int i = 0; i < REGIONS; i++) {
        assert_int_equal(sn_cuda_flush(&r[i]), 0);
        sn_cuda_region_fini(&r[i]);
    }
    assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
    free(got);
}

/* Offers source, and takes into model, up to a place where it fails. */
struct other {
    uint64_t end, calls;
};

static int give(void *with, uint64_t offset, void *to, uint32_t n)
{
    struct other *o = with;

    o->calls++;
    if (offset + n > o->end) return -EFAULT;
    memcpy(to, source + offset, n);
    return 0;
}

static int take(void *with, uint64_t offset, const void *from, uint32_t n)
{
    struct other *o = with;

    o->calls++;
    if (offset + n > o->end) return -EFAULT;
    memcpy(model + offset, from, n);
    return 0;
}

static void others_fill_and_empty_the_staging(void **state)
{
    const uint32_t len = 2 * SN_CUDA_STAGE + 100;
    struct other all = {.end = len}, half = {.end = SN_CUDA_STAGE};

    (void)state;
    memset(model, 0, len);
    assert_int_equal(sn_cuda_write_by(&whole, base + 3, len, give, &all), 0);
    assert_int_equal(all.calls, 3);
    assert_int_equal(stats_of(&whole).copies_in, 2); /* those that are full are on their way */
    /* A read sees what is still on its way. */
    all.calls = 0;
    assert_int_equal(sn_cuda_read_by(&whole, base + 3, len, take, &all), 0);
    assert_int_equal(all.calls, 3);
    assert_memory_equal(model, source, len);

    assert_int_equal(sn_cuda_write_by(&whole, base, len, give, &half), -EFAULT);
    assert_int_equal(sn_cuda_read_by(&whole, base, len, take, &half), -EFAULT);
    assert_int_equal(half.calls, 4);
    assert_int_equal(sn_cuda_write_by(&whole, base + FAKE_GPU_SIZE, 1, give, &all), -EFAULT);
    assert_int_equal(sn_cuda_read_by(&whole, base + FAKE_GPU_SIZE, 1, take, &all), -EFAULT);
    assert_int_equal(sn_cuda_flush(&whole), 0);
    assert_memory_equal(fake_gpu, source, SN_CUDA_STAGE);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(host_memory_is_none_of_ours),
        T(refusals_say_why),
        T(regions_of_a_context_share_its_staging),
        T(a_message_becomes_one_copy),
        T(interleaved_messages_combine_too),
        T(long_messages_are_copied_while_they_arrive),
        T(the_later_of_two_writes_stays),
        T(reads_run_ahead_within_one_request),
        T(reads_without_a_request_are_fresh),
        T(reads_see_writes_on_their_way),
        T(what_is_outside_stays_outside),
        T(memory_moves_within_a_gpu),
        T(shared_memory_is_opened_no_further_than_it_reaches),
        T(a_refused_copy_fails_its_own_region),
        T(a_dead_gpu_is_an_error_and_no_hang),
        T(others_fill_and_empty_the_staging),
        T(random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
