/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a fleet, against controllers and workers that help, die, are silent, and lie. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/fleet/client/admit.h"
#include "src/fleet/client/bucket.h"
#include "src/server/wire/wire.h"
#include "tests/fleet/client/asker.h"
#include "tests/fleet/client/fake.h"

#define PATIENT (5000 * MS) /* a deadline that is far away on a busy machine, too */

static struct fake f;
static struct fleet_client *c;
static struct fleet_client_model *m;

static void open_client(const char *controllers)
{
    const struct fleet_client_opts opts = {
        .controllers = controllers, .name = "test", .patience_ns = PATIENT};
    assert_int_equal(fleet_client_open(&opts, &c), 0);
    assert_int_equal(fleet_client_model(c, "resnet", 0, &m), 0);
}

static int begin(void **state)
{
    (void)state;
    fake_begin(&f);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fleet_client_close(c);
    c = NULL;
    fake_end(&f);
    return 0;
}

/* ---- what should happen ---- */

static void test_answers(void **state)
{
    struct asked a;
    struct fleet_client_stats s;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    open_client(f.controller[0].address);
    for (int i = 0; i < 100; i++) assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    assert_string_equal(a.reply.worker, "worker0");
    assert_int_equal(a.reply.model_ns, 3000);
    assert_true(f.worker[0].budget_ns > 0 && f.worker[0].budget_ns <= PATIENT);
    fleet_client_stats(c, &s);
    assert_int_equal(s.answered, 100);
    assert_int_equal(s.flying + s.waiting, 0);
    assert_int_equal(s.leases, 1);
    assert_int_equal(f.worker[0].strangers, 0);
    assert_int_equal(asker_ask(m, 0, &a), 0); /* without a deadline */
    assert_int_equal(f.worker[0].budget_ns, 0);
}

static void test_waits_for_a_lease(void **state)
{
    struct asked a, b;
    (void)state;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, 300 * MS, &b), -EAGAIN);
    assert_int_equal(asker_send(m, PATIENT, &a), 0);
    asker_sleep(20 * MS);
    assert_int_equal(a.times, 0);
    fake_grant(&f, 0, 8, 1e6f);
    assert_int_equal(asker_wait(&a), 0);
    assert_true(f.controller[0].demands >= 2);
}

static void test_no_model(void **state)
{
    struct asked a;
    (void)state;
    f.controller[0].mood = FAKE_NO_MODEL;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), -ENOENT);
    f.controller[0].mood = FAKE_LEADS; /* it is there now */
    fake_grant(&f, 0, 8, 1e6f);
    int err;
    for (int64_t until = asker_now() + PATIENT; (err = asker_ask(m, PATIENT, &a)) && asker_now() < until;)
        asker_sleep(20 * MS);
    assert_int_equal(err, 0);
}

static void test_describes(void **state)
{
    struct asked a;
    (void)state;
    asker_prepare(&a);
    fake_grant(&f, 0, 8, 1e6f);
    open_client(f.controller[0].address);
    f.worker[0].lie = FAKE_UNDESCRIBED;
    assert_int_equal(fleet_client_describe(m, 0, asker_done, &a), 0);
    assert_int_equal(asker_wait(&a), -ENOENT);
    f.worker[0].lie = FAKE_HONEST;
    for (int i = 0; i < 2; i++) {
        asker_prepare(&a);
        assert_int_equal(fleet_client_describe(m, 0, asker_done, &a), 0);
        while (!a.times) asker_sleep(MS);
        assert_int_equal(a.reply.error, 0);
        assert_memory_equal(a.data, "{\"inputs\"", 9);
    }
}

/* Both leases get work, and their numbers and keys are never mixed. */
static void test_spreads(void **state)
{
    struct asked a[200];
    (void)state;
    fake_grant(&f, 0, 64, 1e6f);
    fake_grant(&f, 1, 64, 1e6f);
    fake_grant(&f, 2, 64, 1e6f)->spill = 1;
    open_client(f.controller[0].address);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
        if (i % 20 == 19) asker_sleep(MS); /* or its connection is not open yet, and the other takes all */
        if (i == 19) asker_sleep(200 * MS);
    }
    for (int i = 0; i < 200; i++) assert_int_equal(asker_wait(&a[i]), 0);
    assert_true(f.worker[0].requests > 20 && f.worker[1].requests > 20);
    for (int i = 0; i < 3; i++) assert_int_equal(f.worker[i].strangers, 0);
}

/* ---- controllers ---- */

