/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_reg_dmabuf_mr of GPU memory whose fd cannot be mapped, as NVIDIA's driver gives them and NCCL registers
 * them. The GPU is made of host memory (tests/wire/fake_cuda_driver.c). Its fds can be mapped, so a file of
 * sysfs takes their place.
 */
#include "tests/uverbs/pair.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    ALL =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

static void *driver(const char *name)
{
    static void *lib;

    if (!lib) lib = dlopen("libcuda.so.1", RTLD_NOW);
    void *f = lib ? dlsym(lib, name) : NULL;
    if (!f) fail_msg("%s of the fake driver: %s", name, dlerror());
    return f;
}

/* Two pages of GPU memory, in the context that this thread has then. */
static uint64_t gpu_pages(void)
{
    void *ctx = NULL;
    uint64_t at = 0;

    assert_int_equal(((int (*)(unsigned))driver("cuInit"))(0), 0);
    assert_int_equal(((int (*)(void **, int))driver("cuDevicePrimaryCtxRetain"))(&ctx, 0), 0);
    assert_int_equal(((int (*)(void *))driver("cuCtxSetCurrent"))(ctx), 0);
    assert_int_equal(((int (*)(uint64_t *, size_t))driver("cuMemAlloc_v2"))(&at, 2 * PAGE), 0);
    return at;
}

static void copy_out(void *to, uint64_t from, size_t n)
{
    assert_int_equal(((int (*)(void *, uint64_t, size_t))driver("cuMemcpyDtoH_v2"))(to, from, n), 0);
}

static int closed_fd(void)
{
    /* Root only; a page long. */
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDWR | O_CLOEXEC);
    if (fd < 0) skip();
    return fd;
}

static void test_by_address(void **state)
{
    unsigned char *got = r.buf + 8192;
    uint64_t at = gpu_pages();
    int fd = closed_fd();
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(r.pd, 0, PAGE, at, fd, ALL);

    (void)state;
    if (!mr) fail_msg("%s", strerror(errno));
    close(fd); /* the region does not need it */
    memset(r.buf, 0x77, PAGE);
    assert_int_equal(write_to(at, mr->rkey, PAGE), IBV_WC_SUCCESS);
    copy_out(got, at, PAGE);
    assert_memory_equal(got, r.buf, PAGE);
    assert_int_equal(rdma(IBV_WR_RDMA_READ, (uintptr_t)r.buf + 100, r.mr->lkey, at + 8, mr->rkey, 8),
                     IBV_WC_SUCCESS);
    /* GPU memory goes on there, the region does not. */
    assert_int_equal(write_to(at + 8, mr->rkey, PAGE), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_elsewhere(void **state)
{
    int fd = closed_fd();

    (void)state;
    (void)gpu_pages();
    errno = 0;
    assert_null(ibv_reg_dmabuf_mr(r.pd, 0, PAGE, (uintptr_t)r.buf, fd, ALL)); /* host memory */
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_dmabuf_mr(r.pd, 0, PAGE, 0, fd, ALL));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_dmabuf_mr(r.pd, 0, 2 * PAGE, gpu_pages(), fd, ALL)); /* more than the fd has */
    assert_int_equal(errno, EINVAL);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_address, up, down),
        cmocka_unit_test_setup_teardown(test_elsewhere, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
