/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a fleet writes its requests into a worker's slots, and goes over TCP where it cannot. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "src/server/wire/wire.h"
#include "tests/fleet/client/asker.h"
#include "tests/fleet/client/fake_rdma.h"

#define PATIENT (10000 * MS)

static struct fake f;
static struct fleet_client *c;
static struct fleet_client_model *m;

static int begin(void **state)
{
    (void)state;
    fake_begin(&f);
    fake_rdma_status = fake_rdma_lie = 0;
    fake_rdma_served = fake_rdma_bad = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    fleet_client_close(c);
    c = NULL;
    fake_end(&f);
    fake_rdma_end();
    return 0;
}

static uint64_t written(void)
{
    struct fleet_client_stats s;
    fleet_client_stats(c, &s);
    return s.written;
}

/* Asks until a request has gone over RDMA. */
static void open_client(void)
{
    const struct fleet_client_opts opts = {.controllers = f.controller[0].address, .rdma = 1};
    struct asked a;
    assert_int_equal(fleet_client_open(&opts, &c), 0);
    assert_int_equal(fleet_client_model(c, "resnet", 0, &m), 0);
    for (int64_t until = asker_now() + PATIENT; !written() && asker_now() < until; asker_sleep(10 * MS))
        assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    assert_true(written() > 0);
}

static void test_writes(void **state)
{
    static struct asked a[200];
    (void)state;
    fake_grant(&f, 0, 64, 1e6f)->reply_bytes = 256;
    f.worker[0].open = fake_rdma_open;
    open_client();
    unsigned before = fake_rdma_served;
    for (int i = 0; i < 200; i++) assert_int_equal(asker_ask(m, PATIENT, &a[i]), 0);
    assert_int_equal(fake_rdma_served - before, 200);
    assert_int_equal(a[0].reply.model_ns, 3000);
    /* More than the session has slots: the rest goes over TCP. */
    for (int i = 0; i < 200; i++) assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
    for (int i = 0; i < 200; i++) assert_int_equal(asker_wait(&a[i]), 0);
    assert_int_equal(fake_rdma_bad, 0);
    fake_rdma_status = GW_SERVE_NOT_THERE;
    assert_int_equal(asker_ask(m, PATIENT, &a[0]), -EAGAIN);
    assert_int_equal(a[0].reply.retry_ns, 5 * MS);
}

/* A worker that refuses sessions, or says that it has them and does not answer. */
static void test_without(void **state)
{
    struct asked a;
    const struct fleet_client_opts opts = {.controllers = f.controller[0].address, .rdma = 1};
    (void)state;
    fake_grant(&f, 0, 64, 1e6f)->reply_bytes = 256;
    assert_int_equal(fleet_client_open(&opts, &c), 0);
    assert_int_equal(fleet_client_model(c, "resnet", 0, &m), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(asker_ask(m, PATIENT, &a), 0);
        asker_sleep(5 * MS);
    }
    assert_int_equal(written(), 0);
}

/* The worker dies while requests lie in its slots: they go to another one. */
static void test_dies(void **state)
{
    struct asked a[8];
    (void)state;
    fake_grant(&f, 0, 64, 1e6f)->reply_bytes = 256;
    f.worker[0].open = fake_rdma_open;
    open_client();
    fake_rdma_lie = FAKE_MUTE;
    unsigned before = fake_rdma_served;
    for (int i = 0; i < 8; i++) assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
    while (fake_rdma_served < before + 8) asker_sleep(MS);
    fake_grant(&f, 1, 64, 1e6f);
    fake_kill(&f, 0);
    for (int i = 0; i < 8; i++) assert_int_equal(asker_wait(&a[i]), 0);
    assert_string_equal(a[0].reply.worker, "worker1");
}

/* Answers to other requests, in slots that do not exist, and longer than a slot: the session ends. */
static void test_lies(void **state)
{
    struct asked a;
    static const int lies[] = {FAKE_OTHER_ID, FAKE_SHORT, FAKE_ODD_KIND};
    (void)state;
    fake_grant(&f, 0, 64, 1e6f)->reply_bytes = 256;
    f.worker[0].open = fake_rdma_open;
    for (int i = 0; i < 3; i++) {
        fake_rdma_lie = FAKE_HONEST;
        open_client();
        fake_rdma_lie = lies[i];
        uint64_t before = written();
        assert_int_equal(asker_ask(m, PATIENT, &a), 0); /* over TCP, in the end */
        assert_int_equal(written(), before + 1);
        assert_int_equal(asker_ask(m, PATIENT, &a), 0);
        assert_int_equal(written(), before + 1);
        fleet_client_close(c);
    }
    c = NULL;
}

static void test_closes_in_flight(void **state)
{
    struct asked a[8];
    (void)state;
    fake_grant(&f, 0, 64, 1e6f)->reply_bytes = 256;
    f.worker[0].open = fake_rdma_open;
    open_client();
    fake_rdma_lie = FAKE_MUTE;
    for (int i = 0; i < 8; i++) assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
    fleet_client_close(c);
    c = NULL;
    for (int i = 0; i < 8; i++) assert_int_equal(asker_wait(&a[i]), -ECANCELED);
}

int main(int argc, char **argv)
{
#define RDMA_TEST(t) cmocka_unit_test_setup_teardown(t, begin, end)
    const struct CMUnitTest tests[] = {RDMA_TEST(test_writes), RDMA_TEST(test_without), RDMA_TEST(test_dies),
                                       RDMA_TEST(test_lies), RDMA_TEST(test_closes_in_flight)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
