/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that misbehave on their queue pair, each beside a client that must notice nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "tests/server/ask.h"
#include "tests/server/foe.h"

static struct worker_process worker;

/* ---- the honest client ---- */

static struct {
    pthread_t thread;
    atomic_int stop, error;
    atomic_ullong answered;
    atomic_ullong slowest_ns;
    char why[256];
} honest;

static int one_echo(struct gw_client *c, uint64_t id)
{
    struct gw_client_reply r;
    float want[FLOATS];
    for (int i = 0; i < FLOATS; i++) want[i] = (float)(id * 31 + (uint64_t)i);
    memcpy(gw_client_slot_input(c, 0, 0, 1), want, sizeof(want));
    int error = gw_client_submit(c, 0, &(struct gw_client_request){.id = id});
    if (!error) error = gw_client_wait(c, gw_deadline(WAIT_NS), &r);
    if (error) return error;
    if (r.error || r.id != id || memcmp(r.out[0].data, want, sizeof(want)))
        return gw_error(-EBADMSG, "a wrong answer");
    if ((uint64_t)r.times.total > honest.slowest_ns) honest.slowest_ns = (uint64_t)r.times.total;
    return 0;
}

static void *be_honest(void *arg)
{
    struct gw_client_opts opts = {.server = worker.server, .model = "echo", .slots = 1};
    struct gw_client *c = NULL;
    int error = gw_client_open(&opts, &c);
    (void)arg;
    while (!error && !honest.stop) {
        error = one_echo(c, honest.answered);
        if (!error) honest.answered++;
    }
    if (error) snprintf(honest.why, sizeof(honest.why), "%s", gw_last_error());
    honest.error = error;
    gw_client_close(c);
    return NULL;
}

static int start(void **state)
{
    static const char *const options[] = {"--sessions", "4", "--sessions-per-client", "4", "--slots",
                                          "4",          NULL};
    (void)state;
    if (worker_start(&worker, "tests/server/models", options)) return -1;
    return pthread_create(&honest.thread, NULL, be_honest, NULL);
}

static int stop(void **state)
{
    (void)state;
    honest.stop = 1;
    pthread_join(honest.thread, NULL);
    print_message("the honest client: %llu answers, the slowest in %.1f ms\n",
                  (unsigned long long)honest.answered, (double)honest.slowest_ns / 1e6);
    if (honest.error) print_message("the honest client failed: %s\n", honest.why);
    return worker_stop(&worker) || honest.error;
}

/* Still served: a hundred more answers come. */
static void assert_harmless(void)
{
    uint64_t enough = honest.answered + 100, end = gw_deadline(WAIT_NS);
    while (honest.answered < enough && !honest.error && gw_deadline(0) < end) usleep(1000);
    if (honest.error) print_message("the honest client failed: %s\n", honest.why);
    assert_int_equal(honest.error, 0);
    assert_true(honest.answered >= enough);
    assert_true(worker_alive(&worker));
}

/* The worker has given the session up: its count goes back to the honest client's one. */
static void assert_session_gone(void)
{
    int64_t open = -1;
    for (int i = 0; i < 6000 && (open = worker_stat(&worker, "echo", "sessions_open")) != 1; i++)
        usleep(10000);
    assert_int_equal(open, 1);
}

/* ---- what they try ---- */

static void assert_remote_access_error(uint64_t offset, int of_rkey, uint32_t bytes)
{
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    foe_request(&f, 0);
    assert_int_equal(foe_put(&f, 0, f.request_addr + offset, f.rkey + (uint32_t)of_rkey, bytes, 0), 0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_REM_ACCESS_ERR);
    assert_session_gone(); /* although the connection that opened it is still there */
    assert_harmless();
    foe_close(&f);
}

