/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No wake-up is lost between kernels and the proxy: test_socket_proxy_wakes [ROUNDS]. Each thread pauses for
 * a random time before its next step. So it comes while the proxy is about to sleep, asleep, or awake. A call
 * whose ring the proxy misses ends at its deadline, with an error. `taskset -c 0` beside other work is the
 * hard case. And one ring comes where chance seldom brings it: between the helper's last look, which finds
 * nothing, and the announcement of its sleep.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tests/socket/proxy_rig.h"

#define PAIRS  3
#define RING   4096
#define MOST   12000 /* more than both rings: the sender waits for room, and the proxy too */
#define ROUNDS 400

static uint32_t rounds = ROUNDS;

struct pair {
    pthread_t ours, theirs;
    uint64_t seed, there; /* of each side */
    int s, fd;
    const char *wrong;
};

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* Not at all, by looking at the clock, or asleep: up to about twice as long as the proxy needs to fall
 * asleep. */
static void dawdle(uint64_t *seed)
{
    uint32_t how = draw(seed, 4);
    uint64_t until = gw_clock_ns() + draw(seed, 60000);

    while (how == 1 && gw_clock_ns() < until) continue;
    if (how == 2) usleep(draw(seed, 200));
    if (how == 3) sched_yield();
}

/* The host's side: says what it hears. */
static void *echo(void *arg)
{
    struct pair *p = arg;
    static _Thread_local char b[MOST];
    ssize_t n;

    while ((n = recv(p->fd, b, sizeof(b), 0)) > 0) {
        dawdle(&p->there);
        for (ssize_t at = 0, went; at < n; at += went) {
            went = send(p->fd, b + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (went <= 0) return NULL;
        }
    }
    return NULL;
}

/* A connection that is made, refused or accepted by the way: questions to the helper. */
static const char *ask(uint64_t *seed)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());
    struct sockaddr_in at = loopback(1);

    if (s < 0) return "open";
    dawdle(seed);
    if (gw_sock_connect_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()) != -ECONNREFUSED)
        return "connect";
    return gw_sock_close_thread(net, s, soon()) ? "close" : NULL;
}

/* n bytes there and back; more than fits into what lies between goes in pieces. */
static const char *there_and_back(struct pair *p, char *b, char *back, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) b[i] = (char)draw(&p->seed, 256);
    if (send_ours(p->s, b, n) != n) return "send";
    dawdle(&p->seed);
    if (gw_sock_recv_thread(net, p->s, back, n, MSG_WAITALL, soon()) != n) return "recv";
    return memcmp(b, back, n) ? "bytes" : NULL;
}

static void *play(void *arg)
{
    struct pair *p = arg;
    static _Thread_local char b[MOST], back[MOST];

    for (uint32_t i = 0; i < rounds && !p->wrong; i++) {
        dawdle(&p->seed);
        if (draw(&p->seed, 8) == 0)
            p->wrong = ask(&p->seed);
        else
            p->wrong = there_and_back(p, b, back, 1 + draw(&p->seed, draw(&p->seed, 2) ? MOST : 64));
    }
    return NULL;
}

static void play_all(int pairs)
{
    struct pair pair[PAIRS] = {0};

    make_set(3 * PAIRS, RING);
    for (int i = 0; i < pairs; i++) {
        pair[i].seed = (uint64_t)i + 1;
        pair[i].there = ~pair[i].seed;
        pair[i].s = join(&pair[i].fd);
        assert_int_equal(pthread_create(&pair[i].theirs, NULL, echo, &pair[i]), 0);
    }
    for (int i = 0; i < pairs; i++) assert_int_equal(pthread_create(&pair[i].ours, NULL, play, &pair[i]), 0);
    for (int i = 0; i < pairs; i++) {
        pthread_join(pair[i].ours, NULL);
        shutdown(pair[i].fd, SHUT_RDWR);
        pthread_join(pair[i].theirs, NULL);
        if (pair[i].wrong) fail_msg("pair %d: %s", i, pair[i].wrong);
        close_ours(pair[i].s);
        close(pair[i].fd);
    }
    assert_int_equal(gw_sockets_open(set), 0);
    assert_int_equal(gw_sockets_destroy(set), 0);
}

