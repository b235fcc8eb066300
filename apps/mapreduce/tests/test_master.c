/* SPDX-License-Identifier: Apache-2.0 */
/* The master, and what comes to its port: strangers, ranks that lie, and the right one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../input.h"
#include "../master.h"
#include "../wire.h"

static const struct mr_job job = {
    .size = sizeof(job), .job = "test", .what = "a test", .input = MR_WORDS, .key = 8, .value = 8};
static const uint8_t cookie[16] = "fifteen letters";

struct master_side {
    char path[64];
    char *input[1];
    struct master_opts opts;
    struct master_result result;
    struct sockaddr_in address;
    int listener, exit_code;
    pthread_t thread;
};

static void *master_thread(void *arg)
{
    struct master_side *t = (struct master_side *)arg;

    t->exit_code = master_run(&t->opts, t->listener, cookie, sizeof(cookie), &t->result);
    return NULL;
}

static void master_start(struct master_side *t, uint32_t ranks)
{
    socklen_t n = sizeof(t->address);
    int fd;

    memset(t, 0, sizeof(*t));
    snprintf(t->path, sizeof(t->path), "/tmp/test_master.XXXXXX");
    fd = mkstemp(t->path);
    assert_int_equal(write(fd, "some words\n", 11), 11);
    close(fd);
    t->input[0] = t->path;
    t->opts =
        (struct master_opts){.job = &job, .input = t->input, .inputs = 1, .ranks = ranks, .interrupt_fd = -1};
    t->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    t->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(t->listener, (struct sockaddr *)&t->address, sizeof(t->address)), 0);
    assert_int_equal(listen(t->listener, 200), 0);
    assert_int_equal(getsockname(t->listener, (struct sockaddr *)&t->address, &n), 0);
    assert_int_equal(pthread_create(&t->thread, NULL, master_thread, t), 0);
}

static int master_end(struct master_side *t)
{
    pthread_join(t->thread, NULL);
    unlink(t->path);
    return t->exit_code;
}

static int dial(const struct master_side *t)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&t->address, sizeof(t->address)), 0);
    return fd;
}

static void hello(struct wire *w, const struct master_side *t, const void *word, uint32_t rank)
{
    struct pack p = {0};

    wire_open(w, dial(t), UINT32_MAX);
    pack_bytes(&p, word, sizeof(cookie));
    pack_u32(&p, rank);
    pack_u32(&p, 1);
    assert_int_equal(wire_send(w, WIRE_HELLO, &p), 0);
}

/* Waits for the master's next message. 0: it has closed the connection. */
static uint32_t hear(struct wire *w, struct unpack *u)
{
    uint32_t type;

    while (!wire_next(w, &type, u)) {
        if (wire_read(w)) return 0;
        usleep(1000);
    }
    return type;
}

static void fail_job(struct wire *w)
{
    struct pack p = {0};

    pack_u32(&p, 1);
    pack_bytes(&p, "the test ends here", 18);
    assert_int_equal(wire_send(w, WIRE_FAIL, &p), 0);
}

/* Takes what the master says until it ends the job. */
static void quit_heard(struct wire *w)
{
    struct unpack u;
    uint32_t type;

    do type = hear(w, &u);
    while (type && type != WIRE_QUIT);
    assert_int_equal(type, WIRE_QUIT);
    wire_close(w);
}

/* Strangers are turned away, whatever they say, and the right rank is served. */
static void strangers(void **state)
{
    static const char wrong[16] = "another cookie.";
    struct master_side t;
    struct wire right, bad;
    struct unpack u;
    int silent[100];

    (void)state;
    master_start(&t, 1);
    for (int i = 0; i < 100; i++) silent[i] = dial(&t);
    for (int i = 0; i < 50; i++) (void)!send(silent[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
    hello(&bad, &t, wrong, 0);
    assert_int_equal(hear(&bad, &u), 0);
    wire_close(&bad);
    hello(&bad, &t, cookie, 7); /* there is no such rank */
    assert_int_equal(hear(&bad, &u), 0);
    wire_close(&bad);
    hello(&right, &t, cookie, 0);
    assert_int_equal(hear(&right, &u), WIRE_JOB);
    fail_job(&right);
    quit_heard(&right);
    assert_int_equal(master_end(&t), 1);
    assert_string_equal(t.result.why, "the test ends here");
    for (int i = 0; i < 100; i++) close(silent[i]);
}

/* Two processes that say they are the same rank: the second one is a stranger. */
static void same_rank(void **state)
{
    struct wire first, second, other;
    struct master_side t;
    struct unpack u;

    (void)state;
    master_start(&t, 2);
    hello(&first, &t, cookie, 1);
    usleep(50000);
    hello(&second, &t, cookie, 1);
    assert_int_equal(hear(&second, &u), 0);
    wire_close(&second);
    hello(&other, &t, cookie, 0);
    fail_job(&other);
    quit_heard(&first);
    quit_heard(&other);
    assert_int_equal(master_end(&t), 1);
}

/* A rank that sends what makes no sense counts as dead, and the other goes on. */
static void nonsense(void **state)
{
    static const uint32_t types[] = {0,         99,        WIRE_TASK,    WIRE_QUIT,
                                     WIRE_ENDS, WIRE_PART, WIRE_SAMPLES, WIRE_DONE};

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct wire good, bad;
        struct master_side t;
        struct pack p = {0};
        struct unpack u;

        master_start(&t, 2);
        hello(&good, &t, cookie, 0);
        hello(&bad, &t, cookie, 1);
        assert_int_equal(hear(&bad, &u), WIRE_JOB);
        assert_int_equal(hear(&bad, &u), WIRE_EPOCH);
        pack_u32(&p, 1); /* the epoch, and nothing that must follow */
        assert_int_equal(wire_send(&bad, types[i], &p), 0);
        assert_int_equal(hear(&bad, &u), 0);
        wire_close(&bad);
        assert_int_equal(hear(&good, &u), WIRE_JOB);
        assert_int_equal(hear(&good, &u), WIRE_EPOCH);
        assert_int_equal(hear(&good, &u), WIRE_EPOCH); /* without the other */
        assert_int_equal(unpack_u32(&u), 2);
        assert_int_equal(unpack_u32(&u), 1);
        fail_job(&good);
        quit_heard(&good);
        assert_int_equal(master_end(&t), 1);
        assert_int_equal(t.result.deaths, 1);
    }
}

/* Ranks that go without a word. */
static void all_gone(void **state)
{
    struct wire a, b;
    struct master_side t;

    (void)state;
    master_start(&t, 2);
    hello(&a, &t, cookie, 0);
    hello(&b, &t, cookie, 1);
    wire_close(&a);
    wire_close(&b);
    assert_int_equal(master_end(&t), 1);
    assert_string_equal(t.result.why, "no rank is left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers),
        cmocka_unit_test(same_rank),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(all_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
