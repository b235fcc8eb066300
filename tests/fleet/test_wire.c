/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet's connections: both ends in one loop, and peers that do what no peer should. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/fleet/wire/clock.h"
#include "src/fleet/wire/loop.h"
#include "src/fleet/wire/proof.h"
#include "tests/rnd.h"

#define MS INT64_C(1000000)
enum { MOST = 1 << 20 };

static const uint8_t id_a[FLEET_ID] = "controller life", id_b[FLEET_ID] = "worker's life..";
static const struct fleet_conn_opts controller = {.role = FLEET_IS_CONTROLLER,
                                                  .peers = 1 << FLEET_IS_WORKER,
                                                  .fleet = "f",
                                                  .name = "",
                                                  .id = id_a,
                                                  .token = "a token that is long"};
static const struct fleet_conn_opts worker = {.role = FLEET_IS_WORKER,
                                              .peers = 1 << FLEET_IS_CONTROLLER,
                                              .fleet = "f",
                                              .name = "w1",
                                              .id = id_b,
                                              .token = "a token that is long"};

/* What one end has heard. */
struct end {
    struct fleet_conn *c;
    int opened, closed, messages, error;
    uint64_t bytes, sum;
    uint16_t kind;
    char why[FLEET_WHY];
    bool echoes, closes;
};

static struct fleet_loop *loop;
static char address[32];

static void heard_open(void *ctx, struct fleet_conn *c)
{
    struct end *e = ctx;
    e->c = c;
    e->opened++;
}

static void heard_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct end *e = ctx;
    assert_int_equal((uintptr_t)body % 8, 0);
    e->messages++;
    e->bytes += f->bytes;
    e->kind = f->kind;
    for (uint32_t i = 0; i < f->bytes; i++) e->sum += (uint64_t)((const uint8_t *)body)[i] * (i + 1);
    if (e->echoes) fleet_send(c, f->kind, f->seq, body, f->bytes, NULL, 0, NULL);
    if (e->closes) fleet_conn_close(c, -ESHUTDOWN, "enough");
}

static void heard_closed(void *ctx, struct fleet_conn *c, int error, const char *why)
{
    struct end *e = ctx;
    (void)c;
    e->closed++;
    e->error = error;
    snprintf(e->why, sizeof(e->why), "%s", why);
    e->c = NULL;
}

static const struct fleet_handler handler = {heard_open, heard_message, heard_closed};

static int make_loop(void **state)
{
    (void)state;
    return fleet_loop_create(&loop);
}

static int drop_loop(void **state)
{
    (void)state;
    fleet_loop_destroy(loop);
    return 0;
}

static void run(int ms)
{
    assert_int_equal(fleet_loop_run(loop, fleet_clock_now() + ms * MS), 0);
}

/* Runs until *n has reached `to`, for five seconds at most. */
static void run_until(const int *n, int to)
{
    for (int i = 0; *n < to && i < 5000; i++) run(1);
    assert_true(*n >= to);
}

static struct fleet_listener *listen_as(const struct fleet_conn_opts *opts, struct end *e)
{
    struct fleet_listener *s;
    assert_int_equal(fleet_listen(loop, opts, "127.0.0.1:0", &handler, e, &s), 0);
    snprintf(address, sizeof(address), "127.0.0.1:%u", fleet_listener_port(s));
    return s;
}

static void dial_as(const struct fleet_conn_opts *opts, struct end *e)
{
    assert_int_equal(fleet_dial(loop, opts, address, &handler, e, &e->c), 0);
}

static void connect_both(struct end *a, struct end *b)
{
    listen_as(&controller, a);
    dial_as(&worker, b);
    run_until(&a->opened, 1);
    run_until(&b->opened, 1);
}

/* ---- what works */

static void test_peers_meet(void **state)
{
    struct end a = {0}, b = {0};
    (void)state;
    connect_both(&a, &b);
    assert_string_equal(fleet_conn_peer(a.c)->name, "w1");
    assert_memory_equal(fleet_conn_peer(a.c)->id, id_b, FLEET_ID);
    assert_int_equal(fleet_conn_peer(b.c)->role, FLEET_IS_CONTROLLER);
    assert_string_equal(fleet_conn_text(b.c), address);
    int64_t offset, error;
    for (int i = 0; fleet_conn_clock(b.c, &offset, &error) && i < 5000; i++) run(1);
    assert_int_equal(fleet_conn_clock(b.c, &offset, &error), 0);
    assert_true(offset <= error && offset >= -error && error < 1000 * MS);
    fleet_conn_close(b.c, -ESHUTDOWN, "I go");
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -ESHUTDOWN);
    assert_string_equal(a.why, "I go");
    assert_int_equal(b.closed, 0);
}

