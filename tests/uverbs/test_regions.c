/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: every way to register them, to change them, and to pull the memory from under them. */
#include "tests/apart.h"
#include "tests/uverbs/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    ALL =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

/* After an error: the same queue pairs, from RESET to RTS. */
static void mend(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(peer, &a, IBV_QP_STATE), 0);
    connect_both();
}

static unsigned char *pages(int n, int prot)
{
    void *p = mmap(NULL, (size_t)n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* ---- how they are named ---- */

static void test_zero_based(void **state)
{
    (void)state;
    unsigned char *at = r.buf + 8192 + 100; /* not even at a page's start */
    struct ibv_mr *mr = ibv_reg_mr(r.pd, at, 3000, ALL | IBV_ACCESS_ZERO_BASED);

    assert_non_null(mr);
    memset(r.buf, 0x31, 3000);
    assert_int_equal(write_to(0, mr->rkey, 3000), IBV_WC_SUCCESS);
    assert_memory_equal(at, r.buf, 3000);
    at[7] = 9; /* offsets as local addresses too */
    assert_int_equal(rdma(IBV_WR_RDMA_WRITE, 7, mr->lkey, (uintptr_t)r.buf, r.mr->rkey, 1), IBV_WC_SUCCESS);
    assert_int_equal(r.buf[0], 9);
    assert_int_equal(write_to(1, mr->rkey, 3000), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(write_to((uintptr_t)at, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_iova(void **state)
{
    (void)state;
    unsigned char *at = r.buf + 8192;
    const uint64_t iova = 0xffffffff00000000;
    struct ibv_mr *mr = ibv_reg_mr_iova(r.pd, at, PAGE, iova, ALL | IBV_ACCESS_RELAXED_ORDERING);

    assert_non_null(mr);
    memset(r.buf, 0x32, PAGE);
    assert_int_equal(write_to(iova, mr->rkey, PAGE), IBV_WC_SUCCESS);
    assert_memory_equal(at, r.buf, PAGE);
    assert_int_equal(write_to(iova + 1, mr->rkey, PAGE), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_null(ibv_reg_mr_iova(r.pd, at, PAGE, iova + 1, ALL)); /* another place in its page */
    assert_int_equal(errno, EINVAL);
    assert_null(
        ibv_reg_mr_iova(r.pd, at, PAGE, UINT64_MAX - PAGE + 1, ALL)); /* past the end of all addresses */
    assert_int_equal(errno, EINVAL);
}

/* ---- what cannot be registered ---- */

static void refused(struct ibv_mr *mr, int with)
{
    assert_null(mr);
    assert_int_equal(errno, with);
}

static void test_unusable_memory(void **state)
{
    (void)state;
    unsigned char *p = map_apart(4 * PAGE);

    assert_non_null(p);
    memset(p, 0x5a, 4 * PAGE);
    munmap(p + 2 * PAGE, PAGE);
    refused(ibv_reg_mr(r.pd, p, 4 * PAGE, ALL), EFAULT);
    refused(ibv_reg_mr(r.pd, p, 4 * PAGE, 0), EFAULT);
    refused(ibv_reg_mr(r.pd, p + 2 * PAGE, 1, 0), EFAULT);
    mprotect(p, PAGE, PROT_READ);
    refused(ibv_reg_mr(r.pd, p, 64, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 64, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mprotect(p, PAGE, PROT_NONE);
    refused(ibv_reg_mr(r.pd, p, 64, 0), EFAULT);
    for (int i = PAGE; i < 2 * PAGE; i++) assert_int_equal(p[i], 0x5a); /* asking left it alone */
    munmap(p, 4 * PAGE);
}

static void test_unsupported_access(void **state)
{
    (void)state;
    refused(ibv_reg_mr(r.pd, r.buf, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL); /* without local write */
    refused(ibv_reg_mr(r.pd, r.buf, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
}

/* ---- changing ---- */

static void test_rereg_access(void **state)
{
    (void)state;
    uint64_t at = (uintptr_t)r.buf + 8192;
    struct ibv_mr *mr = ibv_reg_mr(r.pd, r.buf + 8192, PAGE, ALL);

    assert_int_equal(write_to(at, mr->rkey, 8), IBV_WC_SUCCESS);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
    assert_int_equal(rdma(IBV_WR_RDMA_READ, (uintptr_t)r.buf, r.mr->lkey, at, mr->rkey, 8), IBV_WC_SUCCESS);
    assert_int_equal(write_to(at, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);
    assert_int_equal(write_to(at, mr->rkey, 8), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_rereg_translation(void **state)
{
    (void)state;
    unsigned char *old = r.buf + 8192, *new = pages(2, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, old, PAGE, ALL);

    memset(r.buf, 0x41, PAGE);
    memset(old, 0, PAGE);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new, 2 * PAGE, 0), 0);
    assert_ptr_equal(mr->addr, new);
    assert_int_equal(write_to((uintptr_t) new + PAGE, mr->rkey, PAGE), IBV_WC_SUCCESS);
    assert_memory_equal(new + PAGE, r.buf, PAGE);
    assert_int_equal(write_to((uintptr_t)old, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(old[0], 0);
    /* A change that is impossible leaves the region as it was. */
    unsigned char *gone = pages(1, PROT_NONE);
    assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, gone, PAGE, 0), 0);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(write_to((uintptr_t) new, mr->rkey, 8), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(new, 2 * PAGE);
    munmap(gone, PAGE);
}

static void test_rereg_pd(void **state)
{
    (void)state;
    uint64_t at = (uintptr_t)r.buf + 8192;
    struct ibv_pd *other = ibv_alloc_pd(r.ctx);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, r.buf + 8192, PAGE, ALL);

    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_int_equal(write_to(at, mr->rkey, 8), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, r.pd, NULL, 0, 0), 0);
    assert_int_equal(write_to(at, mr->rkey, 8), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- file descriptors ---- */

static void check_fd(int fd, const char *what)
{
    const uint64_t offset = PAGE + 100, iova = 0x700000000064;
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(r.pd, offset, PAGE, iova, fd, ALL);
    unsigned char *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (!mr) fail_msg("%s: %s", what, strerror(errno));
    assert_ptr_not_equal(own, MAP_FAILED);
    memset(r.buf, 0x66, PAGE);
    assert_int_equal(write_to(iova, mr->rkey, PAGE), IBV_WC_SUCCESS);
    assert_memory_equal(own + offset, r.buf, PAGE);
    assert_int_equal(own[offset - 1] | own[offset + PAGE], 0);
    assert_int_equal(write_to(iova + 1, mr->rkey, PAGE), IBV_WC_REM_ACCESS_ERR);
    mend();
    assert_int_equal(ibv_dereg_mr(mr), 0);
    refused(ibv_reg_dmabuf_mr(r.pd, 3 * PAGE, PAGE + 1, 0, fd, ALL), EINVAL); /* past its end */
    refused(ibv_reg_dmabuf_mr(r.pd, 100, PAGE, 0, fd, ALL), EINVAL);          /* another place in its page */
    refused(ibv_reg_dmabuf_mr(r.pd, 0, PAGE, 0, fd, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
    munmap(own, 4 * PAGE);
}

static int new_memfd(void)
{
    int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
    return fd;
}

static void test_memfd(void **state)
{
    (void)state;
    int fd = new_memfd(), pipe_fd[2];

    check_fd(fd, "memfd");
    close(fd);
    refused(ibv_reg_dmabuf_mr(r.pd, 0, PAGE, 0, fd, ALL), EBADF);
    assert_int_equal(pipe(pipe_fd), 0);
    refused(ibv_reg_dmabuf_mr(r.pd, 0, PAGE, 0, pipe_fd[0], ALL), EINVAL);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

static void test_dmabuf(void **state)
{
    (void)state;
    int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (dev < 0) skip(); /* no such module here, or no permission */
    int memfd = new_memfd();
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    struct udmabuf_create c = {.memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = 4 * PAGE};
    int fd = ioctl(dev, UDMABUF_CREATE, &c);
    assert_true(fd >= 0);
    check_fd(fd, "udmabuf");
    close(fd);
    close(memfd);
    close(dev);
}

/* ---- memory that goes away ---- */

static void test_unmapped_later(void **state)
{
    (void)state;
    unsigned char *p = map_apart(2 * PAGE);
    uint64_t at = (uintptr_t)p;
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 2 * PAGE, ALL);

    assert_non_null(mr);
    assert_int_equal(write_to(at, mr->rkey, 2 * PAGE), IBV_WC_SUCCESS);
    munmap(p + PAGE, PAGE);
    assert_int_equal(write_to(at, mr->rkey, PAGE), IBV_WC_SUCCESS); /* what is there is still there */
    assert_int_equal(write_to(at, mr->rkey, 2 * PAGE), IBV_WC_REM_OP_ERR);
    mend();
    assert_int_equal(rdma(IBV_WR_RDMA_READ, (uintptr_t)r.buf, r.mr->lkey, at, mr->rkey, 2 * PAGE),
                     IBV_WC_REM_OP_ERR);
    mend();
    assert_int_equal(rdma(IBV_WR_RDMA_WRITE, at, mr->lkey, (uintptr_t)r.buf, r.mr->rkey, 2 * PAGE),
                     IBV_WC_LOC_PROT_ERR);
    mend();
    assert_int_equal(rdma(IBV_WR_RDMA_READ, at, mr->lkey, (uintptr_t)r.buf, r.mr->rkey, 2 * PAGE),
                     IBV_WC_LOC_PROT_ERR);
    mend();
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, PAGE);
}

enum { BIG = 60000, CHANGES = 150 };

static atomic_int stop, posted;
static struct ibv_mr *_Atomic target;

/* WRITEs without end at a region that comes and goes; errors are repaired. */
static void *writer(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        struct ibv_mr *mr = atomic_load(&target);
        uint32_t rkey = mr ? mr->rkey : 1;
        enum ibv_wc_status s = write_to(0, rkey, BIG);
        atomic_fetch_add(&posted, 1);
        if (s != IBV_WC_SUCCESS) mend();
    }
    return NULL;
}

/* When ibv_dereg_mr is back nothing writes there any more, though WRITEs were under way. */
static void test_dereg_waits(void **state)
{
    (void)state;
    unsigned char *p = pages(16, PROT_READ | PROT_WRITE);
    pthread_t t;
    int hit = 0;

    atomic_store(&stop, 0);
    memset(r.buf, 0x77, BIG);
    assert_int_equal(pthread_create(&t, NULL, writer, NULL), 0);
    for (int i = 0; i < CHANGES; i++) {
        memset(p, 0, BIG);
        struct ibv_mr *mr = ibv_reg_mr(r.pd, p, BIG, ALL | IBV_ACCESS_ZERO_BASED);
        assert_non_null(mr);
        int before = atomic_load(&posted);
        atomic_store(&target, mr);
        while (atomic_load(&posted) < before + 1 + i % 3) usleep(50);
        /* The writer may look at mr->rkey for as long as it can see mr. */
        struct ibv_mr still = *mr;
        atomic_store(&target, &still);
        usleep(i % 7 * 20);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        hit += p[0] == 0x77;
        memset(p, 0, BIG);
        usleep(300);
        for (int k = 0; k < BIG; k++)
            if (p[k]) fail_msg("byte %d was written after ibv_dereg_mr", k);
        atomic_store(&target, NULL);
        before = atomic_load(&posted);
        while (atomic_load(&posted) < before + 2) usleep(50); /* no thread looks at `still` any more */
    }
    atomic_store(&stop, 1);
    pthread_join(t, NULL);
    assert_true(hit > 0);
    munmap(p, 16 * PAGE);
}

/* Neither leaves the NIC: nothing of this size is there to be read. */
static void test_longer_than_a_message(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
    const uint32_t longest = 1u << 30;

    (void)state;
    for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
        assert_int_equal(
            rdma(opcodes[i], (uintptr_t)r.buf, r.mr->lkey, (uintptr_t)r.buf, r.mr->rkey, longest + 1),
            IBV_WC_LOC_LEN_ERR);
        mend();
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_zero_based),         T(test_iova),         T(test_unusable_memory),
        T(test_unsupported_access), T(test_rereg_access), T(test_rereg_translation),
        T(test_rereg_pd),           T(test_memfd),        T(test_dmabuf),
        T(test_unmapped_later),     T(test_dereg_waits),  T(test_longer_than_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
