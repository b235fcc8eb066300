/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three copies alone that a stream's bytes take between two processes of this host. They go into the
 * sender's ring past the caches, from there into the receiver's by process_vm_readv, and out of it. The rings
 * take turns, half a ring at a time, and each half is given back before it is filled again. sock_bench many
 * cannot be faster than this.
 *
 *     ring_bench [BYTES OF A RING]       65536 by default; for 1, 416 and 4096 rings, in small pages and in
 *                                        huge ones
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/group.h>

enum { RUNS = 5, HUGE_PAGE = 2 << 20, BUFFER = 262144 };

#define TOTAL    (UINT64_C(768) << 20)
#define LIMIT_NS UINT64_C(20000000000)

/* How many halves of rings have been filled and given back, in turn. */
struct counts {
    uint64_t filled __attribute__((aligned(64)));
    uint64_t emptied __attribute__((aligned(64)));
};

struct side {
    struct counts *c;
    uint8_t *rings, *buffer;
    const uint8_t *theirs; /* the sender's rings, in its memory */
    pid_t sender;
    uint64_t rings_count, half, total; /* total: halves */
};

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

static uint8_t *memory(size_t size, int huge)
{
    uint8_t *p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) stop("mmap");
    p += -(uintptr_t)p % HUGE_PAGE;
    madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    madvise(p, size, MADV_DONTFORK); /* a page that both have is copied when it is next written to */
    memset(p, 1, size);
    return p;
}

/* Half number i of those that are filled: two of each ring, one ring after the other. */
static uint64_t place(const struct side *s, uint64_t i)
{
    return i % (2 * s->rings_count) * s->half;
}

static void wait_for(const uint64_t *count, uint64_t n)
{
    uint64_t limit = gw_clock_ns() + LIMIT_NS;

    while (gw_ld_acquire_u64(count) < n)
        if (gw_clock_ns() > limit) exit(1);
}

static void receive(const struct side *s)
{
    for (uint64_t i = 0; i < s->total; i++) {
        struct iovec here = {s->rings + place(s, i), s->half},
                     there = {(uint8_t *)(uintptr_t)s->theirs + place(s, i), s->half};

        wait_for(&s->c->filled, i + 1);
        if (process_vm_readv(s->sender, &here, 1, &there, 1, 0) != (ssize_t)s->half) stop("process_vm_readv");
        memcpy(s->buffer + i * s->half % BUFFER, here.iov_base, s->half);
        gw_st_release_u64(&s->c->emptied, i + 1);
    }
}

static void fill(const struct side *s)
{
    for (uint64_t i = 0; i < s->total; i++) {
        if (i >= 2 * s->rings_count) wait_for(&s->c->emptied, i + 1 - 2 * s->rings_count);
        gw_cpu_copy_away_(s->rings + place(s, i), s->buffer + i * s->half % BUFFER, s->half);
        gw_st_release_u64(&s->c->filled, i + 1);
    }
    wait_for(&s->c->emptied, s->total);
}

/* The receiver's part, in a process of its own, which has its memory before it says so. */
static pid_t start(struct side s, int huge)
{
    pid_t sender = getpid(), pid = fork();

    if (pid < 0) stop("fork");
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    s.sender = sender;
    s.theirs = s.rings;
    s.rings = memory(2 * s.rings_count * s.half, huge);
    s.buffer = memory(BUFFER, huge);
    gw_st_release_u64(&s.c->emptied, 1);
    wait_for(&s.c->filled, 1);
    gw_st_release_u64(&s.c->filled, 0);
    gw_st_release_u64(&s.c->emptied, 0);
    receive(&s);
    _exit(0);
}

/* Gbit/s. */
static double run(uint64_t rings, uint64_t half, int huge)
{
    struct side s = {.rings_count = rings, .half = half, .total = TOTAL / half};
    size_t size = 2 * rings * half;
    uint64_t begin;
    pid_t pid;

    s.c = mmap(NULL, sizeof(*s.c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.c == MAP_FAILED) stop("mmap");
    s.rings = memory(size, huge);
    s.buffer = memory(BUFFER, huge);
    pid = start(s, huge);
    wait_for(&s.c->emptied, 1);
    gw_st_release_u64(&s.c->filled, 1);
    while (gw_ld_acquire_u64(&s.c->emptied)) gw_pause(0);
    begin = gw_clock_ns();
    fill(&s);
    begin = gw_clock_ns() - begin;
    waitpid(pid, NULL, 0);
    munmap(s.rings, size);
    munmap(s.buffer, BUFFER);
    munmap(s.c, sizeof(*s.c));
    return 8.0 * (double)(s.total * half) / (double)begin;
}

int main(int argc, char **argv)
{
    static const uint64_t rings[] = {1, 416, 4096};
    uint64_t size = argc > 1 ? strtoull(argv[1], NULL, 0) : 65536;

    if (size < 4096 || size > BUFFER || size & (size - 1)) {
        fprintf(stderr, "usage: ring_bench [BYTES OF A RING: a power of two, 4096 to %d]\n", BUFFER);
        return 2;
    }
    for (unsigned huge = 0; huge < 2; huge++)
        for (unsigned k = 0; k < sizeof(rings) / sizeof(rings[0]); k++) {
            double best = 0, rate;

            for (int i = 0; i < RUNS; i++) best = (rate = run(rings[k], size / 2, huge)) > best ? rate : best;
            printf("bench: three copies, %4llu rings of %3llu KiB, %-5s pages %8.1f Gbit/s\n",
                   (unsigned long long)rings[k], (unsigned long long)(size >> 10), huge ? "huge" : "small",
                   best);
        }
    return 0;
}
