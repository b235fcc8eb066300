/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that goes while a peer that was stopped is in an access to it: no thread waits, and nothing is
 * written there when it goes on. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/local/gate.h"
#include "tests/local/hosts.h"

enum { LENGTH = 64 << 10, ROUNDS = 60 };

/* The memory that the two processes share, and the region, which is in it. */
static struct common {
    uint32_t round;   /* the peer's: accesses that it has made */
    uint32_t go;      /* the owner's: the peer may begin */
    uint32_t at_once; /* the owner's: the peer stops itself between being granted and copying */
    int64_t result;   /* the peer's, of that copy */
    uint8_t mem[LENGTH];
} * common;

static uint32_t load(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void nap_ms(unsigned ms)
{
    const struct timespec nap = {.tv_nsec = ms * 1000000};

    nanosleep(&nap, NULL);
}

/* One access after the other, each of which asks again. */
static void write_for_ever(struct sn_local *a, struct sn_peer *p)
{
    static uint8_t data[LENGTH];
    const struct sn_peer_access access = {.src_qpn = QPN_A,
                                          .dst_qpn = QPN_B,
                                          .rkey = KEY,
                                          .access = IBV_ACCESS_REMOTE_WRITE,
                                          .va = 0x1000,
                                          .length = LENGTH,
                                          .terms = host_terms()};
    struct iovec here = {data, LENGTH}, there = {NULL, LENGTH};
    struct sn_copy copy = {.write = true, .here = &here, .there = &there, .n_here = 1, .n_there = 1};
    uint64_t addr;

    memset(data, 0xee, sizeof(data));
    for (;;) {
        if (!ops->enter(a, p, 1000)) _exit(0);
        if (ops->grant(a, p, &access, &addr, &copy.by_there)) {
            bool stop = load(&common->at_once) != 0;

            there.iov_base = (void *)(uintptr_t)addr;
            if (stop) raise(SIGSTOP);
            int64_t n = ops->copy(a, p, &copy, NULL);
            if (stop) __atomic_store_n(&common->result, n, __ATOMIC_RELEASE);
        }
        ops->leave(a, p);
        __atomic_add_fetch(&common->round, 1, __ATOMIC_RELEASE);
    }
}

static pid_t start_writer(void)
{
    pid_t parent = getpid(), pid = fork();

    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it ended before that */
    while (!load(&common->go)) nap_ms(1);
    struct sn_local *a = open_host(A, true);
    write_for_ever(a, find_owner(a));
    _exit(0);
}

static struct sn_local *owner;

static void give(bool give)
{
    const struct sn_peer_region r = {.iova = 0x1000,
                                     .addr = (uintptr_t)common->mem,
                                     .length = LENGTH,
                                     .access = IBV_ACCESS_REMOTE_WRITE,
                                     .pd = 1};

    pthread_mutex_lock(&nic_lock);
    ops->region(owner, KEY, give ? &r : NULL);
    pthread_mutex_unlock(&nic_lock);
}

/* Until the peer has come round N times; it has to be met for that. */
static void wait_rounds(uint32_t n)
{
    uint32_t from = load(&common->round);

    for (int i = 0; load(&common->round) - from < n; i++) {
        assert_true(i < 60000);
        sn_local_serve(owner, &guard);
        nap_ms(1);
    }
}

static pid_t set_up(void)
{
    const struct sn_peer_queue q = {QPN_A, IBV_ACCESS_REMOTE_WRITE, 1, host_terms()};

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(common != MAP_FAILED);
    pid_t pid = start_writer();
    owner = open_host(B, true);
    ops->queue(owner, QPN_B, &q);
    give(true);
    __atomic_store_n(&common->go, 1, __ATOMIC_RELEASE);
    wait_rounds(3);
    return pid;
}

static void clean_up(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sn_local_close(owner);
    munmap(common, sizeof(*common));
}

static void wait_stopped(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

static void assert_untouched(void)
{
    for (int i = 0; i < LENGTH; i++) assert_int_equal(common->mem[i], 0);
}

/* Between being granted and copying, the worst place there is. */
static void what_was_granted_before_it_stopped_is_not_copied(void **state)
{
    pid_t pid = set_up();

    (void)state;
    __atomic_store_n(&common->result, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&common->at_once, 1, __ATOMIC_RELEASE);
    wait_stopped(pid);
    give(false);
    ops->quiesce(owner); /* returns */
    ops->quiesce(owner);
    memset(common->mem, 0, LENGTH);
    __atomic_store_n(&common->at_once, 0, __ATOMIC_RELEASE);
    kill(pid, SIGCONT);
    wait_rounds(3);
    assert_int_equal(__atomic_load_n(&common->result, __ATOMIC_ACQUIRE), -EFAULT); /* packets find out why */
    assert_untouched();
    /* And it may copy again. */
    give(true);
    wait_rounds(3);
    assert_int_equal(common->mem[LENGTH - 1], 0xee);
    clean_up(pid);
}

/* Wherever it happens to be. */
static void a_peer_is_stopped_anywhere(void **state)
{
    pid_t pid = set_up();

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        give(true);
        wait_rounds(2);
        kill(pid, SIGSTOP);
        if (i % 2) wait_stopped(pid); /* else it is about to */
        give(false);
        ops->quiesce(owner);
        memset(common->mem, 0, LENGTH);
        if (i % 2 == 0) wait_stopped(pid);
        kill(pid, SIGCONT);
        wait_rounds(2);
        assert_untouched();
    }
    clean_up(pid);
}

/* The call itself, on a channel whose taker is this process. */
static void a_shut_gate_lets_nothing_through(void **state)
{
    static struct sn_channel ch;
    uint8_t from[4] = {1, 2, 3, 4}, to[4] = {0};
    struct iovec here = {from, 4}, there[2] = {{to, 2}, {to + 2, 2}};

    (void)state;
    assert_true(sn_gate_lay(&ch, 7, there, 2));
    assert_false(sn_gate_is_shut(&ch));
    assert_true(sn_gate_shut(&ch, 7));
    assert_int_equal(process_vm_writev(getpid(), &here, 1, ch.there, 2, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_true(sn_gate_is_shut(&ch));
    assert_int_equal(to[0] | to[2], 0);
    assert_false(sn_gate_lay(&ch, 7, there, 2)); /* the same access */
    assert_false(sn_gate_pass(&ch, 7));
    assert_true(sn_gate_lay(&ch, 9, there, 2)); /* the next one */
    assert_int_equal(process_vm_writev(getpid(), &here, 1, ch.there, 2, 0), 4);
    assert_memory_equal(to, from, 4);
    assert_true(sn_gate_pass(&ch, 9));
    assert_false(sn_gate_shut(&ch, 9)); /* it may be at a copy that cannot be taken back */
    assert_false(sn_process_stands_still(getpid()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shut_gate_lets_nothing_through),
        cmocka_unit_test(what_was_granted_before_it_stopped_is_not_copied),
        cmocka_unit_test(a_peer_is_stopped_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
