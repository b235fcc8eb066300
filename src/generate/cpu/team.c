/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a team, how they share out chunks, and how they sleep. */
#include "src/generate/cpu/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/exec/cpu.h"

/* How long a member spins for the next piece before it sleeps: longer than what lies between two pieces. */
#define TEAM_SPIN_NS 50000

struct team_member {
    struct gen_team *team;
    uint32_t number;
    pthread_t thread;
};

struct gen_team {
    uint32_t threads, started;
    struct team_member *member;
    /*
     * The piece under way: its number (16 bits), its chunks (24), and how many have been taken (24). One
     * addition takes a chunk and tells of which piece it is. So a member that comes late takes a chunk of the
     * piece that is there now. It reads `fn` and `ctx` when it has a chunk: until that is done they stay.
     */
    uint64_t word __attribute__((aligned(64)));
    void (*fn)(void *ctx, uint32_t chunk, uint32_t member);
    void *ctx;
    uint32_t done __attribute__((aligned(64))); /* chunks of the piece; a futex for the caller */
    uint32_t waiting;                           /* the caller sleeps on `done`, or is about to */
    uint32_t bell __attribute__((aligned(64))); /* a futex for members without work */
    uint32_t sleeping;                          /* members that sleep on it, or are about to */
    uint32_t quit;
};

static uint32_t word_chunks(uint64_t word)
{
    return (uint32_t)(word >> 24) & 0xffffff;
}

static uint32_t word_taken(uint64_t word)
{
    return (uint32_t)word & 0xffffff;
}

static void team_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t team_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Pauses, and says whether the time for spinning is over. */
static bool team_spun(uint64_t *since)
{
    for (int i = 0; i < 32; i++) team_pause();
    if (!*since) *since = team_now();
    return team_now() - *since > TEAM_SPIN_NS;
}

/* Takes chunks while there are any; says whether it has had one. */
static bool team_work(struct gen_team *t, uint32_t member)
{
    bool any = false;

    for (;;) {
        uint64_t word = __atomic_load_n(&t->word, __ATOMIC_RELAXED);

        /* Looking first keeps members without work from counting `taken` up without end. */
        if (word_taken(word) >= word_chunks(word)) return any;
        /* Acquire: fn and ctx, and what earlier pieces have written, were there before the word. */
        word = __atomic_fetch_add(&t->word, 1, __ATOMIC_ACQUIRE);
        if (word_taken(word) >= word_chunks(word)) return any;
        t->fn(t->ctx, word_taken(word), member);
        any = true;
        /* Sequentially consistent, as the caller's two: either it sees this chunk in `done`, or we see that
         * it waits. As a release it puts what fn has written before it. */
        __atomic_fetch_add(&t->done, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&t->waiting, __ATOMIC_SEQ_CST)) gw_futex_wake(&t->done);
    }
}

static bool team_has_work(const struct gen_team *t)
{
    uint64_t word = __atomic_load_n(&t->word, __ATOMIC_SEQ_CST);

    return word_taken(word) < word_chunks(word) || __atomic_load_n(&t->quit, __ATOMIC_SEQ_CST);
}

static void team_sleep(struct gen_team *t)
{
    uint32_t bell = __atomic_load_n(&t->bell, __ATOMIC_SEQ_CST);

    /* Sequentially consistent: either the caller sees the sleeper after it has set the word, and rings; or
     * the sleeper sees the word. A ring after the load above makes the wait return at once. */
    __atomic_fetch_add(&t->sleeping, 1, __ATOMIC_SEQ_CST);
    if (!team_has_work(t)) gw_futex_wait(&t->bell, bell);
    __atomic_fetch_sub(&t->sleeping, 1, __ATOMIC_SEQ_CST);
}

static void team_ring(struct gen_team *t)
{
    if (!__atomic_load_n(&t->sleeping, __ATOMIC_SEQ_CST)) return;
    __atomic_fetch_add(&t->bell, 1, __ATOMIC_SEQ_CST);
    gw_futex_wake(&t->bell);
}

static void *team_main(void *arg)
{
    struct team_member *m = arg;
    struct gen_team *t = m->team;
    uint64_t since = 0;

    while (!__atomic_load_n(&t->quit, __ATOMIC_RELAXED)) {
        if (team_work(t, m->number)) {
            since = 0;
        } else if (team_spun(&since)) {
            team_sleep(t);
            since = 0;
        }
    }
    return NULL;
}

void gen_team_run(struct gen_team *t, uint32_t chunks, void (*fn)(void *ctx, uint32_t chunk, uint32_t member),
                  void *ctx)
{
    uint64_t since = 0, piece = (__atomic_load_n(&t->word, __ATOMIC_RELAXED) >> 48) + 1;

    if (t->threads == 1 || chunks <= 1) {
        for (uint32_t i = 0; i < chunks; i++) fn(ctx, i, 0);
        return;
    }
    t->fn = fn;
    t->ctx = ctx;
    __atomic_store_n(&t->done, 0, __ATOMIC_RELAXED); /* no chunk is under way; the word's store follows */
    __atomic_store_n(&t->word, piece << 48 | (uint64_t)chunks << 24, __ATOMIC_SEQ_CST); /* after fn and ctx */
    team_ring(t);
    team_work(t, 0);
    /* Acquire: what members have written in their chunks. */
    while (__atomic_load_n(&t->done, __ATOMIC_ACQUIRE) != chunks) {
        uint32_t done;

        if (!team_spun(&since)) continue;
        __atomic_store_n(&t->waiting, 1, __ATOMIC_SEQ_CST);
        done = __atomic_load_n(&t->done, __ATOMIC_SEQ_CST);
        if (done != chunks) gw_futex_wait(&t->done, done);
        __atomic_store_n(&t->waiting, 0, __ATOMIC_SEQ_CST);
    }
}

uint32_t gen_team_threads(const struct gen_team *t)
{
    return t->threads;
}

int gen_team_new(uint32_t threads, struct gen_team **out)
{
    struct gen_team *t = aligned_alloc(64, sizeof(*t));
    int err = 0;

    if (!t) return gw_error(-ENOMEM, "no memory for a team of threads");
    *t = (struct gen_team){.threads = threads, .started = 1};
    t->member = calloc(threads, sizeof(*t->member));
    if (!t->member) err = gw_error(-ENOMEM, "no memory for a team of %u threads", threads);
    for (; !err && t->started < threads; t->started += !err) {
        struct team_member *m = t->member + t->started;

        *m = (struct team_member){.team = t, .number = t->started};
        err = gw_cpu_thread_start(&m->thread, "gw-generate", 0, team_main, m);
    }
    if (err) {
        gen_team_free(t);
        return err;
    }
    *out = t;
    return 0;
}

void gen_team_free(struct gen_team *t)
{
    if (!t) return;
    __atomic_store_n(&t->quit, 1, __ATOMIC_SEQ_CST);
    team_ring(t);
    for (uint32_t i = 1; i < t->started && t->member; i++) pthread_join(t->member[i].thread, NULL);
    free(t->member);
    free(t);
}
