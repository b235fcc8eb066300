/* SPDX-License-Identifier: Apache-2.0 */
/* <gpuwire/serve.h>: models come, are replaced and go while clients ask, and no request is lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/serve.h>

#include "tests/server/ask.h"
#include "tests/server/hold.h"

#define WAIT_NS 60000000000u
#define ECHO    GW_TEST_MODELS "/echo/1/model.onnx"
#define SUM     GW_TEST_MODELS "/sum/1/model.onnx"

static struct gw_serving *serving;

static struct gw_http *client(void)
{
    struct gw_http *h;
    char server[32];
    snprintf(server, sizeof(server), "127.0.0.1:%u", gw_serving_port(serving));
    assert_int_equal(ask_open(server, &h), 0);
    return h;
}

static json_t *tensor(const char *name, double first)
{
    json_t *data = json_array();
    for (int i = 0; i < 64; i++) json_array_append_new(data, json_real(first + i));
    return json_pack("{s:s, s:s, s:[i,i], s:o}", "name", name, "datatype", "FP32", "shape", 1, 64, "data",
                     data);
}

/* The model's answer to one or two tensors; its first and last number go to `got`. */
static int ask(struct gw_http *h, const char *model, const char *const names[], double first, double got[2])
{
    char path[64];
    json_t *inputs = json_array(), *reply = NULL;
    for (int i = 0; i < 2 && names[i]; i++) json_array_append_new(inputs, tensor(names[i], first));
    json_t *body = json_pack("{s:o}", "inputs", inputs);
    snprintf(path, sizeof(path), "v2/models/%s/infer", model);
    int error = gw_http_call(h, "POST", path, body, &reply);
    const json_t *data = json_object_get(json_array_get(json_object_get(reply, "outputs"), 0), "data");
    got[0] = json_number_value(json_array_get(data, 0));
    got[1] = json_number_value(json_array_get(data, 63));
    json_decref(body);
    json_decref(reply);
    return error;
}

static const char *const one[] = {"x", NULL}, *const two[] = {"a", "b"};

static void check_echo(struct gw_http *h, const char *model, double first)
{
    double got[2];
    int error = ask(h, model, one, first, got);
    if (error) fail_msg("%s: %d, %s", model, error, gw_last_error());
    assert_true(got[0] == first && got[1] == first + 63);
}

static int add(const char *name, const char *path, uint32_t replace)
{
    struct gw_serving_model m = {.size = sizeof(m), .name = name, .replace = replace};
    return gw_serving_add_file(serving, &m, path);
}

static int start(void **state)
{
    struct gw_serving_opts opts = {.size = sizeof(opts), .exec = "cpu", .sessions = 4, .slots = 4};
    (void)state;
    int error = gw_serving_start(&opts, &serving);
    if (error) print_message("%s\n", gw_last_error());
    return error;
}

static int stop(void **state)
{
    (void)state;
    return gw_serving_stop(serving);
}

/* ---- tests ---- */

static void models_come_and_go(void **state)
{
    struct gw_serving_stats stats;
    double got[2];
    (void)state;
    struct gw_http *h = client();
    assert_int_equal(gw_serving_on_gpu(serving), 0);
    assert_int_equal(ask(h, "echo", one, 1, got), -ENOENT);
    assert_int_equal(add("echo", ECHO, 0), 0);
    check_echo(h, "echo", 7);
    assert_int_equal(add("sum", SUM, 0), 0);
    assert_int_equal(ask(h, "sum", two, 5, got), 0);
    assert_true(got[0] == 10 && got[1] == 136);
    check_echo(h, "echo", 8);
    assert_int_equal(gw_serving_query(serving, "echo", &stats), 0);
    assert_int_equal(stats.successes, 2);
    assert_int_equal(stats.inferences, 2);
    assert_int_equal(stats.executions, 2);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.batches, 1);
    assert_int_equal(stats.batch[0].rows, 1);
    assert_int_equal(stats.batch[0].executions, 2);
    assert_true(stats.compute_infer_ns && stats.queue_ns && stats.batch[0].p99_ns);
    assert_int_equal(gw_serving_remove(serving, "echo"), 0);
    assert_int_equal(ask(h, "echo", one, 1, got), -ENOENT);
    assert_int_equal(gw_serving_query(serving, "echo", &stats), -ENOENT);
    assert_int_equal(ask(h, "sum", two, 6, got), 0);
    assert_int_equal(add("echo", ECHO, 0), 0);
    check_echo(h, "echo", 9);
    assert_int_equal(gw_serving_pause(serving), 0);
    assert_int_equal(gw_serving_resume(serving), 0);
    check_echo(h, "echo", 10);
    gw_http_close(h);
}