static void test_elsewhere(void **state)
{
    struct asked a;
    char both[200];
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    f.controller[0].mood = FAKE_ELSEWHERE; /* names one that leads */
    strcpy(f.controller[0].elsewhere, f.controller[1].address);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    assert_true(f.controller[1].demands > 0);
    fleet_client_close(c);
    f.controller[1].mood = FAKE_ELSEWHERE; /* the two name each other; the third leads */
    strcpy(f.controller[1].elsewhere, f.controller[0].address);
    snprintf(both, sizeof both, "%s,%s", f.controller[0].address, f.controller[2].address);
    open_client(both);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    fleet_client_close(c);
    strcpy(f.controller[0].elsewhere, "nowhere, 1:1:1:1"); /* odd words */
    open_client(both);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
}

/* One that does not greet, and one that greets and is then silent: requests wait until a third leads. */
static void test_silent_controllers(void **state)
{
    struct asked a;
    char all[300];
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    f.controller[0].mood = FAKE_DUMB;
    f.controller[1].mood = FAKE_SILENT;
    snprintf(all, sizeof all, "%s,%s,%s", f.controller[0].address, f.controller[1].address,
             f.controller[2].address);
    open_client(all);
    assert_int_equal(asker_ask(m, 15000 * MS, &a), 0);
    assert_true(f.controller[0].greeted && f.controller[1].greeted && f.controller[2].demands);
}

/* The controller says no more: leases are good until they end, and not a moment longer. */
static void test_lease_ends(void **state)
{
    struct asked a;
    struct fleet_client_stats s;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f)->left_ns = 600 * MS;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    f.controller[0].mood = FAKE_SILENT;
    asker_sleep(1300 * MS); /* the last renewal may be 0.1 s old; this is more than the lease */
    fleet_client_stats(c, &s);
    assert_int_equal(s.leases, 0);
    unsigned before = f.worker[0].requests;
    assert_int_equal(asker_ask(m, 100 * MS, &a), -EAGAIN);
    assert_int_equal(f.worker[0].requests, before);
    f.controller[0].mood = FAKE_LEADS;
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
}

static void test_revoked_and_shed(void **state)
{
    struct asked a;
    struct fleet_revoked r = {0};
    struct fleet_sheds s = {.model = "resnet", .deadline_ns = 20 * MS};
    struct fleet_client_stats t;
    (void)state;
    r.lease = fake_grant(&f, 0, 8, 1e6f)->number;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    fake_tell(&f, FLEET_SHEDS, &s, sizeof s);
    asker_sleep(50 * MS);
    assert_int_equal(asker_ask(m, 20 * MS, &a), -EAGAIN); /* this class is shed, and no other */
    assert_true(a.reply.retry_ns > 0);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    f.controller[0].mood = FAKE_SILENT;
    asker_sleep(20 * MS);
    memcpy(r.worker_id, f.worker[0].id, FLEET_ID);
    fake_tell(&f, FLEET_REVOKED, &r, sizeof r);
    asker_sleep(20 * MS);
    fleet_client_stats(c, &t);
    assert_int_equal(t.shed, 1);
    assert_int_equal(t.leases, 0);
    assert_int_equal(t.revoked, 1);
    fake_tell(&f, FLEET_REVOKED, &r, sizeof r); /* again, and a short one */
    fake_tell(&f, FLEET_REVOKED, &r, 4);
    f.controller[0].mood = FAKE_LEADS;
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
}

/* Grants with odd texts, rates, ends and sizes, between good ones. */
static void test_babble(void **state)
{
    struct asked a;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    f.controller[0].mood = FAKE_BABBLES;
    open_client(f.controller[0].address);
    for (int i = 0; i < 30; i++) asker_ask(m, 40 * MS, &a);
    f.controller[0].mood = FAKE_LEADS;
    int err = -1;
    for (int i = 0; i < 100 && err; i++) err = asker_ask(m, 100 * MS, &a);
    assert_int_equal(err, 0);
}

/* ---- refusals ---- */

