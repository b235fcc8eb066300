/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on a session that goes from one client to the next: the second one wants what the first one
 * left there. And sessions that their clients do not use: the worker takes them back. Each test starts a
 * worker of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>

#include "tests/server/foe.h"

#define SECRET 4711.0f

static struct worker_process worker;

static int start(const char *sessions, const char *idle)
{
    const char *options[] = {"--sessions", sessions, "--slots", "4", "--idle", idle, NULL};
    return worker_start(&worker, "tests/server/models", options);
}

static int start_one(void **state)
{
    (void)state;
    return start("1", "300");
}
static int start_four(void **state)
{
    (void)state;
    return start("4", "300");
}
static int start_hasty(void **state)
{
    (void)state;
    return start("1", "1");
}
static int start_watchful(void **state)
{
    (void)state;
    return start("1", "8");
}
static int stop(void **state)
{
    (void)state;
    return worker_stop(&worker);
}

static void wait_for_open(int64_t count)
{
    int64_t open = -1;
    for (int i = 0; i < 6000 && (open = worker_stat(&worker, "echo", "sessions_open")) != count; i++)
        usleep(10000);
    assert_int_equal(open, count);
}

static float *tensor_of(struct foe *f, uint32_t slot)
{
    return (float *)(foe_request(f, slot) + 1);
}

/* One proper request whose input is all SECRET. */
static void send_secret(struct foe *f, uint32_t slot)
{
    float *x = tensor_of(f, slot);
    for (int i = 0; i < FLOATS; i++) x[i] = SECRET;
    assert_int_equal(foe_put(f, slot, f->request_addr + slot * f->stride, f->rkey, IN_BYTES, slot), 0);
    assert_int_equal(foe_completion(f, 1), IBV_WC_SUCCESS);
    assert_int_equal(foe_reply(f, slot)->status, GW_SERVE_OK);
}

static void leave_a_secret(void)
{
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    for (uint32_t slot = 0; slot < SLOTS; slot++) send_secret(&f, slot);
    foe_close(&f);
    wait_for_open(0);
}

/* The attack: a header alone into slot 0; then a request of full length into slot 1, whose immediate
 * says 0. */
static void nothing_of_the_last_client_is_left(void **state)
{
    (void)state;
    struct foe f;
    leave_a_secret();
    foe_open(&f, worker.server, SLOTS);
    foe_request(&f, 0);
    assert_int_equal(
        gw_post_op(gw_qp_handle(f.qp),
                   gw_put_op(f.mr->addr, f.mr->lkey, f.request_addr, f.rkey, sizeof(struct gw_serve_request)),
                   GW_SIGNALED, 1),
        0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_SUCCESS);
    foe_request(&f, 1);
    assert_int_equal(foe_put(&f, 1, f.request_addr + f.stride, f.rkey, IN_BYTES, 0), 0);
    assert_int_equal(foe_completion(&f, 1), IBV_WC_SUCCESS);
    const float *y = (const float *)(foe_reply(&f, 0) + 1);
    for (int i = 0; i < FLOATS; i++) assert_true(y[i] == 0.0f);
    foe_close(&f);
}

static void keys_change_with_the_client(void **state)
{
    (void)state;
    struct foe old, f;
    foe_open(&old, worker.server, SLOTS);
    uint32_t key = old.rkey;
    uint64_t addr = old.request_addr;
    foe_close(&old);
    wait_for_open(0);
    foe_open(&f, worker.server, SLOTS);
    assert_int_equal(f.request_addr, addr); /* the same slots */
    assert_int_not_equal(f.rkey, key);
    foe_request(&f, 0);
    assert_int_equal(foe_put(&f, 0, addr, key, IN_BYTES, 0), 0);
    assert_int_equal(foe_completion(&f, 0), IBV_WC_REM_ACCESS_ERR);
    foe_close(&f);
}

/* What is left of one's own last request is not a request either. */
static void an_immediate_without_a_header_is_refused(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, SLOTS);
    send_secret(&f, 0);
    assert_int_equal(gw_recv_empty(gw_qp_handle(f.qp), 1, 0), 0);
    foe_request(&f, 1);
    assert_int_equal(foe_put(&f, 1, f.request_addr + f.stride, f.rkey, IN_BYTES, 0), 0);
    assert_int_equal(foe_completion(&f, 1), IBV_WC_SUCCESS);
    assert_int_equal(foe_reply(&f, 0)->status, GW_SERVE_BAD_REQUEST);
    foe_close(&f);
}

static int ask(struct foe *f, const char *name, json_t *value)
{
    json_t *body = foe_wish(f), *reply = NULL;
    json_object_set_new(body, name, value);
    int error = gw_http_call(f->http, "POST", "v2/rdma/sessions", body, &reply);
    json_decref(body);
    json_decref(reply);
    return error;
}