/* Alone: no other call wakes the proxy by chance after a lost ring. */
static void test_one(void **state)
{
    (void)state;
    play_all(1);
}

static void test_some(void **state)
{
    (void)state;
    play_all(PAIRS);
}

/* ---- between the last look and the sleep --------------------------------------------------------------- */

#define BETWEEN 400 /* rounds, in each of which one of CALLS looks at the clock has a ring beside it */
#define CALLS   16
#define LEAP_NS 100000u

/* What is sent on the helper's own thread when it has looked at the clock N times more. */
static struct {
    int s;
    uint32_t on;
    uint32_t in, sent; /* in: 0: nothing is */
} between;

static bool is_helper(void)
{
    char name[16] = "";

    prctl(PR_GET_NAME, name);
    return !strcmp(name, "gw-sockets");
}

static void ring_between(void)
{
    uint32_t in = gw_ld_acquire_u32(&between.in);

    if (!in) return;
    gw_st_relaxed_u32(&between.in, in - 1); /* at 1 before it sends, which looks at the clock, too */
    if (in == 1 && gw_sock_send_thread(net, between.s, "!", 1, MSG_DONTWAIT, 0) == 1)
        gw_st_release_u32(&between.sent, 1);
}

/* The helper takes the time after its last look, which finds nothing, before it announces that it sleeps. For
 * it the time leaps, so that it does not look on before, however short its sleeps are. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    static uint64_t leapt; /* the helper's */
    int (*get)(clockid_t, struct timespec *) = __atomic_load_n(&real, __ATOMIC_RELAXED);
    uint64_t ns;
    void *f;
    int rc;

    if (!get) {
        f = dlsym(RTLD_NEXT, "clock_gettime");
        if (!f) abort();
        memcpy(&get, &f, sizeof(get));
        __atomic_store_n(&real, get, __ATOMIC_RELAXED);
    }
    if (!gw_ld_acquire_u32(&between.on) || !is_helper()) return get(id, t);
    ring_between();
    rc = get(id, t);
    ns = (uint64_t)t->tv_nsec + (leapt += LEAP_NS);
    t->tv_sec += (time_t)(ns / SECOND);
    t->tv_nsec = (long)(ns % SECOND);
    return rc;
}

/* Whether n bytes have come, by the time that everything ends. */
static bool hear(int fd, uint32_t n)
{
    char b[16];
    ssize_t got = 1;

    for (; n && got > 0; n -= (uint32_t)got) got = recv(fd, b, n < sizeof(b) ? n : sizeof(b), 0);
    return !n;
}

static void test_between(void **state)
{
    const struct timeval limit = {.tv_sec = 60};
    uint64_t seed = 1;
    uint32_t rings = 0;
    int fd;

    (void)state;
    make_set(4, RING);
    between.s = join(&fd);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    gw_st_release_u32(&between.on, 1);
    for (uint32_t i = 0; i < BETWEEN; i++) {
        gw_st_relaxed_u32(&between.sent, 0);
        gw_st_release_u32(&between.in, 1 + draw(&seed, CALLS));
        assert_int_equal(send_ours(between.s, "?", 1), 1);
        if (!hear(fd, 1)) fail_msg("round %u: one of two rings", i);
        usleep(300); /* until it sleeps, as a rule */
        gw_st_release_u32(&between.in, 0);
        if (!gw_ld_acquire_u32(&between.sent)) continue;
        if (!hear(fd, 1)) fail_msg("round %u: one of two rings", i);
        rings++;
    }
    assert_true(rings > 0);
    close_ours(between.s);
    close(fd);
    assert_int_equal(gw_sockets_destroy(set), 0);
    gw_st_release_u32(&between.on, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_between), cmocka_unit_test(test_one),
                                       cmocka_unit_test(test_some)};

    if (argc > 1) rounds = (uint32_t)atoi(argv[1]);
    return proxy_tests("wakes", tests, 3);
}
