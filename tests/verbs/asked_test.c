/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings and flags arrive in the calls of libibverbs: relaxed ordering of regions, and the global routing
 * header of ways on InfiniBand. And what libmlx5 is told by its own settings, where queues would look
 * otherwise.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/verbs/impl.h"

static unsigned asked; /* access of the last region with optional rights */

/* libibverbs', in whose way this is: ibv_reg_mr calls it for rights that may be optional. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct ibv_mr *(*theirs)(struct ibv_pd *, void *, size_t, uint64_t, unsigned) =
        (struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, uint64_t, unsigned))
            dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");

    asked = access;
    return theirs(pd, addr, length, iova, access);
}

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

static unsigned registers(uint32_t access)
{
    static uint8_t memory[4096];
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_mr *mr;

    must(gw_device_open("softnic", NULL, &dev));
    must(gw_pd_create(dev, &pd));
    asked = ~0u;
    must(gw_mr_register(pd, memory, sizeof(memory), access, &mr));
    must(gw_mr_free(mr));
    must(gw_pd_destroy(pd));
    must(gw_device_close(dev));
    return asked;
}

static void relaxed_ordering_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(registers(0), GW_MR_ALL);
    assert_int_equal(registers(GW_MR_REMOTE_READ), GW_MR_REMOTE_READ);
    assert_int_equal(registers(GW_MR_RELAXED), GW_MR_ALL | GW_MR_RELAXED);
    assert_int_equal(registers(GW_MR_REMOTE_WRITE | GW_MR_RELAXED), GW_MR_REMOTE_WRITE | GW_MR_RELAXED);
    setenv("GPUWIRE_RELAXED_ORDERING", "1", 1);
    assert_int_equal(registers(0), GW_MR_ALL | GW_MR_RELAXED);
    assert_int_equal(registers(GW_MR_REMOTE_READ), GW_MR_REMOTE_READ | GW_MR_RELAXED);
    setenv("GPUWIRE_RELAXED_ORDERING", "0", 1);
    assert_int_equal(registers(0), GW_MR_ALL);
    unsetenv("GPUWIRE_RELAXED_ORDERING");
}

/* The device is none that was opened: there is no software InfiniBand. */
static void a_way_within_a_subnet_has_no_header(void **state)
{
    const struct gw_connect_opts none = {0};
    struct gw_device *dev = calloc(1, sizeof(*dev));
    struct gw_endpoint peer = {.gid = {0xfe, 0x80, [15] = 2}, .lid = 7};

    (void)state;
    memcpy(dev->info.gid, (const uint8_t[16]){0xfe, 0x80, [15] = 1}, 16);
    assert_int_equal(gw_way_to(dev, &peer, &none).is_global, 0);
    assert_int_equal(gw_way_to(dev, &peer, &none).dlid, 7);
    dev->settings.grh = 1;
    assert_int_equal(gw_way_to(dev, &peer, &none).is_global, 1);
    dev->settings.grh = 0;
    peer.gid[7] = 1; /* another subnet */
    assert_int_equal(gw_way_to(dev, &peer, &none).is_global, 1);
    peer.gid[7] = 0;
    peer.lid = 0;
    assert_int_equal(gw_way_to(dev, &peer, &none).is_global, 1);
    peer.lid = 7;
    dev->roce = true;
    assert_int_equal(gw_way_to(dev, &peer, &none).is_global, 1);
    free(dev);
}

/* Requests of such queue pairs have a signature, and receives another layout. */
static void signatures_are_refused(void **state)
{
    struct gw_device *dev;

    (void)state;
    setenv("MLX5_QP_SIGNATURE", "", 1);
    assert_int_equal(gw_device_open("softnic", NULL, &dev), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "unset it"));
    assert_non_null(strstr(gw_last_error(), "MLX5_QP_SIGNATURE"));
    unsetenv("MLX5_QP_SIGNATURE");
    must(gw_device_open("softnic", NULL, &dev));
    must(gw_device_close(dev));
}

/* libmlx5 would end the process. */
static void one_thread_alone_is_refused(void **state)
{
    struct gw_device *dev;

    (void)state;
    setenv("MLX5_SINGLE_THREADED", "1", 1);
    assert_int_equal(gw_device_open("softnic", NULL, &dev), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "MLX5_SINGLE_THREADED=1"));
    assert_non_null(strstr(gw_last_error(), "unset it"));
    setenv("MLX5_SINGLE_THREADED", "0", 1);
    must(gw_device_open("softnic", NULL, &dev));
    must(gw_device_close(dev));
    unsetenv("MLX5_SINGLE_THREADED");
}

static void long_completions_are_refused(void **state)
{
    struct gw_device *dev;

    (void)state;
    setenv("MLX5_CQE_SIZE", "128", 1);
    assert_int_equal(gw_device_open("softnic", NULL, &dev), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "unset MLX5_CQE_SIZE"));
    unsetenv("MLX5_CQE_SIZE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relaxed_ordering_is_asked_for),
        cmocka_unit_test(a_way_within_a_subnet_has_no_header), cmocka_unit_test(signatures_are_refused),
        cmocka_unit_test(one_thread_alone_is_refused), cmocka_unit_test(long_completions_are_refused)};

    setenv("GPUWIRE_NIC", "addr=127.0.0.1", 0);
    unsetenv("GPUWIRE_POST");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
