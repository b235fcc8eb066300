/* SPDX-License-Identifier: Apache-2.0 */
/* The client's door over HTTP against a server that is not ours (foreign_server.py). The client's requests
 * are the Open Inference Protocol's, and it reads the answers by the protocol alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/client.h>
#include <gpuwire/exec.h>

#define WAIT_NS 240000000000u /* many times what it takes, for machines that have much else to do */

static char url[64];
static pid_t server;
static int server_input;

static int start_server(void **state)
{
    (void)state;
    int in[2], out[2];
    unsigned port = 0;
    if (pipe(in) || pipe(out)) return -1;
    server = fork();
    if (!server) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp("python3", "python3", FOREIGN_SERVER, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server_input = in[1];
    FILE *f = fdopen(out[0], "r");
    if (!f || fscanf(f, "%u", &port) != 1) return -1;
    fclose(f);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/prefix", port);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    close(server_input);
    waitpid(server, NULL, 0);
    return 0;
}

static struct gw_client *open_client(const char *model, uint32_t slots, uint32_t rows)
{
    struct gw_client_opts opts = {.server = url, .model = model, .slots = slots, .rows = rows};
    struct gw_client *c = NULL;
    int error = gw_client_open(&opts, &c);
    if (error) fail_msg("opening %s: %d %s", model, error, gw_last_error());
    return c;
}

static void fill(float *x, int64_t *n, uint32_t rows, uint64_t id)
{
    for (uint32_t i = 0; i < 8 * rows; i++) x[i] = (float)id + (float)i / 16;
    for (uint32_t i = 0; i < 3 * rows; i++) n[i] = INT64_MIN + (int64_t)id + i;
}

static void submit(struct gw_client *c, uint32_t slot, uint32_t rows, uint64_t id)
{
    struct gw_client_request request = {.id = id, .rows = rows};
    fill(gw_client_slot_input(c, slot, 0, rows), gw_client_slot_input(c, slot, 1, rows), rows, id);
    int error = gw_client_submit(c, slot, &request);
    if (error) fail_msg("submit: %s", gw_last_error());
}

static void wait_for(struct gw_client *c, struct gw_client_reply *r)
{
    int error = gw_client_wait(c, gw_deadline(WAIT_NS), r);
    if (error) fail_msg("wait: %d %s", error, gw_last_error());
}

static void check_mirror(const struct gw_client_reply *r)
{
    float x[8 * 16];
    int64_t n[3 * 16];
    if (r->error) fail_msg("request %u: %d %s", (unsigned)r->id, r->error, r->why);
    fill(x, n, r->rows, r->id);
    assert_int_equal(r->outputs, 2);
    assert_int_equal(r->out[0].dtype, GW_DTYPE_F32);
    assert_int_equal(r->out[0].rank, 2);
    assert_int_equal(r->out[0].dims[0], r->rows);
    assert_int_equal(r->out[0].dims[1], 8);
    assert_int_equal(r->out[0].bytes, 32 * r->rows);
    assert_int_equal((uintptr_t)r->out[0].data % 64, 0);
    assert_int_equal((uintptr_t)r->out[1].data % 64, 0);
    assert_memory_equal(r->out[0].data, x, 32 * r->rows);
    assert_int_equal(r->out[1].bytes, 24 * r->rows);
    assert_memory_equal(r->out[1].data, n, 24 * r->rows);
}

static void the_model_is_described(void **state)
{
    (void)state;
    struct gw_client *c = open_client("mirror", 0, 0);
    assert_string_equal(gw_client_door(c), "http");
    assert_int_equal(gw_client_slots(c), 16);
    assert_int_equal(gw_client_rows(c), 16); /* as the configuration says */
    assert_int_equal(gw_client_inputs(c), 2);
    assert_int_equal(gw_client_outputs(c), 2);
    const struct gw_client_tensor *n = gw_client_input(c, 1);
    assert_string_equal(n->name, "n");
    assert_int_equal(n->dtype, GW_DTYPE_I64);
    assert_int_equal(n->batched, 1);
    assert_int_equal(n->dims[0], 1);
    assert_int_equal(n->dims[1], 3);
    assert_int_equal(n->bytes, 24);
    assert_null(gw_client_input(c, 2));
    assert_null(gw_client_slot_input(c, 16, 0, 1));
    assert_null(gw_client_slot_input(c, 0, 2, 1));
    assert_null(gw_client_slot_input(c, 0, 0, 17));
    gw_client_close(c);
}

/* Many in flight, of all sizes; slots are used again and again. */
static void echoes(const char *model)
{
    struct gw_client *c = open_client(model, 5, 0);
    struct gw_client_reply r;
    uint64_t id = 0;
    for (uint32_t slot = 0; slot < 5; slot++, id++) submit(c, slot, 1 + (uint32_t)id % 16, id);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){0}), -EBUSY);
    for (int done = 0; done < 60; done++) {
        wait_for(c, &r);
        check_mirror(&r);
        assert_true(r.times.total > 0);
        if (id < 60) {
            submit(c, r.slot, 1 + (uint32_t)id % 16, id);
            id++;
        }
    }
    assert_int_equal(gw_client_wait(c, gw_deadline(1000000), &r), -ETIMEDOUT);
    gw_client_close(c);
}

