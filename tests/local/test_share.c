/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's table allows some accesses. No content of shared memory, however wrong, does harm. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/local/meet.h"
#include "softnic/local/ring.h"
#include "softnic/local/table.h"
#include "tests/rnd.h"

enum { READ = IBV_ACCESS_REMOTE_READ, WRITE = IBV_ACCESS_REMOTE_WRITE, KEY = 5 << 12 | 0x123 };

static struct sn_table *table;
static const struct sn_peer_region region = {
    .iova = 0x10000, .addr = 0x7000000, .length = 0x1000, .access = READ | WRITE, .pd = 3};
#define TERMS                                                                                                \
    {                                                                                                        \
        .gid = {[15] = 9}, .psn = 77, .mtu = 1024, .pkey = 0xffff, .reads = 4                                \
    }
static const struct sn_peer_queue queue = {
    .dest_qpn = 0x20111, .access = READ | WRITE, .pd = 3, .terms = TERMS};
static struct sn_peer_access good;

static int up(void **state)
{
    (void)state;
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    assert_true(table != MAP_FAILED);
    sn_table_region(table, KEY, &region);
    sn_table_queue(table, 0x10222, &queue);
    good = (struct sn_peer_access){.src_qpn = 0x20111,
                                   .dst_qpn = 0x10222,
                                   .rkey = KEY,
                                   .access = WRITE,
                                   .va = 0x10100,
                                   .length = 0x100,
                                   .terms = TERMS};
    return 0;
}

static int down(void **state)
{
    (void)state;
    munmap(table, sizeof(*table));
    return 0;
}

static bool granted(const struct sn_peer_access *a)
{
    struct sn_gpu_share gpu;
    uint64_t addr = 1;

    if (!sn_table_grants(table, a, &addr, &gpu)) return false;
    assert_int_equal(gpu.size, 0);
    if (a->length) assert_int_equal(addr, 0x7000000 + a->va - 0x10000);
    return true;
}

static void what_is_registered_is_granted(void **state)
{
    struct sn_peer_access a = good;

    (void)state;
    assert_true(granted(&a));
    a.access = READ;
    assert_true(granted(&a));
    a.va = 0x10000;
    a.length = 0x1000;
    assert_true(granted(&a));
    a.length = 0;
    a.rkey = 0;
    assert_true(granted(&a));
}

#define REFUSED(change)                                                                                      \
    do {                                                                                                     \
        struct sn_peer_access a = good;                                                                      \
        a.change;                                                                                            \
        assert_false(granted(&a));                                                                           \
    } while (0)

static void all_else_is_refused(void **state)
{
    (void)state;
    REFUSED(src_qpn = 0x20112);
    REFUSED(dst_qpn = 0x10223);
    REFUSED(dst_qpn = 0x30222);
    REFUSED(rkey = KEY + 1);
    REFUSED(rkey = 0xffffffff);
    REFUSED(access = IBV_ACCESS_REMOTE_ATOMIC);
    REFUSED(va = 0xffff);
    REFUSED(va = 0x10f01);
    REFUSED(length = 0xf01);
    REFUSED(length = UINT64_MAX);
    REFUSED(va = UINT64_MAX);
}

/* The faults of packets that the responder would find before it looks at a region. */
static void what_packets_would_be_refused_for_is_refused(void **state)
{
    struct sn_peer_access a = good;

    (void)state;
    REFUSED(terms.gid[15] = 8);
    REFUSED(terms.psn = 78);
    REFUSED(terms.mtu = 2048);
    REFUSED(terms.pkey = 0x8001);
    a.terms.pkey = 0x7fff; /* a limited member of the same partition */
    a.terms.reads = 5;     /* and WRITEs are not counted */
    assert_true(granted(&a));
    a = good;
    a.access = READ;
    assert_true(granted(&a));
    a.terms.reads = 5;
    assert_false(granted(&a));
    a.terms.reads = 0;
    assert_false(granted(&a));
    a.access = 0; /* an offer that has come by packets */
    a.terms.psn = 0;
    a.terms.gid[15] = 8;
    assert_true(granted(&a));
    a.terms.mtu = 2048;
    assert_false(granted(&a));
}