static void test_frames_of_all_sizes_arrive(void **state)
{
    struct end a = {.echoes = true}, b = {0};
    struct rnd r = {7};
    uint64_t bytes = 0, sum = 0, used, last = 0;
    int n = 0;
    (void)state;
    connect_both(&a, &b);
    uint8_t *body = malloc(MOST);
    assert_non_null(body);
    for (; n < 400; n++) {
        uint32_t size = n % 20 == 0 ? rnd_below(&r, MOST) : rnd_below(&r, n % 5 ? 100 : 70000);
        if (n == 399) size = MOST;
        uint32_t cut = rnd_below(&r, size + 1);
        rnd_bytes(&r, body, size);
        for (uint32_t i = 0; i < size; i++) sum += (uint64_t)body[i] * (i + 1);
        bytes += size;
        assert_int_equal(fleet_send(b.c, FLEET_ACTION, 0, body, cut, body + cut, size - cut, &used), 0);
        assert_true(used > last);
        last = used;
        if (n % 10 == 0) run_until(&b.messages, n);
    }
    run_until(&b.messages, n);
    assert_int_equal(a.messages, n);
    assert_true(b.bytes == bytes && b.sum == sum && a.sum == sum);
    assert_int_equal(fleet_send(b.c, FLEET_ACTION, 0, body, SIZE_MAX, NULL, 0, NULL), -EMSGSIZE);
    free(body);
}

/* One that sends more than the other one takes is cut off. */
static void test_limit_of_a_frame(void **state)
{
    static uint8_t body[MOST + 1];
    struct end a = {0}, b = {0};
    (void)state;
    connect_both(&a, &b);
    assert_int_equal(fleet_send(b.c, FLEET_ACTION, 0, body, sizeof(body), NULL, 0, NULL), 0);
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -EMSGSIZE);
    assert_int_equal(a.messages, 0);
    run_until(&b.closed, 1);
}

static void test_close_within_a_message(void **state)
{
    struct end a = {.closes = true}, b = {0};
    (void)state;
    connect_both(&a, &b);
    for (int i = 0; i < 10; i++) assert_int_equal(fleet_send(b.c, FLEET_ACTION, 0, "x", 1, NULL, 0, NULL), 0);
    run_until(&b.closed, 1);
    assert_string_equal(b.why, "enough");
    assert_int_equal(a.messages, 1);
    assert_int_equal(a.closed, 0);
}

static void test_dial_nothing(void **state)
{
    struct end b = {0};
    struct fleet_conn *c;
    static const char *const wrong[] = {"",   "host",  "127.0.0.1:",  "127.0.0.1:x", "127.0.0.1:70000",
                                        ":1", "::1:1", "127.0.0.1:1 "};
    (void)state;
    struct fleet_listener *s = listen_as(&controller, &b);
    fleet_listener_close(s);
    dial_as(&worker, &b);
    assert_int_equal(b.closed, 0);
    run_until(&b.closed, 1);
    assert_int_equal(b.error, -ECONNREFUSED);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(fleet_dial(loop, &worker, wrong[i], &handler, &b, &c), -EINVAL);
}

/* ---- timers, calls */

struct tick {
    struct fleet_timer timer;
    int64_t at;
    int *count;
};
static int64_t last_tick;

static void tick(void *ctx)
{
    struct tick *t = ctx;
    assert_true(t->at >= last_tick);
    assert_true(fleet_loop_now(loop) >= t->at);
    last_tick = t->at;
    ++*t->count;
}