static void what_is_wrong_is_said(void **state)
{
    struct gw_serving_model m = {.size = sizeof(m), .name = "echo"};
    struct gw_serving_captured none = {0};
    (void)state;
    assert_int_equal(add("echo", ECHO, 0), 0);
    assert_int_equal(add("echo", ECHO, 0), -EEXIST);
    assert_non_null(strstr(gw_last_error(), "echo"));
    assert_int_equal(add("more", "/nonexistent", 0), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "/nonexistent"));
    assert_int_equal(add("a/b", ECHO, 0), -EINVAL);
    assert_int_equal(add("", ECHO, 0), -EINVAL);
    assert_int_equal(add(NULL, ECHO, 0), -EINVAL);
    assert_int_equal(gw_serving_remove(serving, "more"), -ENOENT);
    m.name = "more";
    assert_int_equal(gw_serving_add_graphs(serving, &m, &none), -ENOTSUP);
    m.batches = 2;
    m.batch_sizes[0] = 1;
    m.batch_sizes[1] = 4;
    assert_int_equal(gw_serving_add_file(serving, &m, ECHO), -EINVAL); /* its batch is fixed */
    m.batches = 17;
    assert_int_equal(gw_serving_add_file(serving, &m, ECHO), -EINVAL);
    m.size--;
    assert_int_equal(gw_serving_add_file(serving, &m, ECHO), -EINVAL);
    struct gw_http *h = client();
    check_echo(h, "echo", 1); /* what failed has done no harm */
    gw_http_close(h);
    struct gw_serving *other;
    struct gw_serving_opts opts = {.size = 1};
    assert_int_equal(gw_serving_start(&opts, &other), -EINVAL);
    opts = (struct gw_serving_opts){.size = sizeof(opts), .exec = "cpu", .port = gw_serving_port(serving)};
    assert_int_equal(gw_serving_start(&opts, &other), -EADDRINUSE);
    assert_int_equal(gw_serving_stop(NULL), 0);
}

static struct {
    uint32_t stop, answered[3];
} asking;

static void *ask_on(void *arg)
{
    uint32_t *answered = arg;
    struct gw_http *h = client();
    for (double i = 0; !__atomic_load_n(&asking.stop, __ATOMIC_RELAXED); i++) {
        check_echo(h, "echo", i);
        __atomic_add_fetch(answered, 1, __ATOMIC_RELAXED);
    }
    gw_http_close(h);
    return NULL;
}

static void wait_for_answers(uint32_t more)
{
    for (int i = 0; i < 3; i++) {
        uint32_t had = __atomic_load_n(&asking.answered[i], __ATOMIC_RELAXED);
        uint64_t end = gw_deadline(WAIT_NS);
        while (__atomic_load_n(&asking.answered[i], __ATOMIC_RELAXED) < had + more && gw_deadline(0) < end)
            gw_wait_fds(NULL, 0, gw_deadline(1000000));
    }
}

/* Clients ask all the time, while their model is replaced and others come and go: each request is
 * answered. */
static void replaced_under_load(void **state)
{
    pthread_t thread[3];
    struct gw_serving_stats stats;
    (void)state;
    memset(&asking, 0, sizeof(asking));
    assert_int_equal(add("echo", ECHO, 1), 0);
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, ask_on, &asking.answered[i]);
    for (int i = 0; i < 5; i++) {
        wait_for_answers(5);
        assert_int_equal(add("echo", ECHO, 1), 0);
        assert_int_equal(add("sum", SUM, 0), 0);
        assert_int_equal(gw_serving_remove(serving, "sum"), 0);
    }
    /* Many changes in a row: a door that takes the lock of the list twice would wait for the change that
     * waits for it. */
    for (int i = 0; i < 200; i++) {
        assert_int_equal(add("sum", SUM, 0), 0);
        assert_int_equal(gw_serving_remove(serving, "sum"), 0);
    }
    wait_for_answers(5);
    __atomic_store_n(&asking.stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(gw_serving_query(serving, "echo", &stats), 0);
    assert_in_range(stats.successes, 15, UINT32_MAX); /* those since the last replacement */
    assert_int_equal(stats.failures + stats.refused + stats.late, 0);
}

static void *wake_later(void *unused)
{
    (void)unused;
    gw_wait_fds(NULL, 0, gw_deadline(20000000));
    gw_serving_wake(serving);
    return NULL;
}

static void the_owner_sleeps(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(gw_serving_wait(serving, gw_deadline(1000000)), -ETIMEDOUT);
    pthread_create(&thread, NULL, wake_later, NULL);
    assert_int_equal(gw_serving_wait(serving, GW_NEVER), -EINTR);
    pthread_join(thread, NULL);
    assert_int_equal(gw_serving_wait(serving, gw_deadline(1000000)), -ETIMEDOUT);
}