static void what_was_taken_back_is_refused(void **state)
{
    struct sn_peer_region other = region;
    struct sn_peer_queue strict = queue;

    (void)state;
    sn_table_region(table, KEY, NULL);
    assert_false(granted(&good));
    other.pd = 4;
    sn_table_region(table, KEY, &other);
    assert_false(granted(&good));
    other = region;
    other.access = READ;
    sn_table_region(table, KEY, &other);
    assert_false(granted(&good));
    sn_table_region(table, KEY, &region);
    assert_true(granted(&good));
    strict.access = READ;
    sn_table_queue(table, 0x10222, &strict);
    assert_false(granted(&good));
    sn_table_queue(table, 0x10222, NULL);
    assert_false(granted(&good));
}

static void keys_beyond_the_table_are_not_entered(void **state)
{
    struct sn_peer_access a = good;

    (void)state;
    a.rkey = (uint32_t)SN_SHARE_REGIONS << SN_SHARE_KEY_SHIFT | 5 << 12 | 0x123;
    sn_table_region(table, a.rkey, &region);
    assert_false(granted(&a));
    assert_true(granted(&good));
}

static void an_entry_in_the_making_is_refused(void **state)
{
    (void)state;
    table->region[5].seq |= 1;
    assert_false(granted(&good));
    table->region[5].seq++;
    assert_true(granted(&good));
    table->queue[0x222].seq |= 1;
    assert_false(granted(&good));
}

/* Who it is granted to must find it inside the allocation that it is said to be in. */
static void gpu_memory_is_told_with_its_allocation(void **state)
{
    struct sn_gpu_share gpu = {{1, 2, 3}, {4}, 0x7000000 - 0x1000, 0x1000 + 0x8000, SN_GPU_BY_FILES, 3}, got;
    struct sn_peer_region r = region;
    uint64_t addr;

    (void)state;
    r.gpu = &gpu;
    sn_table_region(table, KEY, &r);
    assert_true(sn_table_grants(table, &good, &addr, &got));
    assert_memory_equal(&got, &gpu, sizeof(gpu));
    assert_int_equal(addr, 0x7000000 + good.va - 0x10000);
    assert_true(sn_table_on_gpu(table, KEY) && sn_table_shares(table, KEY, &gpu));
    gpu.size = 0x1000 + good.va - 0x10000 + good.length - 1;
    assert_false(sn_table_shares(table, KEY, &gpu));
    sn_table_region(table, KEY, &r);
    assert_false(sn_table_grants(table, &good, &addr, &got));
    sn_table_region(table, KEY, NULL);
    assert_false(sn_table_on_gpu(table, KEY) || sn_table_shares(table, KEY, &gpu));
}

/* Whatever stands there: nothing is granted but ranges that do not wrap around. */
static void noise_in_a_table_does_no_harm(void **state)
{
    struct rnd rnd = {7};
    struct sn_gpu_share gpu;
    uint64_t addr;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct sn_peer_access a = good;

        rnd_bytes(&rnd, (uint8_t *)&table->region[5], sizeof(table->region[5]));
        if (i % 2) rnd_bytes(&rnd, (uint8_t *)&table->queue[0x222], sizeof(table->queue[0x222]));
        table->region[5].key = KEY;
        a.va = rnd64(&rnd) >> rnd_below(&rnd, 64);
        a.length = 1 + (rnd64(&rnd) >> rnd_below(&rnd, 64)) / 2;
        if (i % 3) rnd_bytes(&rnd, (uint8_t *)&table->gpu[5], sizeof(table->gpu[5]));
        if (i % 4) table->region[5].gpu = 0;
        if (!sn_table_grants(table, &a, &addr, &gpu)) continue;
        assert_true(a.va >= table->region[5].iova && a.length <= table->region[5].length);
        assert_true(!gpu.size || (addr >= gpu.base && addr - gpu.base <= gpu.size - a.length));
    }
}

/* ---- rings ---- */

static struct sn_channel channel;
static bool rndv;