static void test_timers_fire_in_order(void **state)
{
    enum { N = 3000 };
    static struct tick t[N];
    struct rnd r = {11};
    int count = 0, cleared = 0;
    int64_t now = fleet_clock_now();
    (void)state;
    memset(t, 0, sizeof(t));
    last_tick = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < N; i++) {
            t[i].at = now + 50 * MS + rnd_below(&r, 50 * MS);
            t[i].count = &count;
            assert_int_equal(fleet_timer_set(loop, &t[i].timer, t[i].at, tick, &t[i]), 0);
        }
    for (int i = 0; i < N; i += 3, cleared++) fleet_timer_clear(loop, &t[i].timer);
    run_until(&count, N - cleared);
    assert_int_equal(count, N - cleared);
    assert_int_equal(t[1].timer.at, 0);
}

static int calls;
static void call(void *ctx)
{
    assert_int_equal((intptr_t)ctx % 1000, calls % 1000);
    calls++;
}

static void *call_often(void *ctx)
{
    for (intptr_t i = 0; i < 1000; i++)
        if (fleet_loop_call(loop, call, (void *)i)) return ctx;
    return NULL;
}

static void test_calls_of_another_thread(void **state)
{
    pthread_t thread;
    void *failed;
    (void)state;
    calls = 0;
    assert_int_equal(pthread_create(&thread, NULL, call_often, loop), 0);
    run_until(&calls, 1000);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(fleet_loop_call(loop, call, NULL), 0); /* this one never runs, and is freed */
}

/* ---- strangers */

static void refused(const struct fleet_conn_opts *as, int error, const char *says)
{
    struct end a = {0}, b = {0};
    struct fleet_listener *s = listen_as(&controller, &a);
    dial_as(as, &b);
    run_until(&a.closed, 1);
    run_until(&b.closed, 1);
    assert_int_equal(a.opened + b.opened, 0);
    assert_int_equal(a.error, error);
    assert_non_null(strstr(a.why, says));
    fleet_listener_close(s);
}

static void test_wrong_peers(void **state)
{
    struct fleet_conn_opts other = worker;
    (void)state;
    other.token = "another token, long";
    refused(&other, -EACCES, "token");
    other.token = NULL;
    refused(&other, -EACCES, "token");
    other = worker;
    other.fleet = "g";
    refused(&other, -EACCES, "another fleet");
    other = worker;
    other.role = FLEET_IS_CLIENT;
    refused(&other, -EACCES, "kind");
}

/* A listener with another token is not let in either: the dialler finds out. */
static void test_wrong_listener(void **state)
{
    struct fleet_conn_opts other = controller;
    struct end a = {0}, b = {0};
    (void)state;
    other.token = NULL;
    listen_as(&other, &a);
    dial_as(&worker, &b);
    run_until(&b.closed, 1);
    assert_int_equal(b.opened, 0);
    assert_int_equal(b.error, -EACCES);
}