static void test_tries_elsewhere(void **state)
{
    struct asked a;
    struct fleet_client_stats s;
    static const int refusal[] = {GW_SERVE_NOT_THERE, GW_SERVE_OVER_BUDGET, GW_SERVE_LATE, GW_SERVE_CLOSING,
                                  GW_SERVE_NO_LEASE};
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    fake_grant(&f, 1, 8, 1e6f)->spill = 1;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    asker_sleep(200 * MS); /* both connections are open */
    for (int i = 0; i < 5; i++) {
        f.worker[0].status = refusal[i];
        assert_int_equal(asker_ask(m, PATIENT, &a), 0);
        asker_sleep(120 * MS); /* until worker 0 is asked again */
    }
    assert_true(f.worker[1].requests >= 4);
    fleet_client_stats(c, &s);
    assert_true(s.retried >= 4);
    f.worker[0].status = f.worker[1].status = GW_SERVE_NOT_THERE;
    f.worker[0].retry_ns = f.worker[1].retry_ns = 7 * MS;
    assert_int_equal(asker_ask(m, PATIENT, &a), -EAGAIN);
    assert_int_equal(a.reply.retry_ns, 7 * MS);
    assert_int_equal(a.reply.tries, 2);
    f.worker[0].status = f.worker[1].status = GW_SERVE_FAILED;
    assert_int_equal(asker_ask(m, PATIENT, &a), -EREMOTEIO);
}

/* The only worker is over its budget for a moment, as when a lease becomes smaller: the request waits. */
static void over_budget_ends(struct fake *fake, void *arg)
{
    (void)arg;
    fake->worker[0].status = GW_SERVE_OK;
}

static void test_waits_for_budget(void **state)
{
    struct asked a;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    f.worker[0].status = GW_SERVE_OVER_BUDGET;
    f.worker[0].retry_ns = 300 * MS;
    assert_int_equal(asker_send(m, PATIENT, &a), 0);
    while (f.worker[0].requests < 2) asker_sleep(MS);
    fake_do(&f, over_budget_ends, NULL);
    assert_int_equal(asker_wait(&a), 0);
    assert_int_equal(a.reply.tries, 2);
}

/* 40 a second with bursts of 7: what a client sends stays below. */
static void test_keeps_its_budget(void **state)
{
    static struct asked a[200];
    (void)state;
    fake_grant(&f, 0, 8, 40);
    open_client(f.controller[0].address);
    int64_t from = asker_now();
    for (int i = 0; i < 200; i++) assert_int_equal(asker_send(m, 500 * MS, &a[i]), 0);
    int good = 0, late = 0;
    for (int i = 0; i < 200; i++) {
        int err = asker_wait(&a[i]);
        assert_true(err == 0 || err == -EAGAIN || err == -ETIME);
        good += !err;
        late += err == -ETIME;
    }
    double most = 7 + 40 * (double)(asker_now() - from) / 1e9 + 1;
    assert_true(f.worker[0].requests <= most);
    assert_true(good >= 7 && good + late <= (int)f.worker[0].requests);
}

/* ---- workers that die and lie ---- */

static void test_worker_dies(void **state)
{
    struct asked a[20];
    (void)state;
    fake_grant(&f, 0, 64, 1e6f);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a[0]), 0);
    f.worker[0].lie = FAKE_MUTE;
    for (int i = 0; i < 20; i++) assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
    while (f.worker[0].requests < 21) asker_sleep(MS);
    fake_grant(&f, 1, 64, 1e6f);
    fake_kill(&f, 0);
    for (int i = 0; i < 20; i++) assert_int_equal(asker_wait(&a[i]), 0); /* by the other worker */
    f.worker[1].lie = FAKE_MUTE;
    assert_int_equal(asker_ask(m, 100 * MS, &a[0]), -ETIME);
    assert_int_equal(asker_send(m, 300 * MS, &a[0]), 0);
    asker_sleep(50 * MS);
    fake_kill(&f, 1);
    int err = asker_wait(&a[0]); /* none is left: it ends by its deadline, with a reason */
    assert_true(err == -EAGAIN || err == -ECONNRESET);
    assert_true(a[0].why[0]);
    assert_true(a[0].reply.seen_at - a[0].reply.begun_at < 2000 * MS);
}

static void test_worker_lies(void **state)
{
    struct asked a;
    static const int lies[] = {FAKE_OTHER_ID, FAKE_SHORT, FAKE_ODD_KIND, FAKE_CUT};
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    fake_grant(&f, 1, 8, 1e6f)->spill = 1;
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    asker_sleep(200 * MS);
    for (int i = 0; i < 4; i++) {
        f.worker[0].lie = lies[i];
        assert_int_equal(asker_ask(m, PATIENT, &a), 0); /* the other worker's */
        f.worker[0].lie = FAKE_HONEST;
        for (int k = 0; k < 200 && strcmp(a.reply.worker, "worker0"); k++) {
            asker_sleep(20 * MS);
            assert_int_equal(asker_ask(m, PATIENT, &a), 0);
        }
        assert_string_equal(a.reply.worker, "worker0"); /* it was dialled again */
    }
    f.worker[0].lie = FAKE_ODD_STATUS;
    assert_int_equal(asker_ask(m, PATIENT, &a), -EPROTO);
    f.worker[0].lie = FAKE_TWICE;
    for (int i = 0; i < 5; i++) assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    assert_int_equal(a.times, 1);
}