/* More slots than there are, at addresses where those that there are do not fit. */
static void many_slots_do_not_overflow(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 0);
    json_t *body = foe_wish(&f), *reply = NULL;
    json_object_set_new(body, "slots", json_integer(1 << 28));
    json_object_set_new(body, "reply_stride", json_integer((json_int_t)1 << 36));
    json_object_set_new(body, "reply_addr", json_string("0xfffffff000000000"));
    assert_int_equal(gw_http_call(f.http, "POST", "v2/rdma/sessions", body, &reply), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "beyond the address space"));
    json_object_set_new(body, "reply_addr", json_string("0xffffff0000000000"));
    assert_int_equal(gw_http_call(f.http, "POST", "v2/rdma/sessions", body, &reply),
                     0); /* as many as there are fit */
    assert_int_equal(json_integer_value(json_object_get(reply, "slots")), SLOTS);
    json_decref(reply);
    json_decref(body);
    foe_close(&f);
}

static void a_session_is_not_connected_to_another(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 0);
    json_t *body = foe_wish(&f), *reply = NULL;
    assert_int_equal(gw_http_call(f.http, "POST", "v2/rdma/sessions", body, &reply), 0);
    json_decref(body);
    json_t *endpoint = json_incref(json_object_get(reply, "endpoint"));
    assert_int_equal(ask(&f, "endpoint", endpoint), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "one of this server's own"));
    json_decref(reply);
    foe_close(&f);
}

static void one_client_does_not_get_all(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 0);
    for (int i = 0; i < 2; i++) assert_int_equal(ask(&f, "slots", json_integer(1)), 0);
    assert_int_equal(ask(&f, "slots", json_integer(1)), -EBUSY);
    assert_non_null(strstr(gw_last_error(), "as many as one client may"));
    assert_int_equal(worker_stat(&worker, "echo", "sessions_open"), 3);
    foe_close(&f);
    wait_for_open(0);
}

/* Its connection stays open, and it says again and again that it wants to keep the session. */
static void a_session_without_requests_ends(void **state)
{
    (void)state;
    struct foe f;
    foe_open(&f, worker.server, 0);
    char path[64];
    json_t *reply = NULL;
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", f.id);
    assert_int_equal(gw_http_call(f.http, "PUT", path, NULL, &reply), -EINVAL); /* unused: not kept */
    for (int i = 0; i < 3000 && gw_http_call(f.http, "PUT", path, NULL, &reply) == -EINVAL; i++)
        usleep(20000);
    assert_int_equal(gw_http_call(f.http, "PUT", path, NULL, &reply), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "it has expired or was closed"));
    wait_for_open(0);
    foe_close(&f);
}

static void echo(struct gw_client *c, uint64_t id)
{
    struct gw_client_reply r;
    float *x = gw_client_slot_input(c, 0, 0, 1);
    for (int i = 0; i < FLOATS; i++) x[i] = (float)id;
    int error = gw_client_submit(c, 0, &(struct gw_client_request){.id = id});
    if (error) fail_msg("request %u: %s", (unsigned)id, gw_last_error());
    assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.id, id);
    assert_true(((const float *)r.out[0].data)[FLOATS - 1] == (float)id);
}

/* An honest client that pauses gets its answers all the same, whether its session was ended in that time or
 * not. */
static void a_client_that_pauses_is_served(void **state)
{
    (void)state;
    struct gw_client_opts opts = {.server = worker.server, .model = "echo"};
    struct gw_client *c;
    assert_int_equal(gw_client_open(&opts, &c), 0);
    wait_for_open(0); /* it has ended before the first request */
    echo(c, 1);
    wait_for_open(0); /* and after it */
    echo(c, 2);
    usleep(600000); /* more than half of the time: it is kept */
    echo(c, 3);
    gw_client_close(c);
}

/* A peer that is dead while its connection over HTTP lives, as when another process holds that open. */
static void a_dead_queue_pair_is_found(void **state)
{
    (void)state;
    struct foe f;
    uint64_t start = gw_deadline(0);
    foe_open(&f, worker.server, SLOTS);
    send_secret(&f, 0);
    assert_int_equal(gw_qp_abort(f.qp), 0);
    wait_for_open(0);
    print_message("found after %.1f s\n", (double)(gw_deadline(0) - start) / 1e9);
    foe_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_of_the_last_client_is_left, start_one, stop),
        cmocka_unit_test_setup_teardown(keys_change_with_the_client, start_one, stop),
        cmocka_unit_test_setup_teardown(an_immediate_without_a_header_is_refused, start_one, stop),
        cmocka_unit_test_setup_teardown(many_slots_do_not_overflow, start_four, stop),
        cmocka_unit_test_setup_teardown(a_session_is_not_connected_to_another, start_four, stop),
        cmocka_unit_test_setup_teardown(one_client_does_not_get_all, start_four, stop),
        cmocka_unit_test_setup_teardown(a_session_without_requests_ends, start_hasty, stop),
        cmocka_unit_test_setup_teardown(a_client_that_pauses_is_served, start_hasty, stop),
        cmocka_unit_test_setup_teardown(a_dead_queue_pair_is_found, start_watchful, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