static int raw_connect(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void raw_send(int fd, uint16_t kind, uint32_t claims, const void *body, size_t bytes)
{
    struct fleet_frame f = {.bytes = claims, .kind = kind, .seq = 1};
    assert_int_equal(send(fd, &f, sizeof(f), MSG_NOSIGNAL), sizeof(f));
    if (bytes) assert_int_equal(send(fd, body, bytes, MSG_NOSIGNAL), bytes);
}

/* Reads a frame of that kind; frames before it are dropped. */
static void raw_get(int fd, uint16_t kind, void *body, size_t bytes)
{
    uint8_t text[1 << 16];
    struct fleet_frame f = {0};
    for (int i = 0; f.kind != kind && i < 5000;) {
        if (recv(fd, &f, sizeof(f), MSG_PEEK) == sizeof(f) && recv(fd, &f, sizeof(f), 0) == sizeof(f))
            assert_int_equal(recv(fd, text, f.bytes, 0), f.bytes);
        else
            run(1), i++;
    }
    assert_int_equal(f.kind, kind);
    assert_int_equal(f.bytes, bytes);
    memcpy(body, text, bytes);
}

static struct fleet_hello raw_hello(uint8_t nonce)
{
    struct fleet_hello h = {
        .version = FLEET_WIRE_VERSION, .role = FLEET_IS_WORKER, .fleet = "f", .name = "w1"};
    memset(h.nonce, nonce, sizeof(h.nonce));
    return h;
}

/* Sends these bytes as the first, and is cut off with this error. */
static void cut_off(const struct fleet_hello *hello, size_t bytes, uint16_t kind, uint32_t claims, int error)
{
    struct end a = {0};
    struct fleet_listener *s = listen_as(&controller, &a);
    int fd = raw_connect();
    raw_send(fd, kind, claims, hello, bytes);
    run_until(&a.closed, 1);
    assert_int_equal(a.error, error);
    assert_int_equal(a.opened, 0);
    close(fd);
    fleet_listener_close(s);
}

static void test_wrong_hellos(void **state)
{
    struct fleet_hello h = raw_hello(1);
    uint32_t n = sizeof(h);
    (void)state;
    cut_off(&h, n, FLEET_HELLO, UINT32_MAX, -EMSGSIZE);
    cut_off(&h, n, FLEET_PROVE, n, -EPROTO);
    cut_off(&h, n, FLEET_WORKER, n, -EPROTO);
    cut_off(&h, n - 8, FLEET_HELLO, n - 8, -EPROTO);
    cut_off(&h, 0, FLEET_HELLO, 0, -EPROTO);
    h.version++;
    cut_off(&h, n, FLEET_HELLO, n, -EPROTONOSUPPORT);
    cut_off(&h, 4, FLEET_HELLO, 4, -EPROTONOSUPPORT);
    h = raw_hello(1);
    h.role = 200;
    cut_off(&h, n, FLEET_HELLO, n, -EACCES);
    h = raw_hello(1);
    memset(h.name, 'x', sizeof(h.name));
    cut_off(&h, n, FLEET_HELLO, n, -EPROTO);
    h = raw_hello(1);
    strcpy(h.name, "w\n1");
    cut_off(&h, n, FLEET_HELLO, n, -EPROTO);
    h = raw_hello(1);
    h.reserved[1] = 1;
    cut_off(&h, n, FLEET_HELLO, n, -EPROTO);
}

/* A proof that was heard once opens no second connection; our own HELLO that comes back opens none. */
static void test_replay_and_reflection(void **state)
{
    struct fleet_hello mine = raw_hello(9), theirs;
    struct fleet_proof p;
    struct end a = {0};
    (void)state;
    listen_as(&controller, &a);
    for (int i = 0; i < 2; i++) { /* the second time with the proof of the first */
        int fd = raw_connect();
        raw_send(fd, FLEET_HELLO, sizeof(mine), &mine, sizeof(mine));
        raw_get(fd, FLEET_HELLO, &theirs, sizeof(theirs));
        if (i == 0) assert_int_equal(fleet_proof_make(controller.token, true, &mine, &theirs, &p), 0);
        raw_send(fd, FLEET_PROVE, sizeof(p), &p, sizeof(p));
        run_until(i ? &a.closed : &a.opened, 1);
        close(fd);
    }
    run_until(&a.closed, 2);
    assert_int_equal(a.opened, 1);
    int fd = raw_connect();
    raw_get(fd, FLEET_HELLO, &theirs, sizeof(theirs));
    theirs.role = FLEET_IS_WORKER;
    raw_send(fd, FLEET_HELLO, sizeof(theirs), &theirs, sizeof(theirs));
    run_until(&a.closed, 3);
    assert_non_null(strstr(a.why, "sends back"));
    close(fd);
    /* The dialler's proof is not the listener's. */
    struct fleet_proof other;
    assert_int_equal(fleet_proof_make(controller.token, false, &mine, &theirs, &other), 0);
    assert_false(fleet_proof_equal(&p, &other));
}

static void test_silent_stranger(void **state)
{
    struct fleet_conn_opts hasty = controller;
    struct end a = {0};
    (void)state;
    hasty.handshake_ns = 50 * MS;
    listen_as(&hasty, &a);
    int silent = raw_connect(), half = raw_connect();
    assert_int_equal(send(half, "\0\0", 2, 0), 2);
    run_until(&a.closed, 2);
    assert_int_equal(a.error, -ETIMEDOUT);
    close(silent);
    close(half);
}

/* Makes a connection by hand that has proved itself. */
static int raw_proved(struct end *a)
{
    struct fleet_hello mine = raw_hello(3), theirs;
    struct fleet_proof p;
    int opened = a->opened, fd = raw_connect();
    raw_send(fd, FLEET_HELLO, sizeof(mine), &mine, sizeof(mine));
    raw_get(fd, FLEET_HELLO, &theirs, sizeof(theirs));
    assert_int_equal(fleet_proof_make(controller.token, true, &mine, &theirs, &p), 0);
    raw_send(fd, FLEET_PROVE, sizeof(p), &p, sizeof(p));
    run_until(&a->opened, opened + 1);
    return fd;
}

/* One that has proved itself, and then sends half a frame and no more. */
static void test_peer_becomes_silent(void **state)
{
    struct fleet_conn_opts hasty = controller;
    struct end a = {0};
    (void)state;
    hasty.silent_ns = 200 * MS;
    listen_as(&hasty, &a);
    int fd = raw_proved(&a);
    raw_send(fd, FLEET_TELEMETRY, 1000, "half", 4);
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -ETIMEDOUT);
    assert_int_equal(a.messages, 0);
    close(fd);
}