/* Takes every place for requests over HTTP that one client may have. */
static void hold_places(int held[2])
{
    static const char text[] = "{\"parameters\":{\"timeout\":20000},\"inputs\":[]}";
    char server[32];
    struct gw_http *h = client();
    json_error_t where;
    json_t *body = json_loads(text, 0, &where), *reply;
    snprintf(server, sizeof(server), "127.0.0.1:%u", gw_serving_port(serving));
    for (int i = 0; i < 2; i++) assert_true((held[i] = hold_begin(server)) >= 0);
    json_object_set_new(body, "inputs", json_array());
    json_array_append_new(json_object_get(body, "inputs"), tensor("x", 0));
    while (!gw_http_call(h, "POST", "v2/models/echo/infer", body, &reply)) json_decref(reply);
    assert_non_null(strstr(gw_last_error(), "Request timeout expired"));
    json_decref(body);
    gw_http_close(h);
}

static struct {
    uint32_t begun, answered;
} waiter;

static void *ask_once(void *unused)
{
    struct gw_http *h = client();
    (void)unused;
    __atomic_store_n(&waiter.begun, 1, __ATOMIC_RELEASE);
    check_echo(h, "echo", 3);
    __atomic_store_n(&waiter.answered, 1, __ATOMIC_RELEASE);
    gw_http_close(h);
    return NULL;
}

/* A request waits for a place. Models come and go all the same, and it is answered when there is one. */
static void models_come_while_requests_wait(void **state)
{
    struct gw_serving_opts opts = {.size = sizeof(opts), .exec = "cpu", .sessions = 4, .slots = 1};
    pthread_t thread;
    int held[2];
    (void)state;
    memset(&waiter, 0, sizeof(waiter));
    assert_int_equal(gw_serving_start(&opts, &serving), 0);
    assert_int_equal(add("echo", ECHO, 0), 0);
    hold_places(held);
    pthread_create(&thread, NULL, ask_once, NULL);
    while (!__atomic_load_n(&waiter.begun, __ATOMIC_ACQUIRE)) gw_wait_fds(NULL, 0, gw_deadline(1000000));
    gw_wait_fds(NULL, 0, gw_deadline(100000000)); /* for it to reach the server */
    assert_int_equal(add("sum", SUM, 0), 0);
    assert_int_equal(gw_serving_remove(serving, "sum"), 0);
    assert_int_equal(__atomic_load_n(&waiter.answered, __ATOMIC_ACQUIRE), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(hold_end(held[i]), 0);
    pthread_join(thread, NULL);
    assert_int_equal(waiter.answered, 1);
    assert_int_equal(gw_serving_stop(serving), 0);
}

/* ---- options ---- */

static int start_with(struct gw_serving_opts opts)
{
    opts.size = sizeof(opts);
    opts.exec = "cpu";
    return gw_serving_start(&opts, &serving);
}

/* The options of a program that was compiled before there were more, and of one that knows more than this
 * library. */
static void options_may_grow(void **state)
{
    struct {
        struct gw_serving_opts known;
        uint64_t unknown;
    } later = {.known = {.size = sizeof(later), .exec = "cpu"}, .unknown = 1};
    struct gw_serving_opts earlier = {
        .size = offsetof(struct gw_serving_opts, grpc), .exec = "cpu", .grpc = 77};
    (void)state;
    assert_int_equal(gw_serving_start(&earlier, &serving), 0);
    assert_int_equal(gw_serving_grpc_port(serving), 0); /* what lies past its size is not looked at */
    assert_int_equal(gw_serving_stop(serving), 0);
    assert_int_equal(gw_serving_start(&later.known, &serving), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "does not know"));
    later.unknown = 0;
    assert_int_equal(gw_serving_start(&later.known, &serving), 0);
    assert_int_equal(gw_serving_stop(serving), 0);
}

