/* SPDX-License-Identifier: Apache-2.0 */
/* A small limit of locked memory, as containers have: what is refused says so, and names what mends it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/verbs.h>

#define MIB         (1u << 20)
#define LIMIT_BYTES (5u * MIB)

static struct gw_device *dev;
static struct gw_pd *pd;

static void explained(const char *what)
{
    if (!strstr(gw_last_error(), what) || !strstr(gw_last_error(), "this process may lock 5120 KiB") ||
        !strstr(gw_last_error(), "`ulimit -l unlimited`"))
        fail_msg("%s: %s", what, gw_last_error());
}

static void completion_queues(void **state)
{
    struct gw_cq_attr attr = {.cqe = 65537}; /* 131072 of 64 bytes */
    struct gw_cq *cq;

    (void)state;
    assert_int_equal(gw_cq_create(dev, &attr, &cq), -ENOMEM);
    explained("cannot make a completion queue of 65537 entries");
    attr.cqe = 1024;
    assert_int_equal(gw_cq_create(dev, &attr, &cq), 0);
    assert_int_equal(gw_cq_destroy(cq), 0);
}

static void queue_pairs(void **state)
{
    struct gw_cq_attr ca = {.cqe = 32768 + 1024};                    /* 4 MiB */
    struct gw_qp_attr qa = {.max_send_wr = 32768, .max_recv_wr = 1}; /* 2 MiB */
    struct gw_cq *cq;
    struct gw_qp *qp;

    (void)state;
    assert_int_equal(gw_cq_create(dev, &ca, &cq), 0);
    qa.send_cq = qa.recv_cq = cq;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), -ENOMEM);
    explained("cannot make a queue pair of 32768 sends");
    qa.max_send_wr = 16;
    assert_int_equal(gw_qp_create(pd, &qa, &qp), 0);
    assert_int_equal(gw_qp_destroy(qp), 0);
    assert_int_equal(gw_cq_destroy(cq), 0);
}

static void regions(void **state)
{
    void *mem = aligned_alloc(4096, 8 * MIB);
    struct gw_mr *mr, *more;

    (void)state;
    assert_non_null(memset(mem, 0, 8 * MIB));
    assert_int_equal(gw_mr_register(pd, mem, 8 * MIB, 0, &mr), -ENOMEM);
    explained("cannot register 8388608 bytes");
    assert_int_equal(gw_mr_register(pd, mem, 4 * MIB, 0, &mr), 0);
    assert_int_equal(gw_mr_register(pd, mem, 4 * MIB, 0, &more), -ENOMEM);
    assert_int_equal(gw_mr_free(mr), 0);
    assert_int_equal(gw_mr_register(pd, mem, 4 * MIB, 0, &more), 0); /* what is freed may be locked again */
    assert_int_equal(gw_mr_free(more), 0);
    free(mem);
}

/* Root may lock all it likes, by this capability. */
static void give_up_ipc_lock(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];

    assert_int_equal(syscall(SYS_capget, &head, caps), 0);
    caps[0].effective &= ~(1u << CAP_IPC_LOCK);
    assert_int_equal(syscall(SYS_capset, &head, caps), 0);
}

static int set_up(void **state)
{
    struct rlimit limit;

    (void)state;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_max < LIMIT_BYTES) return -1;
    limit.rlim_cur = LIMIT_BYTES;
    give_up_ipc_lock();
    if (setrlimit(RLIMIT_MEMLOCK, &limit)) return -1;
    if (!gw_device_open("softnic", NULL, &dev) && !gw_pd_create(dev, &pd)) return 0;
    fprintf(stderr, "%s\n", gw_last_error());
    return -1;
}

static int tear_down(void **state)
{
    (void)state;
    return gw_pd_destroy(pd) || gw_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_queues),
        cmocka_unit_test(queue_pairs),
        cmocka_unit_test(regions),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