static void binary_answers_are_read(void **state)
{
    (void)state;
    echoes("mirror");
}

static void answers_as_text_are_read(void **state)
{
    (void)state;
    echoes("text");
}

static void a_connection_that_the_server_closes_is_opened_again(void **state)
{
    (void)state;
    echoes("closes");
}

static void tensors_are_sent_from_where_they_lie(void **state)
{
    (void)state;
    struct gw_client *c = open_client("mirror", 1, 4);
    struct gw_client_reply r;
    float x[32];
    int64_t n[12];
    const void *in[] = {x, n};
    for (uint64_t id = 1; id < 4; id++) {
        fill(x, n, 4, id);
        if (id == 2) assert_int_equal(gw_client_register(c, x, sizeof(x)), 0);
        assert_int_equal(gw_client_submit_from(c, 0, &(struct gw_client_request){.id = id, .rows = 4}, in),
                         0);
        wait_for(c, &r);
        check_mirror(&r);
    }
    assert_int_equal(gw_client_register(c, x + 1, 4), -EINVAL);
    assert_int_equal(gw_client_unregister(c, n), -ENOENT);
    assert_int_equal(gw_client_unregister(c, x), 0);
    in[1] = NULL;
    assert_int_equal(gw_client_submit_from(c, 0, &(struct gw_client_request){.rows = 4}, in), -EINVAL);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.rows = 5}), -EINVAL);
    gw_client_close(c);
}

static void priority_and_deadline_arrive(void **state)
{
    (void)state;
    struct gw_client *c = open_client("mirror", 1, 1);
    struct gw_client_request request = {.id = 9, .priority = 2, .budget_ns = 1500001};
    struct gw_client_reply r;
    memset(gw_client_slot_input(c, 0, 0, 1), 0, 32);
    memset(gw_client_slot_input(c, 0, 1, 1), 0, 24);
    assert_int_equal(gw_client_submit(c, 0, &request), 0);
    wait_for(c, &r);
    assert_int_equal(r.error, 0);
    const int64_t want[] = {2, 1501, 1};
    assert_memory_equal(r.out[1].data, want, sizeof(want));
    gw_client_close(c);
}

static void dimensions_that_are_open_are_given(void **state)
{
    (void)state;
    struct gw_client_shape shape = {.name = "ids", .rank = 2, .dims = {1, 5}};
    struct gw_client_opts opts = {.server = url, .model = "words", .rows = 2};
    struct gw_client *c = NULL;
    struct gw_client_reply r;
    assert_int_equal(gw_client_open(&opts, &c), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "input ids: the model leaves its dimension 1 open"));
    opts.shapes = &shape;
    opts.shape_count = 1;
    assert_int_equal(gw_client_open(&opts, &c), 0);
    int64_t *ids = gw_client_slot_input(c, 0, 0, 2);
    for (int i = 0; i < 10; i++) ids[i] = i;
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.rows = 2}), 0);
    wait_for(c, &r);
    if (r.error) fail_msg("%s", r.why);
    assert_int_equal(r.out[0].dims[0], 2);
    assert_int_equal(r.out[0].dims[1], 5);
    for (int i = 0; i < 10; i++) assert_int_equal(((const int64_t *)r.out[0].data)[i], i + 1);
    gw_client_close(c);
}