/* 4 GiB are claimed; and a frame as long as allowed takes memory only as it comes. */
static void test_long_claims(void **state)
{
    struct fleet_conn_opts wide = controller;
    struct end a = {0};
    struct rusage before, after;
    (void)state;
    wide.most = FLEET_MAX_FRAME;
    listen_as(&wide, &a);
    getrusage(RUSAGE_SELF, &before);
    int fd[50];
    for (int i = 0; i < 50; i++) {
        fd[i] = raw_proved(&a);
        raw_send(fd[i], FLEET_TELEMETRY, FLEET_MAX_FRAME, "some", 4);
    }
    run(20);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 50 * 1024);
    assert_int_equal(a.closed, 0);
    int last = raw_proved(&a);
    raw_send(last, FLEET_TELEMETRY, UINT32_MAX, NULL, 0);
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -EMSGSIZE);
    for (int i = 0; i < 50; i++) close(fd[i]);
    close(last);
}

static void test_peer_that_never_reads(void **state)
{
    static uint8_t body[100 << 10];
    struct fleet_conn_opts narrow = controller;
    struct end a = {0};
    int err = 0, n = 0;
    (void)state;
    narrow.backlog = 1 << 20;
    listen_as(&narrow, &a);
    int fd = raw_proved(&a);
    for (; !err && n < 1000; n++) {
        err = fleet_send(a.c, FLEET_ACTION, 0, body, sizeof(body), NULL, 0, NULL);
        if (n % 20 == 0) run(1);
    }
    assert_int_equal(err, -ENOBUFS);
    assert_int_equal(a.closed, 0); /* not within fleet_send */
    assert_int_equal(fleet_send(a.c, FLEET_ACTION, 0, body, 1, NULL, 0, NULL), -ENOTCONN);
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -ENOBUFS);
    close(fd);
}

static void test_odd_frames_after_the_handshake(void **state)
{
    struct fleet_hello h = raw_hello(1);
    struct fleet_goodbye bye = {.error = 77, .why = "\x1b[2Jodd"};
    struct end a = {0};
    (void)state;
    listen_as(&controller, &a);
    int fd = raw_proved(&a);
    raw_send(fd, FLEET_HELLO, sizeof(h), &h, sizeof(h));
    run_until(&a.closed, 1);
    assert_int_equal(a.error, -EPROTO);
    close(fd);
    fd = raw_proved(&a);
    raw_send(fd, FLEET_PING, 3, "abc", 3);
    run_until(&a.closed, 2);
    close(fd);
    fd = raw_proved(&a);
    raw_send(fd, FLEET_GOODBYE, sizeof(bye), &bye, sizeof(bye));
    run_until(&a.closed, 3);
    assert_int_equal(a.error, -ECONNRESET);
    assert_null(strchr(a.why, '\x1b'));
    close(fd);
}

/* The oldest strangers make room, and those that have proved themselves stay. */
static void test_strangers_take_no_place(void **state)
{
    struct fleet_conn_opts narrow = controller;
    struct end a = {0}, b = {0}, b2 = {0};
    int fd[20];
    (void)state;
    narrow.connections = 4;
    listen_as(&narrow, &a);
    dial_as(&worker, &b);
    run_until(&b.opened, 1);
    for (int i = 0; i < 20; i++) fd[i] = raw_connect();
    run_until(&a.closed, 17);
    dial_as(&worker, &b2);
    run_until(&b2.opened, 1);
    assert_int_equal(b.closed + b2.closed, 0);
    for (int i = 0; i < 20; i++) close(fd[i]);
}