static void wrong_options(void **state)
{
    const struct {
        struct gw_serving_opts opts;
        int error;
        const char *says;
    } wrong[] = {
        {{.token = "short"}, -EINVAL, "16 characters"},
        {{.token = "long enough for a token", .token_file = "/dev/null"}, -EINVAL, "not both"},
        {{.model_control = 1}, -EINVAL, "repository"},
        {{.watch = 1}, -EINVAL, "watch needs a repository"},
        {{.model = "echo"}, -EINVAL, "model needs a repository"},
        {{.models = GW_TEST_MODELS, .model = "none"}, -ENOENT, "no model none"},
        {{.resident = 3}, -EINVAL, "resident is 3"},
        {{.log_level = "loud"}, -EINVAL, "log_level loud"},
        {{.access_log = "/nonexistent/log"}, -ENOENT, "/nonexistent/log"},
        {{.grpc_port = 1234}, -EINVAL, "grpc"},
        {{.port = 65536}, -EINVAL, "65535"},
        {{.max_batch = 257}, -EINVAL, "max_batch"},
        {{.tls_cert = "/nonexistent"}, -EINVAL, "go together"},
        {{.tls_cert = "/nonexistent", .tls_key = "/nonexistent"}, -ENOENT, "/nonexistent"},
        {{.models = "/nonexistent"}, -ENOENT, "/nonexistent"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(start_with(wrong[i].opts), wrong[i].error);
        if (!strstr(gw_last_error(), wrong[i].says)) fail_msg("%zu: %s", i, gw_last_error());
    }
}

static int call(struct gw_http *h, const char *method, const char *path)
{
    json_t *reply = NULL, *body = strcmp(method, "GET") ? json_object() : NULL;
    int error = gw_http_call(h, method, path, body, &reply);
    json_decref(body);
    json_decref(reply);
    return error;
}

/* A repository, whose models clients load and unload; a token; and a gRPC door where it is built. */
static void repository_and_token(void **state)
{
    char base[64];
    double got[2];
    const struct gw_serving_opts opts = {.models = GW_TEST_MODELS,
                                         .model_control = 1,
                                         .token = "a-token-that-is-long-enough",
                                         .open_health = 1,
                                         .grpc = GW_TEST_GRPC};
    struct gw_http_opts with = {.base = base, .timeout_ns = WAIT_NS};
    struct gw_http *h, *stranger;
    (void)state;
    if (start_with(opts)) fail_msg("%s", gw_last_error());
    assert_int_equal(gw_serving_grpc_port(serving) != 0, GW_TEST_GRPC);
    snprintf(base, sizeof(base), "http://127.0.0.1:%u/", gw_serving_port(serving));
    assert_int_equal(gw_http_open(&with, &stranger), 0);
    assert_int_equal(call(stranger, "GET", "v2/models/echo"), -EACCES);
    assert_int_equal(call(stranger, "GET", "v2/health/ready"), 0);
    with.token = opts.token;
    assert_int_equal(gw_http_open(&with, &h), 0);
    check_echo(h, "echo", 3);
    assert_int_equal(call(h, "POST", "v2/repository/models/echo/unload"), 0);
    assert_int_equal(ask(h, "echo", one, 1, got), -ENOENT);
    assert_int_equal(call(h, "POST", "v2/repository/models/echo/load"), 0);
    check_echo(h, "echo", 4);
    assert_int_equal(add("more", ECHO, 0), 0); /* beside those of the repository */
    check_echo(h, "more", 5);
    gw_http_close(stranger);
    gw_http_close(h);
    assert_int_equal(gw_serving_stop(serving), 0);
}

static void copy(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0755), 0); /* whatever the umask is */
}

/* A model that is a shared object. */
static void plug_in(void **state)
{
    char file[256], coefficients[256];
    char folder[] = "/tmp/gpuwire-plugin-XXXXXX";
    double got[2];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/model.so", folder);
    snprintf(coefficients, sizeof(coefficients), "%s/coefficients.txt", folder);
    copy(GW_TEST_PLUGIN, file);
    FILE *f = fopen(coefficients, "w");
    assert_non_null(f);
    fputs("64 3 1", f);
    fclose(f);
    assert_int_equal(start_with((struct gw_serving_opts){0}), 0);
    int error = add("affine", file, 0);
    if (error) fail_msg("%d, %s", error, gw_last_error());
    struct gw_http *h = client();
    assert_int_equal(ask(h, "affine", one, 10, got), 0);
    assert_true(got[0] == 31 && got[1] == 220);
    gw_http_close(h);
    assert_int_equal(gw_serving_remove(serving, "affine"), 0);
    assert_int_equal(chmod(file, 0777), 0);
    assert_int_equal(add("affine", file, 0), -EPERM);
    assert_non_null(strstr(gw_last_error(), "chmod go-w"));
    assert_int_equal(gw_serving_stop(serving), 0);
    unlink(file);
    unlink(coefficients);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(models_come_and_go, start, stop),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said, start, stop),
        cmocka_unit_test_setup_teardown(replaced_under_load, start, stop),
        cmocka_unit_test_setup_teardown(the_owner_sleeps, start, stop),
        cmocka_unit_test(models_come_while_requests_wait),
        cmocka_unit_test(options_may_grow),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(repository_and_token),
        cmocka_unit_test(plug_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
