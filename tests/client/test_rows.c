/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of several samples, over both doors, to a model that takes any number of them. The server is in
 * this process. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/client.h>
#include <gpuwire/exec.h>
#include <gpuwire/serve.h>

#define WAIT_NS 60000000000u
enum { A = 3, B = 21, MOST = 8, SLOTS = 4 };

static struct gw_serving *serving;

static int start(void **state)
{
    (void)state;
    struct gw_serving_opts opts = {
        .size = sizeof(opts), .exec = "cpu", .sessions = 4, .slots = SLOTS, .grpc = GW_TEST_GRPC};
    struct gw_serving_model m = {.size = sizeof(m),
                                 .name = "mirror",
                                 .batches = 3,
                                 .batch_sizes = {1, 4, MOST},
                                 .max_delay_ns = 1000000};
    int error = gw_serving_start(&opts, &serving);
    if (!error) error = gw_serving_add_file(serving, &m, MIRROR);
    if (error) print_message("%s\n", gw_last_error());
    return error;
}

static int stop(void **state)
{
    (void)state;
    return gw_serving_stop(serving);
}

static struct gw_client *open_at(const char *scheme, uint32_t slots, uint32_t rows)
{
    char url[64];
    struct gw_client_opts opts = {.server = url, .model = "mirror", .slots = slots, .rows = rows};
    struct gw_client *c = NULL;
    snprintf(url, sizeof(url), "%s127.0.0.1:%u", scheme,
             !strcmp(scheme, "grpc://") ? gw_serving_grpc_port(serving) : gw_serving_port(serving));
    int error = gw_client_open(&opts, &c);
    if (error) fail_msg("opening: %d %s", error, gw_last_error());
    return c;
}

static void fill(float *x, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++) x[i] = (float)id * 1000 + (float)i;
}

static void submit(struct gw_client *c, uint32_t slot, uint32_t rows, uint64_t id)
{
    struct gw_client_request request = {.id = id, .rows = rows, .priority = 1 + (uint32_t)id % 3};
    fill(gw_client_slot_input(c, slot, 0, rows), A * rows, id);
    fill(gw_client_slot_input(c, slot, 1, rows), B * rows, id + 500);
    int error = gw_client_submit(c, slot, &request);
    if (error) fail_msg("request %u: %s", (unsigned)id, gw_last_error());
}

static void check(const struct gw_client_reply *r)
{
    float a[A * MOST], b[B * MOST];
    if (r->error) fail_msg("request %u: %s", (unsigned)r->id, r->why);
    fill(a, A * r->rows, r->id);
    fill(b, B * r->rows, r->id + 500);
    assert_int_equal(r->rows, 1 + r->id % MOST);
    assert_int_equal(r->outputs, 2);
    assert_int_equal(r->out[0].dims[0], r->rows);
    assert_int_equal(r->out[0].dims[1], A);
    assert_int_equal(r->out[0].bytes, sizeof(float) * A * r->rows);
    assert_memory_equal(r->out[0].data, a, sizeof(float) * A * r->rows);
    assert_int_equal(r->out[1].bytes, sizeof(float) * B * r->rows);
    assert_memory_equal(r->out[1].data, b, sizeof(float) * B * r->rows);
}

static void any_number_of_samples(const char *scheme)
{
    enum { REQUESTS = 200 };
    struct gw_client *c = open_at(scheme, SLOTS, 0);
    struct gw_client_reply r;
    uint64_t id = 0;
    uint32_t most = 0;
    assert_int_equal(gw_client_rows(c), MOST);
    assert_int_equal(gw_client_input(c, 0)->batched, 1);
    assert_int_equal(gw_client_input(c, 1)->bytes, B * sizeof(float));
    assert_int_equal(gw_client_slots(c), SLOTS);
    for (uint32_t slot = 0; slot < SLOTS; slot++, id++) submit(c, slot, 1 + (uint32_t)id % MOST, id);
    for (int done = 0; done < REQUESTS; done++) {
        int error = gw_client_wait(c, gw_deadline(WAIT_NS), &r);
        if (error) fail_msg("wait: %s", gw_last_error());
        check(&r);
        if (r.batch > most) most = r.batch;
        if (id < REQUESTS) {
            submit(c, r.slot, 1 + (uint32_t)id % MOST, id);
            id++;
        }
    }
    assert_true(strcmp(gw_client_door(c), "rdma") || most > 1);
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.rows = MOST + 1}), -EINVAL);
    gw_client_close(c);
}

static void any_number_over_rdma(void **state)
{
    (void)state;
    any_number_of_samples("rdma://");
}

static void any_number_over_http(void **state)
{
    (void)state;
    any_number_of_samples("http://");
}

static void any_number_over_grpc(void **state)
{
    (void)state;
    if (!GW_TEST_GRPC) skip();
    any_number_of_samples("grpc://");
}

/* The client keeps room for fewer samples than the worker takes. */
static void fewer_samples_than_there_may_be(void **state)
{
    (void)state;
    struct gw_client *c = open_at("rdma://", 1, 2);
    struct gw_client_reply r;
    assert_int_equal(gw_client_rows(c), 2);
    assert_null(gw_client_slot_input(c, 0, 0, 3));
    submit(c, 0, 2, 9);
    assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
    check(&r);
    gw_client_close(c);
}

/* A request that cannot be answered in time is refused, at once and as late. */
static void late_requests_are_told_so(void **state)
{
    (void)state;
    static const char *const schemes[] = {"rdma://", "http://", "grpc://"};
    for (int i = 0; i < 2 + GW_TEST_GRPC; i++) {
        struct gw_client *c = open_at(schemes[i], 1, 1);
        struct gw_client_request request = {.rows = 1, .budget_ns = 1};
        struct gw_client_reply r;
        assert_int_equal(gw_client_submit(c, 0, &request), 0);
        assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
        if (r.error != -ETIME) fail_msg("%s: %d %s", schemes[i], r.error, r.why);
        gw_client_close(c);
    }
}

static void the_server_counts(void **state)
{
    (void)state;
    static const char *const schemes[] = {"rdma://", "grpc://"};
    struct gw_client_stats stats[2];
    struct gw_client_cpu cpu;
    for (int i = 0; i < 1 + GW_TEST_GRPC; i++) {
        struct gw_client *c = open_at(schemes[i], 1, 1);
        assert_int_equal(gw_client_stats(c, &stats[i]), 0);
        assert_true(stats[i].success >= 401);
        assert_true(stats[i].inferences > stats[i].success);
        assert_true(stats[i].executions > 0 && stats[i].infer_ns > 0 && stats[i].batches > 1);
        assert_int_equal(gw_client_worker_cpu(c, &cpu), i ? -ENOTSUP : 0);
        gw_client_close(c);
    }
    if (GW_TEST_GRPC) assert_memory_equal(&stats[0], &stats[1], sizeof(stats[0])); /* whichever client asks */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_over_rdma),      cmocka_unit_test(any_number_over_http),
        cmocka_unit_test(any_number_over_grpc),      cmocka_unit_test(fewer_samples_than_there_may_be),
        cmocka_unit_test(late_requests_are_told_so), cmocka_unit_test(the_server_counts),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