static void frames_come_in_order(void **state)
{
    uint8_t in[64 + SN_FRAME_MAX], out[SN_FRAME_MAX];
    uint32_t tail = 0xffffff00, head = tail, put = 0, taken = 0;
    struct rnd rnd = {5};

    (void)state;
    channel.head = channel.tail = tail;
    while (taken < 20000) {
        uint32_t n = rnd_below(&rnd, 400);

        for (uint32_t i = 0; i < n; i++) {
            uint32_t len = 16 + put % (SN_FRAME_MAX - 15);

            for (uint32_t k = 0; k < len; k++) in[put % 64 + k] = (uint8_t)(put + 7 * k);
            if (!sn_ring_put(&channel, &tail, in + put % 64, len, false)) break;
            put++;
        }
        assert_true(put - taken <= SN_SHARE_FRAMES);
        n = rnd_below(&rnd, 400);
        for (uint32_t i = 0; i < n && put != taken; i++, taken++) {
            int len = sn_ring_take(&channel, &head, out, &rndv);

            assert_int_equal(len, 16 + taken % (SN_FRAME_MAX - 15));
            for (int k = 0; k < len; k++) assert_int_equal(out[k], (uint8_t)(taken + 7 * k));
        }
        if (put == taken) {
            assert_true(sn_ring_empty(&channel, &head));
            assert_int_equal(sn_ring_take(&channel, &head, out, &rndv), 0);
        }
    }
}

static void nonsense_from_the_other_side_is_noticed(void **state)
{
    uint8_t frame[SN_FRAME_MAX] = {0};
    uint32_t tail = 0, head = 0;

    (void)state;
    memset(&channel, 0, sizeof(channel));
    assert_true(sn_ring_put(&channel, &tail, frame, 64, false));
    channel.tail = SN_SHARE_FRAMES + 1;
    assert_int_equal(sn_ring_take(&channel, &head, frame, &rndv), -EPROTO);
    channel.tail = 1;
    channel.frame[0].len = SN_FRAME_MAX + 1;
    assert_int_equal(sn_ring_take(&channel, &head, frame, &rndv), -EPROTO);
    channel.frame[0].len = 3;
    assert_int_equal(sn_ring_take(&channel, &head, frame, &rndv), -EPROTO);
    channel.frame[0].len = UINT32_MAX;
    assert_int_equal(sn_ring_take(&channel, &head, frame, &rndv), -EPROTO);
    channel.tail = 0;
    channel.head = 1; /* there is nothing to take, and no thread to keep awake */
    assert_true(sn_ring_empty(&channel, &head));
    channel.head = 77; /* of frames that never were */
    assert_false(sn_ring_put(&channel, &tail, frame, 64, false));
    assert_true(sn_ring_used(&channel, tail) > SN_SHARE_FRAMES);
}

/* ---- memory ---- */

static void shared_memory_cannot_be_taken_away(void **state)
{
    void *at, *peers;
    int fd = sn_share_make(8192, true, &at);

    (void)state;
    assert_true(fd >= 0);
    memset(at, 7, 8192);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(sn_share_map(fd, 4096, false, &peers), -EPROTO);
    assert_int_equal(sn_share_map(fd, 8192, true, &peers), -EPERM); /* sealed: its maker alone writes */
    assert_int_equal(sn_share_map(fd, 8192, false, &peers), 0);
    assert_int_equal(((uint8_t *)peers)[8191], 7);
    munmap(peers, 8192);
    munmap(at, 8192);
    close(fd);
    fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(sn_share_map(fd, 8192, false, &peers), -EPROTO);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_registered_is_granted, up, down),
        cmocka_unit_test_setup_teardown(all_else_is_refused, up, down),
        cmocka_unit_test_setup_teardown(what_packets_would_be_refused_for_is_refused, up, down),
        cmocka_unit_test_setup_teardown(what_was_taken_back_is_refused, up, down),
        cmocka_unit_test_setup_teardown(keys_beyond_the_table_are_not_entered, up, down),
        cmocka_unit_test_setup_teardown(an_entry_in_the_making_is_refused, up, down),
        cmocka_unit_test_setup_teardown(gpu_memory_is_told_with_its_allocation, up, down),
        cmocka_unit_test_setup_teardown(noise_in_a_table_does_no_harm, up, down),
        cmocka_unit_test(frames_come_in_order),
        cmocka_unit_test(nonsense_from_the_other_side_is_noticed),
        cmocka_unit_test(shared_memory_cannot_be_taken_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