static void wrong_key(void **state)
{
    (void)state;
    assert_remote_access_error(0, 1, IN_BYTES);
}
static void a_key_from_far_away(void **state)
{
    (void)state;
    assert_remote_access_error(0, 0x1000, IN_BYTES);
}
static void before_its_slots(void **state)
{
    (void)state;
    assert_remote_access_error((uint64_t)-8, 0, IN_BYTES);
}
static void far_outside(void **state)
{
    (void)state;
    assert_remote_access_error((uint64_t)1 << 40, 0, IN_BYTES);
}

static void past_its_slots(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    uint64_t stride = f.stride;
    foe_close(&f);
    assert_session_gone();
    assert_remote_access_error(SLOTS * stride - 8, 0, IN_BYTES); /* begins inside */
    assert_remote_access_error(SLOTS * stride, 0, IN_BYTES);     /* the next session's slots */
    assert_remote_access_error(0, 0, HALF);                      /* from the beginning to far past the end */
}

static void a_read(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    assert_int_equal(gw_post_op(gw_qp_handle(f.qp),
                                gw_get_op(f.mr->addr, f.mr->lkey, f.request_addr, f.rkey, 64), GW_SIGNALED,
                                1),
                     0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_REM_ACCESS_ERR);
    assert_session_gone();
    assert_harmless();
    foe_close(&f);
}

static void a_send_with_payload(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    assert_int_equal(gw_send(gw_qp_handle(f.qp), f.mr->addr, f.mr->lkey, IN_BYTES, GW_SIGNALED, 1), 0);
    assert_int_not_equal(foe_completion(&f, 0), IBV_WC_SUCCESS); /* the worker's receives have no memory */
    assert_session_gone();
    assert_harmless();
    foe_close(&f);
}

/* Spoils a request and expects it refused, in its slot; then a proper one, answered. */
static void assert_refused(struct foe *f, uint32_t bytes)
{
    int64_t refused = worker_stat(&worker, "echo", "refused");
    memset(f->memory + HALF, 0, HALF);
    assert_int_equal(foe_put(f, 1, f->request_addr + f->stride, f->rkey, bytes, 1), 0);
    assert_int_equal(foe_completion(f, 1), IBV_WC_SUCCESS);
    assert_int_equal(foe_reply(f, 1)->magic, GW_SERVE_MAGIC);
    assert_int_equal(foe_reply(f, 1)->status, GW_SERVE_BAD_REQUEST);
    assert_int_equal(worker_stat(&worker, "echo", "refused"), refused + 1);
    assert_int_equal(gw_recv_empty(gw_qp_handle(f->qp), 1, 0), 0);
}

static void assert_answered(struct foe *f)
{
    foe_request(f, 1);
    assert_int_equal(foe_put(f, 1, f->request_addr + f->stride, f->rkey, IN_BYTES, 1), 0);
    assert_int_equal(foe_completion(f, 1), IBV_WC_SUCCESS);
    assert_int_equal(foe_reply(f, 1)->status, GW_SERVE_OK);
    assert_int_equal(foe_reply(f, 1)->id, 77);
    assert_int_equal(gw_recv_empty(gw_qp_handle(f->qp), 1, 0), 0);
}

static void spoilt_headers_and_lengths(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    assert_answered(&f);
    foe_request(&f, 1)->magic = 0x12345678;
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1)->version = 9;
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1)->slot = 2;
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1)->bytes = UINT64_MAX;
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1)->flags = GW_SERVE_FLAGS + 1;
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1)->flags = GW_SERVE_PLACED; /* and all the same it brings them */
    assert_refused(&f, IN_BYTES);
    memset(foe_request(&f, 1), 0xff, 64);
    assert_refused(&f, IN_BYTES);
    foe_request(&f, 1);
    assert_refused(&f, IN_BYTES - 4);
    assert_refused(&f, IN_BYTES + 4); /* into the next slot, which is its own */
    assert_refused(&f, 64);
    assert_refused(&f, 1);
    assert_refused(&f, 0);
    assert_answered(&f);
    foe_close(&f);
    assert_session_gone();
    assert_harmless();
}

