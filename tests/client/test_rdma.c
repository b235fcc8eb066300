/* SPDX-License-Identifier: Apache-2.0 */
/* The client's doors against a worker process: several tensors, memory of the caller's own, and a server that
 * goes away. What else sessions do is tested in tests/server. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <gpuwire/client.h>
#include <gpuwire/exec.h>

#include "src/client/http_client.h"
#include "src/client/rdma.h"
#include "tests/server/process.h"

#define WAIT_NS  60000000000u
#define ASKED_NS 2500000000u /* longer than a client waits before it asks */
enum { A = 3, B = 21 };

static struct worker_process worker;

static int start(void **state)
{
    (void)state;
    return worker_start(&worker, "tests/server/models", NULL);
}

static int stop(void **state)
{
    (void)state;
    return worker_stop(&worker);
}

static struct gw_client *open_at(const char *url, const char *model, uint32_t slots)
{
    struct gw_client_opts opts = {.server = url, .model = model, .slots = slots};
    struct gw_client *c = NULL;
    int error = gw_client_open(&opts, &c);
    if (error) fail_msg("opening %s: %d %s", model, error, gw_last_error());
    return c;
}

static void fill(float *x, int count, uint64_t id)
{
    for (int i = 0; i < count; i++) x[i] = (float)id * 100 + (float)i;
}

static void check_pair(struct gw_client *c, uint64_t id)
{
    struct gw_client_reply r;
    float a[A], b[B];
    int error = gw_client_wait(c, gw_deadline(WAIT_NS), &r);
    if (error) fail_msg("wait: %s", gw_last_error());
    if (r.error) fail_msg("request %u: %s", (unsigned)id, r.why);
    fill(a, A, id);
    fill(b, B, id + 1000);
    assert_int_equal(r.id, id);
    assert_int_equal(r.rows, 1);
    assert_int_equal(r.outputs, 2);
    assert_int_equal(r.out[0].bytes, sizeof(a));
    assert_memory_equal(r.out[0].data, a, sizeof(a));
    assert_int_equal(r.out[1].bytes, sizeof(b));
    assert_int_equal(r.out[1].dims[1], B);
    assert_memory_equal(r.out[1].data, b, sizeof(b));
    assert_int_equal((uintptr_t)r.out[1].data % 64, 0);
}

/* From the slot, and from memory that is registered, in part or not at all; over both doors. */
static void pairs(const char *scheme, const char *server)
{
    char url[64];
    snprintf(url, sizeof(url), "%s%s", scheme, server);
    struct gw_client *c = open_at(url, "pair", 1);
    static float memory[256];
    float *a = memory + 1, *b = memory + 101; /* not aligned to anything but themselves */
    const void *in[] = {a, b};
    for (uint64_t id = 0; id < 4; id++) {
        fill(gw_client_slot_input(c, 0, 0, 1), A, id);
        fill(gw_client_slot_input(c, 0, 1, 1), B, id + 1000);
        assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.id = id}), 0);
        check_pair(c, id);
    }
    for (uint64_t id = 10; id < 14; id++) {
        if (id == 11) assert_int_equal(gw_client_register(c, b, B * sizeof(float)), 0);
        if (id == 12) assert_int_equal(gw_client_register(c, memory, 100 * sizeof(float)), 0);
        if (id == 13) assert_int_equal(gw_client_unregister(c, b), 0);
        fill(a, A, id);
        fill(b, B, id + 1000);
        int error = gw_client_submit_from(c, 0, &(struct gw_client_request){.id = id}, in);
        if (error) fail_msg("request %u: %s", (unsigned)id, gw_last_error());
        assert_int_equal(gw_client_unregister(c, memory), id < 12 ? -ENOENT : -EBUSY);
        check_pair(c, id);
    }
    assert_int_equal(gw_client_register(c, memory + 50, 400), -EINVAL); /* it overlaps */
    assert_int_equal(gw_client_register(c, NULL, 4), -EINVAL);
    assert_int_equal(gw_client_register(c, memory + 200, 0), -EINVAL);
    assert_int_equal(gw_client_unregister(c, memory), 0);
    assert_int_equal(gw_client_unregister(c, memory), -ENOENT);
    gw_client_close(c);
}

static void pairs_over_rdma(void **state)
{
    (void)state;
    pairs("rdma://", worker.server);
}

static void pairs_over_http(void **state)
{
    (void)state;
    pairs("http://", worker.server);
}

static void pairs_over_grpc(void **state)
{
    (void)state;
    if (!worker.grpc[0]) skip();
    pairs("grpc://", worker.grpc);
}

/* gw_client_open with servers that are none, or not of this door. */
static void who_is_not_there_is_named(void **state)
{
    static const struct {
        const char *scheme;
        int error;
        const char *says;
    } wrong[] = {{"grpc://127.0.0.1:1", -ECONNREFUSED, "onnection refused"},
                 {"grpc://[::1]:1", -ECONNREFUSED, "onnection refused"},
                 {"grpc://nobody.invalid:1", -EHOSTUNREACH, "check the name"},
                 {"grpc://127.0.0.1:1/prefix", -EINVAL, "not HOST or HOST:PORT"},
                 {"ftp://127.0.0.1:1", -ENOTSUP, "grpc://"}};
    (void)state;
    if (!worker.grpc[0]) skip();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gw_client_opts opts = {.server = wrong[i].scheme, .model = "echo"};
        struct gw_client *none;
        int error = gw_client_open(&opts, &none);
        if (error != wrong[i].error || !strstr(gw_last_error(), wrong[i].says))
            fail_msg("%s: %d, %s", wrong[i].scheme, error, gw_last_error());
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct gw_client *c = open_at(worker.server, "sum", 2), *none = NULL;
    assert_string_equal(gw_client_door(c), "rdma");
    assert_int_equal(gw_client_inputs(c), 2);
    assert_int_equal(gw_client_rows(c), 1);
    assert_null(gw_client_slot_input(c, 0, 0, 2));
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.rows = 2}), -EINVAL);
    struct gw_client_opts opts = {.server = worker.server, .model = "sum", .rows = 2};
    assert_int_equal(gw_client_open(&opts, &none), -EINVAL);
    opts.rows = 1;
    opts.version = "1";
    assert_int_equal(gw_client_open(&opts, &none), 0);
    gw_client_close(none);
    opts.version = "2";
    assert_int_equal(gw_client_open(&opts, &none), -ENOENT);
    for (uint32_t i = 0; i < 65; i++) {
        static float many[65 * 4];
        assert_int_equal(gw_client_register(c, many + 4 * i, 16), i < 64 ? 0 : -ENOSPC);
    }
    gw_client_close(c);
}

