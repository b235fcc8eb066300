/* SPDX-License-Identifier: Apache-2.0 */
/* A worker process and clients in this one: answers against golden ones and against the model run here,
 * sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/import/npy.h"
#include "tests/server/ask.h"
#include "tests/server/process.h"

#define TILE    (224 * 224)
#define LARGE   (672 * 672)
#define WAIT_NS 60000000000u

static struct worker_process worker;

static int start(void **state)
{
    static const char *const options[] = {"--sessions", "2", "--slots", "3", NULL};
    (void)state;
    return worker_start(&worker, "models", options);
}

static int stop(void **state)
{
    (void)state;
    return worker_stop(&worker);
}

static struct gw_client *open_client(const char *model, uint32_t slots)
{
    struct gw_client_opts opts = {.server = worker.server, .model = model, .slots = slots};
    struct gw_client *c = NULL;
    int error = gw_client_open(&opts, &c);
    if (error) print_message("%s\n", gw_last_error());
    assert_int_equal(error, 0);
    return c;
}

static void fill(float *x, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1u << 24);
    }
}

static void identity_gives_back_every_bit(void **state)
{
    (void)state;
    struct gw_client *c = open_client("identity", 0);
    float *want = malloc(TILE * sizeof(float));
    assert_int_equal(gw_client_slots(c), 3);
    assert_int_equal(gw_client_input(c, 0)->rank, 4);
    assert_int_equal(gw_client_input(c, 0)->bytes, TILE * sizeof(float));
    for (uint32_t i = 0; i < 3; i++) {
        fill(gw_client_slot_input(c, i, 0, 1), TILE, 100 + i);
        assert_int_equal(gw_client_submit(c, i, &(struct gw_client_request){.id = 1000 + i}), 0);
        assert_int_equal(gw_client_submit(c, i, &(struct gw_client_request){.id = 1}), -EBUSY);
    }
    assert_int_equal(gw_client_submit(c, 3, &(struct gw_client_request){.id = 1}), -EINVAL);
    assert_null(gw_client_slot_input(c, 3, 0, 1));
    for (uint32_t i = 0; i < 3; i++) {
        struct gw_client_reply r;
        assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
        assert_int_equal(r.error, 0);
        assert_int_equal(r.id, 1000 + r.slot);
        fill(want, TILE, 100 + r.slot);
        assert_memory_equal(r.out[0].data, want, TILE * sizeof(float));
        /* The parts make up the whole, and on one machine, where both read one clock, each is a time. */
        const struct gw_client_times *t = &r.times;
        assert_true(t->total > 0);
        assert_int_equal(t->net_in + t->wait + t->model + t->post + t->net_out, t->total);
        assert_true(t->net_in > 0 && t->wait >= 0 && t->model >= 0 && t->post >= 0 && t->net_out >= 0);
    }
    struct gw_client_reply none;
    assert_int_equal(gw_client_wait(c, gw_deadline(10000000), &none), -ETIMEDOUT);
    free(want);
    gw_client_close(c);
}