/* A request that ends each connection that it comes on gets no more than three of them. */
static void test_poison(void **state)
{
    struct asked a;
    static uint8_t long_one[4096];
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    fake_grant(&f, 1, 8, 1e6f);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a), 0);
    f.worker[0].lie = f.worker[1].lie = FAKE_CUT;
    unsigned before = f.worker[0].requests + f.worker[1].requests;
    assert_int_equal(asker_ask(m, PATIENT, &a), -ECONNRESET);
    assert_int_equal(a.reply.tries, 3);
    assert_int_equal(f.worker[0].requests + f.worker[1].requests, before + 3);
    /* One that is longer than the model's inputs is not sent at all. */
    asker_prepare(&a);
    struct fleet_client_request r = {.in = long_one, .bytes = sizeof long_one, .done = asker_done, .ctx = &a};
    assert_int_equal(fleet_client_submit(m, &r), 0);
    assert_int_equal(asker_wait(&a), -EINVAL);
    assert_int_equal(f.worker[0].requests + f.worker[1].requests, before + 3);
}

/* A worker that takes all and answers nothing gets no more than its slots, and other requests go on. */
static void test_mute_worker(void **state)
{
    struct asked a[64];
    int good = 0;
    (void)state;
    fake_grant(&f, 0, 4, 1e6f);
    fake_grant(&f, 1, 64, 1e6f);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a[0]), 0);
    asker_sleep(200 * MS);
    f.worker[0].lie = FAKE_MUTE;
    unsigned before = f.worker[0].requests;
    for (int i = 0; i < 64; i++) {
        assert_int_equal(asker_send(m, 400 * MS, &a[i]), 0);
        asker_sleep(MS);
    }
    for (int i = 0; i < 64; i++) good += asker_wait(&a[i]) == 0;
    assert_true(good >= 60);
    assert_true(f.worker[0].requests - before <= 4);
}

/* ---- the end ---- */

static void test_closes_in_flight(void **state)
{
    struct asked a[10];
    (void)state;
    fake_grant(&f, 0, 4, 1e6f);
    open_client(f.controller[0].address);
    assert_int_equal(asker_ask(m, PATIENT, &a[0]), 0);
    f.worker[0].lie = FAKE_MUTE;
    for (int i = 0; i < 10; i++) assert_int_equal(asker_send(m, PATIENT, &a[i]), 0);
    while (f.worker[0].requests < 5) asker_sleep(MS);
    fleet_client_close(c);
    c = NULL;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(a[i].times, 1);
        assert_int_equal(a[i].reply.error, -ECANCELED);
    }
}

static void test_bad_arguments(void **state)
{
    struct fleet_client_opts opts = {.controllers = ""};
    struct fleet_client_model *n;
    char name[FLEET_MODEL + 1];
    (void)state;
    assert_int_equal(fleet_client_open(&opts, &c), -EINVAL);
    opts.controllers = ",,";
    assert_int_equal(fleet_client_open(&opts, &c), -EINVAL);
    open_client("127.0.0.1:1");
    memset(name, 'x', sizeof name);
    name[FLEET_MODEL] = 0;
    assert_int_equal(fleet_client_model(c, name, 0, &n), -EINVAL);
    assert_int_equal(fleet_client_model(c, "", 0, &n), -EINVAL);
    assert_int_equal(fleet_client_model(c, "a\nb", 0, &n), -EINVAL);
    assert_int_equal(fleet_client_model(c, "resnet", 0, &n), 0);
    assert_ptr_equal(n, m);
    struct fleet_client_request r = {.bytes = 1, .done = asker_done};
    assert_int_equal(fleet_client_submit(m, &r), -EINVAL);
}

/* A controller that refuses the client: requests learn it at once, and from whom. */
static void refused(const char *controllers, const char *by)
{
    const struct fleet_client_opts opts = {
        .controllers = controllers, .token = "of another fleet", .patience_ns = PATIENT};
    struct fleet_client_stats s;
    struct asked a;
    int64_t began = asker_now();
    assert_int_equal(fleet_client_open(&opts, &c), 0);
    assert_int_equal(fleet_client_model(c, "resnet", 0, &m), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asker_ask(m, PATIENT, &a), -EACCES);
        assert_non_null(strstr(a.why, by));
        assert_non_null(strstr(a.why, "both need the same token"));
    }
    assert_true(asker_now() - began < PATIENT);
    fleet_client_stats(c, &s);
    assert_string_equal(s.trouble, a.why);
    fleet_client_close(c);
    c = NULL;
}