static void tensors_are_aligned_whatever_comes_before(void **state)
{
    (void)state;
    struct gw_client *c = open_client("odd", 1, 0);
    const uint8_t b[] = {1, 0, 1};
    const double d[] = {0.25, -7.5};
    struct gw_client_reply r;
    assert_int_equal(gw_client_rows(c), 1);
    memcpy(gw_client_slot_input(c, 0, 0, 1), b, 3);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){0}), 0);
    wait_for(c, &r);
    if (r.error) fail_msg("%s", r.why);
    assert_memory_equal(r.out[0].data, b, 3);
    assert_memory_equal(r.out[1].data, d, sizeof(d));
    assert_int_equal((uintptr_t)r.out[1].data % 64, 0);
    gw_client_close(c);
}

/* One request to a model that does not answer it; the slot can be used again. */
static void refused(const char *model, int error, const char *why)
{
    struct gw_client *c = open_client(model, 1, 1);
    struct gw_client_reply r;
    for (uint64_t i = 0; i < 2; i++) {
        submit(c, 0, 1, i);
        wait_for(c, &r);
        if (r.error != error || !strstr(r.why, why))
            fail_msg("%s: %d '%s', expected %d '%s'", model, r.error, r.why, error, why);
        assert_int_equal(r.outputs, 0);
        assert_null(r.out[0].data);
    }
    gw_client_close(c);
}

static void refusals_say_why(void **state)
{
    (void)state;
    refused("late", -ETIME, "status 503: Request timeout expired");
    refused("busy", -EBUSY, "status 429");
    refused("closing", -ESHUTDOWN, "the model is not ready");
    refused("broken", -EREMOTEIO, "it fell ?[31m over"); /* nothing that steers a terminal */
    refused("gone", -ECONNRESET, "has gone");
    refused("lies", -EPROTO, "output y has not the type or shape");
    refused("long", -EPROTO, "output y has not the numbers");
    refused("none", -EPROTO, "not one of the Open Inference Protocol");
}

static int opens(const char *server_url, const char *model, const char *version)
{
    struct gw_client_opts opts = {.server = server_url, .model = model, .version = version};
    struct gw_client *c = NULL;
    int error = gw_client_open(&opts, &c);
    gw_client_close(error ? NULL : c);
    return error;
}

static void urls_and_names(void **state)
{
    (void)state;
    char other[80];
    assert_int_equal(opens(url, "mirror", "3"), 0);
    assert_int_equal(opens(url, "mirror", "4"), -ENOENT);
    assert_int_equal(opens(url, "nobody", NULL), -ENOENT);
    assert_int_equal(opens(url, "a/b", NULL), -EINVAL);
    assert_int_equal(opens(url, "", NULL), -EINVAL);
    assert_int_equal(opens("http://127.0.0.1:1", "mirror", NULL), -ECONNREFUSED);
    assert_int_equal(opens("ftp://127.0.0.1", "mirror", NULL), -ENOTSUP);
    assert_int_equal(opens("http://", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("http://a:b", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("http://user@host", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("http://host:80?x", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("rdma://host:80/x", "mirror", NULL), -EINVAL);
    snprintf(other, sizeof(other), "%s/", url);
    assert_int_equal(opens(other, "mirror", NULL), 0);
    snprintf(other, sizeof(other), "rdma%s", url + 4); /* a prefix: no place for a session */
    assert_int_equal(opens(other, "mirror", NULL), -EINVAL);
    struct gw_client_cpu cpu;
    struct gw_client_stats stats;
    struct gw_client *c = open_client("mirror", 1, 1);
    assert_int_equal(gw_client_worker_cpu(c, &cpu), -ENOTSUP);
    assert_int_equal(gw_client_stats(c, &stats), 0);
    assert_int_equal(stats.success, 0);
    gw_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_described),
        cmocka_unit_test(binary_answers_are_read),
        cmocka_unit_test(answers_as_text_are_read),
        cmocka_unit_test(a_connection_that_the_server_closes_is_opened_again),
        cmocka_unit_test(tensors_are_sent_from_where_they_lie),
        cmocka_unit_test(priority_and_deadline_arrive),
        cmocka_unit_test(dimensions_that_are_open_are_given),
        cmocka_unit_test(tensors_are_aligned_whatever_comes_before),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(urls_and_names),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