/* golden_output.npy is output[0, 0, ::4, ::4] of what PyTorch makes of golden_input.npy. */
static void superresolution_matches_the_golden_answer(void **state)
{
    (void)state;
    char path[600], why[GW_MODEL_ERR] = "";
    struct gw_npy in, golden;
    struct gw_client_reply r;
    snprintf(path, sizeof(path), "%s/models/superresolution/golden_input.npy", getenv("GPUWIRE_SOURCE"));
    assert_int_equal(gw_npy_read(path, &in, why, sizeof(why)), 0);
    snprintf(path, sizeof(path), "%s/models/superresolution/golden_output.npy", getenv("GPUWIRE_SOURCE"));
    assert_int_equal(gw_npy_read(path, &golden, why, sizeof(why)), 0);
    assert_int_equal(in.count, TILE);
    assert_int_equal(golden.count, 168 * 168);

    struct gw_client *c = open_client("superresolution", 1);
    memcpy(gw_client_slot_input(c, 0, 0, 1), in.data, TILE * sizeof(float));
    assert_int_equal(gw_client_submit(c, 0, &(struct gw_client_request){.id = 7}), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
    assert_int_equal(r.error, 0);
    float *some = malloc(golden.count * sizeof(float));
    for (size_t y = 0; y < 168; y++)
        for (size_t x = 0; x < 168; x++)
            some[y * 168 + x] = ((const float *)r.out[0].data)[4 * y * 672 + 4 * x];
    struct gw_tensor_diff diff;
    gw_tensor_compare(some, golden.data, golden.count, 1e-4, &diff);
    print_message("largest difference to the golden answer: %.2g\n", diff.worst);
    assert_int_equal(diff.wrong, 0);
    free(some);
    gw_npy_free(&in);
    gw_npy_free(&golden);
    gw_client_close(c);
}

/* The same model, run in this process: the worker's answers are the same numbers, in whatever slot. */
static void answers_equal_the_model_run_here(void **state)
{
    (void)state;
    char path[600], why[GW_MODEL_ERR] = "";
    struct gw_model *model;
    struct gw_plan *plan;
    struct gw_plan_options options = {.place = GW_PLACE_CPU, .threads = 1};
    snprintf(path, sizeof(path), "%s/models/superresolution/1/model.onnx", getenv("GPUWIRE_SOURCE"));
    assert_int_equal(gw_model_open(path, &model, why, sizeof(why)), 0);
    assert_int_equal(gw_plan_create(model, &options, &plan, why, sizeof(why)), 0);
    float *in = aligned_alloc(64, TILE * sizeof(float)), *out = aligned_alloc(64, LARGE * sizeof(float));

    struct gw_client *c = open_client("superresolution", 3);
    for (uint32_t i = 0; i < 3; i++) {
        fill(gw_client_slot_input(c, i, 0, 1), TILE, 7 + i);
        assert_int_equal(gw_client_submit(c, i, &(struct gw_client_request){.id = i}), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct gw_client_reply r;
        struct gw_tensor_diff diff;
        assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
        assert_int_equal(r.error, 0);
        fill(in, TILE, 7 + r.slot);
        const void *ins[] = {in};
        void *outs[] = {out};
        assert_int_equal(gw_plan_run(plan, ins, outs), 0);
        gw_tensor_compare(r.out[0].data, out, LARGE, 1e-6, &diff);
        assert_int_equal(diff.wrong, 0);
    }
    gw_client_close(c);
    gw_plan_free(plan);
    gw_model_close(model);
    free(in);
    free(out);
}

static void sessions_are_counted_and_refused(void **state)
{
    (void)state;
    struct gw_client *a = open_client("identity", 1), *b = open_client("identity", 1), *refused = NULL;
    struct gw_client_opts opts = {.server = worker.server, .model = "identity"};
    assert_int_equal(worker_stat(&worker, "identity", "sessions_open"), 2);
    assert_int_equal(gw_client_open(&opts, &refused), -EBUSY);
    assert_non_null(strstr(gw_last_error(), "all 2 sessions are taken"));
    gw_client_close(a);
    assert_int_equal(gw_client_open(&opts, &refused), 0); /* at once: what was closed is free */
    gw_client_close(refused);
    gw_client_close(b);
    assert_int_equal(worker_stat(&worker, "identity", "sessions_open"), 0);
    opts.model = "nothing";
    assert_int_equal(gw_client_open(&opts, &refused), -ENOENT);
    opts.model = "../identity";
    assert_int_equal(gw_client_open(&opts, &refused), -EINVAL);
}

static void sessions_can_be_opened_again_and_again(void **state)
{
    (void)state;
    struct gw_client *other = open_client("identity", 1);
    for (uint32_t i = 0; i < 40; i++) {
        struct gw_client *c = open_client("identity", 0);
        struct gw_client_reply r;
        for (uint32_t k = 0; k < gw_client_slots(c); k++) {
            fill(gw_client_slot_input(c, k, 0, 1), TILE, i);
            assert_int_equal(gw_client_submit(c, k, &(struct gw_client_request){.id = i}), 0);
        }
        assert_int_equal(gw_client_wait(c, gw_deadline(WAIT_NS), &r), 0);
        assert_int_equal(r.id, i);
        gw_client_close(c); /* with two requests still under way */
    }
    fill(gw_client_slot_input(other, 0, 0, 1), TILE, 5);
    struct gw_client_reply r;
    assert_int_equal(gw_client_submit(other, 0, &(struct gw_client_request){.id = 5}), 0);
    assert_int_equal(gw_client_wait(other, gw_deadline(WAIT_NS), &r), 0);
    assert_int_equal(r.id, 5);
    gw_client_close(other);
}

static void http(struct gw_http *h, const char *method, const char *path, const char *body, int want)
{
    json_t *reply = NULL, *json = body ? json_loads(body, 0, NULL) : NULL;
    int got = gw_http_call(h, method, path, json, &reply);
    if (got != want)
        print_message("%s %s %s: %d, %s\n", method, path, body ? body : "", got, gw_last_error());
    assert_int_equal(got, want);
    json_decref(reply);
    json_decref(json);
}

static void the_api_answers_and_refuses(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{}",
        "[1,2]",
        "{\"model\":5}",
        "{\"model\":\"identity\"}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:zz\",\"reply_addr\":\"0x0\",\"reply_stride\":1,\"reply_"
        "rkey\":0}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:00000000000000000000ffff7f000001:0000ff:000001:1024:0\","
        "\"reply_addr\":\"7\",\"reply_stride\":300000,\"reply_rkey\":0}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:00000000000000000000ffff7f000001:0000ff:000001:1024:0\","
        "\"reply_addr\":\"0x7000\",\"reply_stride\":1000,\"reply_rkey\":0}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:00000000000000000000ffff7f000001:0000ff:000001:1024:0\","
        "\"reply_addr\":\"0xffffffffffffff00\",\"reply_stride\":300000,\"reply_rkey\":0}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:00000000000000000000ffff7f000001:0000ff:000001:1024:0\","
        "\"reply_addr\":\"0x7000\",\"reply_stride\":300000,\"reply_rkey\":-1}",
        "{\"model\":\"identity\",\"endpoint\":\"gw:1:00000000000000000000ffff7f000001:0000ff:000001:1024:0\","
        "\"reply_addr\":\"0x7000\",\"reply_stride\":300000,\"reply_rkey\":1,\"slots\":-4}",
    };
    struct gw_http *h;
    assert_int_equal(ask_open(worker.server, &h), 0);
    http(h, "GET", "v2", NULL, 0);
    http(h, "GET", "v2/health/live", NULL, 0);
    http(h, "GET", "v2/health/ready", NULL, 0);
    http(h, "GET", "v2/models/identity", NULL, 0);
    http(h, "GET", "v2/models/identity/ready", NULL, 0);
    http(h, "GET", "v2/models/identity/versions/1/ready", NULL, 0);
    http(h, "GET", "v2/models/identity/versions/2", NULL, -ENOENT);
    http(h, "GET", "v2/models/nothing", NULL, -ENOENT);
    http(h, "GET", "v2/models/", NULL, -ENOENT);
    http(h, "GET", "nonsense", NULL, -ENOENT);
    http(h, "POST", "v2/models/identity/infer", "{}", -EINVAL);
    http(h, "DELETE", "v2/models/identity", NULL, -EINVAL);
    http(h, "GET", "v2/rdma/sessions", NULL, -EINVAL);
    http(h, "DELETE", "v2/rdma/sessions/0123", NULL, -ENOENT);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        http(h, "POST", "v2/rdma/sessions", wrong[i], -EINVAL);
    gw_http_close(h);
    assert_int_equal(worker_stat(&worker, "identity", "sessions_open"), 0);
    assert_true(worker_alive(&worker));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_gives_back_every_bit),
        cmocka_unit_test(superresolution_matches_the_golden_answer),
        cmocka_unit_test(answers_equal_the_model_run_here),
        cmocka_unit_test(sessions_are_counted_and_refused),
        cmocka_unit_test(sessions_can_be_opened_again_and_again),
        cmocka_unit_test(the_api_answers_and_refuses),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