/* An immediate that names no slot has none to answer into; the session goes on. */
static void wrong_immediates_and_empty_sends(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    int64_t refused = worker_stat(&worker, "echo", "refused");
    foe_request(&f, 1);
    assert_int_equal(foe_put(&f, 1, f.request_addr + f.stride, f.rkey, IN_BYTES, SLOTS), 0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_SUCCESS);
    assert_int_equal(foe_put(&f, 1, f.request_addr + f.stride, f.rkey, IN_BYTES, 0xffffffff), 0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_SUCCESS);
    assert_int_equal(gw_send(gw_qp_handle(f.qp), f.mr->addr, f.mr->lkey, 0, GW_SIGNALED, 1), 0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_SUCCESS);
    for (int i = 0; i < 12000 && worker_stat(&worker, "echo", "refused") < refused + 2; i++) usleep(5000);
    assert_true(worker_stat(&worker, "echo", "refused") >= refused + 2);
    foe_close(&f);
    assert_session_gone();
    assert_harmless();
}

/* Many more requests than slots, all at once. Every one has its receive in the end, and every one is
 * answered. */
static void a_flood(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 100);
    foe_request(&f, 0);
    for (int i = 0; i < 100; i++) assert_int_equal(foe_put(&f, 0, f.request_addr, f.rkey, IN_BYTES, 0), 0);
    for (int i = 0; i < 100; i++) assert_int_equal(foe_completion(&f, 1), IBV_WC_SUCCESS);
    assert_harmless();
    foe_close(&f);
    assert_session_gone();
}

/* It takes no answers: the worker's sends are told to try again later, forever. Only its own requests wait
 * for that. */
static void a_client_that_takes_no_answers(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 0);
    foe_request(&f, 0);
    for (int i = 0; i < 50; i++) assert_int_equal(foe_put(&f, 0, f.request_addr, f.rkey, IN_BYTES, 0), 0);
    honest.slowest_ns = 0;
    for (int i = 0; i < 5; i++) assert_harmless();
    assert_true(honest.slowest_ns < 10000000000u);
    foe_close(&f);
    assert_session_gone();
    assert_harmless();
}

/* The worker writes its answers where the client said; memory that is not there is the client's own trouble.
 */
static void a_reply_address_that_is_not_there(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    gw_mr_free(f.mr); /* the key that it gave away */
    assert_int_equal(gw_mr_register(f.pd, f.memory, HALF, 0, &f.mr), 0);
    foe_request(&f, 0);
    assert_int_equal(foe_put(&f, 0, f.request_addr, f.rkey, IN_BYTES, 0), 0);
    assert_session_gone();
    assert_harmless();
    foe_close(&f);
}

/* Garbage over HTTP beside the sessions: half a call, and silence. */
static void sessions_nobody_uses(void **state)
{
    (void)state;
    struct foe f[3];
    struct gw_http *http;
    json_t *reply, *body;
    for (int i = 0; i < 3; i++) foe_open(&f[i], worker.server, 0);
    body = foe_wish(&f[0]);
    assert_int_equal(ask_open(worker.server, &http), 0);
    assert_int_equal(gw_http_call(http, "POST", "v2/rdma/sessions", body, &reply), -EBUSY);
    json_decref(body);
    gw_http_close(http);
    for (int i = 0; i < 3; i++) foe_close(&f[i]);
    assert_session_gone();
    assert_harmless();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_key),
        cmocka_unit_test(a_key_from_far_away),
        cmocka_unit_test(before_its_slots),
        cmocka_unit_test(far_outside),
        cmocka_unit_test(past_its_slots),
        cmocka_unit_test(a_read),
        cmocka_unit_test(a_send_with_payload),
        cmocka_unit_test(spoilt_headers_and_lengths),
        cmocka_unit_test(wrong_immediates_and_empty_sends),
        cmocka_unit_test(a_flood),
        cmocka_unit_test(a_client_that_takes_no_answers),
        cmocka_unit_test(a_reply_address_that_is_not_there),
        cmocka_unit_test(sessions_nobody_uses),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