static void test_2000_connections(void **state)
{
    enum { N = 2000 };
    static struct end b[N];
    struct end a = {.echoes = true};
    struct rlimit most;
    (void)state;
    memset(b, 0, sizeof(b));
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    if (most.rlim_cur < 2 * N + 100) skip();
    listen_as(&controller, &a);
    for (int i = 0; i < N; i++) dial_as(&worker, &b[i]);
    run_until(&a.opened, N);
    for (int i = 0; i < N; i++) run_until(&b[i].opened, 1);
    for (int i = 0; i < N; i++)
        assert_int_equal(fleet_send(b[i].c, FLEET_RESULT, 0, "abc", 3, NULL, 0, NULL), 0);
    for (int i = 0; i < N; i++) run_until(&b[i].messages, 1);
    for (int i = 0; i < N; i += 2) fleet_conn_close(b[i].c, 0, NULL);
    run_until(&a.closed, N / 2);
    assert_int_equal(a.closed, N / 2);
}

/* ---- clocks */

static void test_clocks(void **state)
{
    struct fleet_clock c = {0};
    int64_t offset, error;
    (void)state;
    assert_int_equal(fleet_clock_read(&c, 1000, &offset, &error), -EAGAIN);
    /* Another PONG than we asked for, a clock that runs backwards, one before zero, and one far away. */
    static const struct fleet_ping odd[] = {
        {999, 5, 5},     {1000, 6, 5}, {1000, -1, 5}, {1000, 0, 0}, {1000, INT64_MAX, INT64_MAX},
        {1000, 1, 90000}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        c.asked_at = 1000;
        fleet_clock_pong(&c, &odd[i], 2000);
    }
    assert_int_equal(fleet_clock_read(&c, 2000, &offset, &error), -EAGAIN);
    /* The best of several, then one that shows that the clock jumped. */
    for (int64_t i = 1; i <= 20; i++) {
        c.asked_at = i * MS;
        struct fleet_ping p = {i * MS, i * MS + 700000 + i * 100, i * MS + 700000 + i * 100};
        fleet_clock_pong(&c, &p, i * MS + 2000 * (i % 5 + 1));
    }
    assert_int_equal(fleet_clock_read(&c, 20 * MS, &offset, &error), 0);
    assert_true(llabs(offset - 700000) <= error + 2000 && error <= 3000);
    c.asked_at = 30 * MS;
    fleet_clock_pong(&c, &(struct fleet_ping){30 * MS, 5, 6}, 30 * MS + 10);
    assert_int_equal(fleet_clock_read(&c, 30 * MS + 10, &offset, &error), 0);
    assert_true(offset < -29 * MS);
    fleet_clock_pong(&c, &(struct fleet_ping){30 * MS, 9, 9}, 30 * MS + 20); /* once more the same */
    assert_int_equal(c.n, 1);
}

static void test_texts(void **state)
{
    static const char *const good[] = {"", "resnet50", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"};
    static const char *const bad[] = {"a\n",         "\x7f",         "\x80",         "\xc0\x80",
                                      "\xc2\x85",    "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xf0\x9f\x98"};
    char field[16];
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        strcpy(field, good[i]);
        assert_true(fleet_text_ok(field, sizeof(field)));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(field, bad[i]);
        assert_false(fleet_text_ok(field, sizeof(field)));
    }
    memset(field, 'x', sizeof(field));
    assert_false(fleet_text_ok(field, sizeof(field)));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_loop, drop_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_peers_meet),
        TEST(test_frames_of_all_sizes_arrive),
        TEST(test_limit_of_a_frame),
        TEST(test_close_within_a_message),
        TEST(test_dial_nothing),
        TEST(test_timers_fire_in_order),
        TEST(test_calls_of_another_thread),
        TEST(test_wrong_peers),
        TEST(test_wrong_listener),
        TEST(test_wrong_hellos),
        TEST(test_replay_and_reflection),
        TEST(test_silent_stranger),
        TEST(test_peer_becomes_silent),
        TEST(test_long_claims),
        TEST(test_peer_that_never_reads),
        TEST(test_odd_frames_after_the_handshake),
        TEST(test_strangers_take_no_place),
        TEST(test_2000_connections),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
