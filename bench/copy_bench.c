/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most that two processes of this host can move: a limit for the software NIC's ways between them. One
 * way is process_vm_writev by itself, 1 MiB or less at a time, between ordinary and between huge pages. The
 * other is frames of 4 KiB through a ring in shared memory, put in as the NIC does and by memcpy. The best of
 * 7 or 20 runs counts, since other work only makes them slower.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "softnic/local/ring.h"

enum {
    RUNS = 7,
    COPY_RUNS = 20,
    COPY = 1 << 20,
    HUGE_PAGE = 2 << 20,
    COPIES = 100,
    FRAMES = 100000,
    SOURCE = 1 << 17,
    DEADLINE_S = 10
};

typedef bool put_fn(struct sn_channel *ch, uint32_t *tail, const uint8_t *data, uint32_t len, bool rndv);

static double time_of(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double now_s(void)
{
    return time_of(CLOCK_MONOTONIC);
}

static uint8_t *memory(size_t size)
{
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (p == MAP_FAILED) exit(1);
    memset(p, 1, size);
    return p;
}

/* A child that runs fn until it is killed. */
static pid_t start(void (*fn)(void *arg), void *arg)
{
    pid_t pid = fork();

    if (pid < 0) exit(1);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fn(arg);
    _exit(0);
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- copies into another process ----------------------------------------------------------------------- */

/* A huge page, if the system gives one, or small ones. The kernel ignores the advice where it has no huge
 * pages. The process that writes first gets them. */
static uint8_t *page(bool huge)
{
    uint8_t *p =
        mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) exit(1);
    p += -(uintptr_t)p % HUGE_PAGE;
    madvise(p, HUGE_PAGE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return p;
}

static void have_memory(void *at)
{
    memset(at, 2, HUGE_PAGE);
    for (;;) pause();
}

/* By the time that the thread had a CPU: no other thread takes part. */
static double copy_once(pid_t pid, uint8_t *from, uint8_t *to, size_t len)
{
    double since = time_of(CLOCK_THREAD_CPUTIME_ID);

    for (int i = 0; i < COPIES; i++) {
        for (size_t at = 0; at < COPY; at += len) {
            struct iovec here = {from + at, len}, there = {to + at, len};

            if (process_vm_writev(pid, &here, 1, &there, 1, 0) != (ssize_t)len) return 0;
        }
    }
    return COPIES * 8.0 * COPY / 1e9 / (time_of(CLOCK_THREAD_CPUTIME_ID) - since);
}

static void copies(bool huge)
{
    static const size_t lens[] = {COPY, COPY / 4, COPY / 16};
    uint8_t *from = page(huge), *to = page(huge);
    pid_t pid = start(have_memory, to);

    memset(from, 1, HUGE_PAGE);
    for (unsigned k = 0; k < sizeof(lens) / sizeof(*lens); k++) {
        double best = 0, rate;

        for (int i = 0; i < COPY_RUNS; i++)
            best = (rate = copy_once(pid, from, to, lens[k])) > best ? rate : best;
        printf("bench: process_vm_writev, %4zu KiB, %-5s pages   %8.1f Gbit/s%s\n", lens[k] >> 10,
               huge ? "huge" : "small", best, best > 0 ? "" : " (refused here)");
    }
    stop(pid);
}

/* ---- frames through shared memory ---------------------------------------------------------------------- */

static void take_all(void *ch)
{
    uint8_t *to = memory(SOURCE);
    uint32_t head = 0, at = 0;
    bool rndv;

    for (;;)
        if (sn_ring_take(ch, &head, to + at, &rndv) > 0) at = (at + 4096) % (SOURCE - SN_FRAME_MAX);
}

static bool put_plainly(struct sn_channel *ch, uint32_t *tail, const uint8_t *data, uint32_t len, bool rndv)
{
    struct sn_share_frame *f = &ch->frame[*tail % SN_SHARE_FRAMES];

    if (sn_ring_used(ch, *tail) >= SN_SHARE_FRAMES) return false;
    f->len = len;
    f->rndv = rndv;
    memcpy(f->data, data, len);
    __atomic_store_n(&ch->tail, ++*tail, __ATOMIC_RELEASE); /* with the acquire in sn_ring_take */
    return true;
}

static double put_once(struct sn_channel *ch, uint32_t *tail, const uint8_t *from, put_fn *put)
{
    double since = now_s();
    uint32_t at = 0;

    for (int i = 0; i < FRAMES;) {
        if (put(ch, tail, from + at, 4096, false)) {
            at = (at + 4096) % (SOURCE - SN_FRAME_MAX);
            i++;
        } else if (now_s() - since > DEADLINE_S) {
            return 0;
        }
    }
    return FRAMES * 8.0 * 4096 / 1e9 / (now_s() - since);
}

static void frames(const char *how, put_fn *put)
{
    struct sn_channel *ch =
        mmap(NULL, sizeof(*ch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    uint8_t *from = memory(SOURCE);
    double best = 0, rate;
    uint32_t tail = 0;

    if (ch == MAP_FAILED) exit(1);
    pid_t pid = start(take_all, ch);
    for (int i = 0; i < RUNS; i++) best = (rate = put_once(ch, &tail, from, put)) > best ? rate : best;
    printf("bench: shared memory, 4 KiB frames, %-12s%8.1f Gbit/s\n", how, best);
    stop(pid);
}

int main(void)
{
    copies(false);
    copies(true);
    frames("memcpy", put_plainly);
    frames("as the NIC", sn_ring_put);
    return 0;
}