/* In words, and not as the syndrome of a queue pair. */
static void a_server_that_goes_is_named(void **state)
{
    (void)state;
    struct worker_process other;
    struct gw_client_reply r;
    char url[64];
    assert_int_equal(worker_start(&other, "tests/server/models", NULL), 0);
    struct gw_client *c = open_at(other.server, "echo", 1);
    snprintf(url, sizeof(url), "http://%s", other.server);
    struct gw_client *h = open_at(url, "echo", 1), *g = NULL;
    snprintf(url, sizeof(url), "grpc://%s", other.grpc);
    if (other.grpc[0]) g = open_at(url, "echo", 1);
    kill(other.pid, SIGKILL);
    waitpid(other.pid, NULL, 0);
    int error = gw_client_submit(c, 0, &(struct gw_client_request){.id = 1});
    if (!error) error = gw_client_wait(c, gw_deadline(WAIT_NS), &r);
    assert_int_equal(error, -ECONNRESET);
    assert_non_null(strstr(gw_last_error(), "has gone"));
    assert_int_equal(gw_client_submit(h, 0, &(struct gw_client_request){.id = 1}), 0);
    assert_int_equal(gw_client_wait(h, gw_deadline(WAIT_NS), &r), 0);
    assert_int_equal(r.error, -ECONNRESET);
    for (int i = 0; g && i < 3; i++) {
        assert_int_equal(gw_client_submit(g, 0, &(struct gw_client_request){.id = 1}), 0);
        assert_int_equal(gw_client_wait(g, gw_deadline(WAIT_NS), &r), 0);
        if (r.error != -ECONNRESET) fail_msg("%d %s", r.error, r.why);
        assert_non_null(strstr(r.why, "has gone"));
    }
    gw_client_close(c);
    gw_client_close(h);
    gw_client_close(g);
}

/* A client that is closed while its request is under way takes nothing with it. */
static void closed_in_the_middle(void **state)
{
    char url[64];
    struct gw_client_stats stats;
    (void)state;
    if (!worker.grpc[0]) skip();
    snprintf(url, sizeof(url), "grpc://%s", worker.grpc);
    for (int i = 0; i < 5; i++) {
        struct gw_client *c = open_at(url, "echo", 8);
        for (uint32_t slot = 0; slot < 8; slot++)
            assert_int_equal(gw_client_submit(c, slot, &(struct gw_client_request){.id = slot}), 0);
        if (i % 2) assert_int_equal(gw_client_stats(c, &stats), 0); /* beside requests that are under way */
        gw_client_close(c);
    }
    assert_true(worker_alive(&worker));
}

/* While it waits for an answer: our NIC has been told that the request is there, and is never told of the
 * end. The request waits at the server for others that could share its batch. */
static void a_session_that_ends_behind_its_request_is_told(void **state)
{
    (void)state;
    const char *const slow[] = {"--max-batch", "4", "--batch-delay", "10000000", NULL};
    struct worker_process other;
    struct gw_client_reply r;
    struct gw_http *http;
    json_t *reply = NULL;
    char base[64], path[80];
    assert_int_equal(worker_start(&other, "tests/server/batch_models", slow), 0);
    struct gw_client *c = open_at(other.server, "mirror", 1);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.id = 1}), 0);
    /* A session that is there is no reason to give up. */
    assert_int_equal(gw_client_wait(c, gw_deadline(ASKED_NS), &r), -ETIMEDOUT);
    snprintf(base, sizeof(base), "http://%s/", other.server);
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", ((struct gw_client_session *)c->own)->id);
    assert_int_equal(gw_http_open(&(struct gw_http_opts){.base = base, .timeout_ns = WAIT_NS}, &http), 0);
    assert_int_equal(gw_http_call(http, "DELETE", path, NULL, &reply), 0);
    json_decref(reply);
    gw_http_close(http);
    assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS / 2), &r), -EIO);
    assert_non_null(strstr(gw_last_error(), "has ended the session"));
    assert_true(gw_client_submit(c, 0, &(struct gw_client_request){.id = 2}) < 0);
    gw_client_close(c);
    /* And a server that goes in between. */
    c = open_at(other.server, "mirror", 1);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.id = 3}), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(ASKED_NS), &r), -ETIMEDOUT);
    kill(other.pid, SIGKILL);
    waitpid(other.pid, NULL, 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS / 2), &r), -ECONNRESET);
    assert_non_null(strstr(gw_last_error(), "has gone"));
    gw_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_over_rdma),
        cmocka_unit_test(pairs_over_http),
        cmocka_unit_test(pairs_over_grpc),
        cmocka_unit_test(who_is_not_there_is_named),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_server_that_goes_is_named),
        cmocka_unit_test(a_session_that_ends_behind_its_request_is_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
