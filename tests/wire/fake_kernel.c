/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/fake_kernel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Its clock is slow: a machine that is not quiet keeps a thread waiting longer than the copier does a
 * kernel. */
enum { SLOWER = 1000 };
/* Longer than the copier takes to find that it is being kept waiting. */
#define SLOW_NS 5000000
enum { SHORT = 5 };

struct fake_launch {
    struct sn_kernel_ring *ring;
    uint64_t next, number, idle_ns, life_ns;
    enum fake_kernel how;
    int gpu, *on;
};

enum fake_kernel fake_kernel;
static int running, ending; /* atomic */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The next command, if all words of its slot are there. */
static int take(const struct fake_launch *k, struct sn_kernel_command *out)
{
    uint64_t *slot = k->ring->slot[k->next % SN_KERNEL_SLOTS];
    uint32_t word[SN_KERNEL_WORDS];

    for (int i = 0; i < SN_KERNEL_WORDS; i++) {
        uint64_t w = __atomic_load_n(&slot[i], __ATOMIC_ACQUIRE);

        if (w >> 32 != (uint32_t)k->next) return 0;
        word[i] = (uint32_t)w;
    }
    memcpy(out, word, sizeof(word));
    return 1;
}

/* Unit by unit, as the kernel does: a wrong alignment or length shows. */
static void execute(int gpu, const struct sn_kernel_command *c)
{
    uint32_t shift = c->how & 255, head = c->how >> SN_KERNEL_HEAD_SHIFT & 255,
             tail = c->how >> SN_KERNEL_TAIL_SHIFT & 255;
    uint8_t *to = (uint8_t *)(uintptr_t)c->dst;
    const uint8_t *from = c->how & SN_KERNEL_HERE ? c->bytes : (const uint8_t *)(uintptr_t)c->src;
    int known = shift == 0 || shift == 2 || shift == 3 || shift == 4;

    if (!fake_cuda_lets(gpu, to) || (!(c->how & SN_KERNEL_HERE) && !fake_cuda_lets(gpu, from))) return;
    memcpy(to, from, head);
    /* The kernel would fault, or leave the units out. */
    if (known && !(((uintptr_t)to + head) & ((1u << shift) - 1)) &&
        !(((uintptr_t)from + head) & ((1u << shift) - 1)))
        memcpy(to + head, from + head, (size_t)c->units << shift);
    memcpy(to + head + ((size_t)c->units << shift), from + head + ((size_t)c->units << shift), tail);
    fake_cuda_note(to);
}

static int over(const struct fake_launch *k, uint64_t start, uint64_t last, unsigned count)
{
    uint64_t now = now_ns();

    return now - last > SLOWER * k->idle_ns || now - start > SLOWER * k->life_ns ||
           (k->how == FAKE_KERNEL_SHORT && count == SHORT) || __atomic_load_n(&ending, __ATOMIC_RELAXED) ||
           __atomic_load_n(&k->ring->stop, __ATOMIC_RELAXED) == k->number;
}

static void run(struct fake_launch *k)
{
    const struct timespec nap = {.tv_nsec = SLOW_NS};
    uint64_t start = now_ns(), last = start;
    struct sn_kernel_command c;
    unsigned count = 0;

    __atomic_store_n(&k->ring->alive, k->number, __ATOMIC_RELEASE);
    while (!over(k, start, last, count)) {
        if (__atomic_load_n(&fake_dead, __ATOMIC_RELAXED)) return;
        if (!take(k, &c)) {
            sched_yield();
            continue;
        }
        if (k->how == FAKE_KERNEL_SLOW) nanosleep(&nap, NULL);
        execute(k->gpu, &c);
        __atomic_store_n(&k->ring->done, k->next++, __ATOMIC_RELEASE);
        last = now_ns();
        count++;
    }
    __atomic_store_n(&k->ring->gone, k->number, __ATOMIC_RELEASE);
}

static void *kernel_main(void *arg)
{
    struct fake_launch *k = arg;

    while (k->how == FAKE_KERNEL_WAITS && !__atomic_load_n(&ending, __ATOMIC_RELAXED)) sched_yield();
    if (k->how != FAKE_KERNEL_WAITS) run(k);
    __atomic_fetch_sub(k->on, 1, __ATOMIC_RELEASE);
    free(k);
    __atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
    return NULL;
}

int fake_kernel_launch(int gpu, int *on, void **args)
{
    struct fake_launch *k = malloc(sizeof(*k));
    pthread_t id;

    if (!k) return 2;

    *k = (struct fake_launch){.ring = *(struct sn_kernel_ring **)args[0],
                              .next = *(uint64_t *)args[1],
                              .number = *(uint64_t *)args[2],
                              .idle_ns = *(uint64_t *)args[3],
                              .life_ns = *(uint64_t *)args[4],
                              .how = fake_kernel,
                              .gpu = gpu,
                              .on = on};
    __atomic_fetch_add(on, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&running, 1, __ATOMIC_RELAXED);
    if (pthread_create(&id, NULL, kernel_main, k)) return 2;
    pthread_detach(id);
    return 0;
}

void fake_kernel_end_all(void)
{
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) sched_yield();
    __atomic_store_n(&ending, 0, __ATOMIC_RELAXED);
}