static void test_wrong_token(void **state)
{
    char both[2 * FLEET_ADDRESS];
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    refused(f.controller[0].address, f.controller[0].address);
    snprintf(both, sizeof both, "127.0.0.1:1,%s", f.controller[1].address);
    refused(both, f.controller[1].address); /* the other one is away */
}

static void test_wrong_addresses(void **state)
{
    static const char *const wrong[] = {"localhost", "127.0.0.1:7400,localhost", "::1:7400", "host:70000"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct fleet_client_opts opts = {.controllers = wrong[i]};
        assert_int_equal(fleet_client_open(&opts, &c), -EINVAL);
        assert_non_null(strstr(gw_last_error(), "give HOST:PORT"));
    }
}

/* Many threads, many clients. */
static void *one_client(void *arg)
{
    const struct fleet_client_opts opts = {.controllers = f.controller[0].address};
    struct fleet_client *mine;
    struct fleet_client_model *model;
    struct asked a;
    int *bad = arg;
    *bad = fleet_client_open(&opts, &mine);
    if (*bad) return NULL;
    *bad = fleet_client_model(mine, "resnet", 0, &model);
    for (int i = 0; !*bad && i < 3; i++) *bad = asker_ask(model, 4 * PATIENT, &a);
    fleet_client_close(mine);
    return NULL;
}

static void test_500_clients(void **state)
{
    enum { N = 500 };
    static pthread_t thread[N];
    static int bad[N];
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    fake_grant(&f, 1, 8, 1e6f);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&thread[i], NULL, one_client, &bad[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(bad[i], 0);
    }
    assert_int_equal(f.worker[0].requests + f.worker[1].requests, 3 * N);
}

/* ---- what is pure ---- */

static void test_bucket_and_classes(void **state)
{
    struct fleet_bucket b = {0};
    struct fleet_admit a = {0};
    int sent = 0;
    (void)state;
    fleet_bucket_set(&b, 10, 2, 1);
    assert_true(fleet_bucket_take(&b, 1, 1) && fleet_bucket_take(&b, 1, 1) && !fleet_bucket_take(&b, 1, 1));
    assert_true(fleet_bucket_when(&b, 1) > 99 * MS && fleet_bucket_when(&b, 1) < 101 * MS);
    assert_true(fleet_bucket_take(&b, 1, fleet_bucket_when(&b, 1)));
    fleet_bucket_empty(&b, 500 * MS);
    assert_false(fleet_bucket_take(&b, 1, 550 * MS));
    fleet_admit_set(&a, 10 * MS, 51);
    fleet_admit_set(&a, 100 * MS, 255);
    for (int i = 0; i < 500; i++) sent += fleet_admit_one(&a, 5 * MS);
    assert_int_equal(sent, 100);
    for (int i = 0; i < 500; i++) assert_true(fleet_admit_one(&a, 50 * MS));
    for (int i = 0; i < 20; i++) fleet_admit_set(&a, i * MS + 1, 0); /* more classes than there are */
    assert_true(fleet_admit_one(&a, INT64_MAX));
}

int main(int argc, char **argv)
{
#define FLEET_TEST(t) cmocka_unit_test_setup_teardown(t, begin, end)
    const struct CMUnitTest tests[] = {
        FLEET_TEST(test_answers),
        FLEET_TEST(test_waits_for_a_lease),
        FLEET_TEST(test_no_model),
        FLEET_TEST(test_describes),
        FLEET_TEST(test_spreads),
        FLEET_TEST(test_elsewhere),
        FLEET_TEST(test_silent_controllers),
        FLEET_TEST(test_lease_ends),
        FLEET_TEST(test_revoked_and_shed),
        FLEET_TEST(test_babble),
        FLEET_TEST(test_tries_elsewhere),
        FLEET_TEST(test_waits_for_budget),
        FLEET_TEST(test_keeps_its_budget),
        FLEET_TEST(test_worker_dies),
        FLEET_TEST(test_worker_lies),
        FLEET_TEST(test_poison),
        FLEET_TEST(test_mute_worker),
        FLEET_TEST(test_closes_in_flight),
        FLEET_TEST(test_bad_arguments),
        FLEET_TEST(test_wrong_token),
        FLEET_TEST(test_wrong_addresses),
        FLEET_TEST(test_500_clients),
        cmocka_unit_test(test_bucket_and_classes),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
