/* SPDX-License-Identifier: Apache-2.0 */
/* <gpuwire/serve.h>: how a server inside a program is run. It follows its repository, keeps an access log,
 * says as much as it is told to, and answers what is under way before it ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
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
#define LOOK_NS 10000000u

static struct gw_serving *serving;
static char folder[64], place[32];

/* ---- a folder with models ---- */

/* Of the last four. */
static const char *path(const char *name)
{
    static char text[4][192];
    static int next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof(text[0]), "%s/%s", folder, name);
    return to;
}

static void put_model(const char *name)
{
    char from[512], bytes[4096];
    snprintf(from, sizeof(from), "%s/%s/1/model.onnx", GW_TEST_MODELS, name);
    mkdir(path("new"), 0755);
    mkdir(path("new/1"), 0755);
    FILE *in = fopen(from, "r"), *out = fopen(path("new/1/model.onnx"), "w");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    char models[128];
    snprintf(models, sizeof(models), "models/%s", name);
    assert_int_equal(rename(path("new"), path(models)), 0);
}

static int erase(const char *name, const struct stat *st, int flag, struct FTW *where)
{
    (void)st, (void)flag, (void)where;
    return remove(name);
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gpuwire-running-XXXXXX");
    if (!mkdtemp(folder) || mkdir(path("models"), 0755)) return -1;
    put_model("echo");
    return 0;
}

static int end(void **state)
{
    (void)state;
    return nftw(folder, erase, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- a server ---- */

static void start(struct gw_serving_opts opts)
{
    opts.size = sizeof(opts);
    opts.exec = "cpu";
    if (!opts.models) opts.models = path("models");
    if (gw_serving_start(&opts, &serving)) fail_msg("%s", gw_last_error());
    snprintf(place, sizeof(place), "127.0.0.1:%u", gw_serving_port(serving));
}

static void stop(void)
{
    assert_int_equal(gw_serving_stop(serving), 0);
}

static int is_served(const char *model)
{
    struct gw_http *h;
    char call[64];
    json_t *reply = NULL;
    assert_int_equal(ask_open(place, &h), 0);
    snprintf(call, sizeof(call), "v2/models/%s", model);
    int error = gw_http_call(h, "GET", call, NULL, &reply);
    json_decref(reply);
    gw_http_close(h);
    return !error;
}

/* Until it is so, or a minute is over. */
static int becomes(const char *model, int served)
{
    uint64_t until = gw_deadline(WAIT_NS);
    while (is_served(model) != served && gw_deadline(0) < until) gw_wait_fds(NULL, 0, gw_deadline(LOOK_NS));
    return is_served(model) == served;
}

/* A request to echo; 0: it was answered. */
static int ask(void)
{
    int held = hold_begin(place);
    assert_true(held >= 0);
    return hold_end(held);
}

static int has(const char *file, const char *text)
{
    char bytes[16384];
    FILE *f = fopen(file, "r");
    if (!f) return 0;
    bytes[fread(bytes, 1, sizeof(bytes) - 1, f)] = '\0';
    fclose(f);
    return strstr(bytes, text) != NULL;
}

/* ---- tests ---- */

static void follows_its_repository(void **state)
{
    (void)state;
    start((struct gw_serving_opts){.watch = 1});
    assert_true(is_served("echo"));
    assert_false(is_served("sum"));
    put_model("sum");
    assert_true(becomes("sum", 1));
    assert_int_equal(nftw(path("models/echo"), erase, 8, FTW_DEPTH | FTW_PHYS), 0);
    assert_true(becomes("echo", 0));
    assert_true(is_served("sum"));
    stop();
}

static void without_watch_models_stay(void **state)
{
    (void)state;
    start((struct gw_serving_opts){0});
    put_model("sum");
    gw_wait_fds(NULL, 0, gw_deadline(1000000000));
    assert_false(is_served("sum"));
    stop();
}

static void one_model_alone(void **state)
{
    struct gw_serving_opts none = {.size = sizeof(none), .exec = "cpu", .model = "none"};
    (void)state;
    put_model("sum");
    start((struct gw_serving_opts){.model = "sum", .watch = 1});
    assert_true(is_served("sum"));
    assert_false(is_served("echo"));
    stop();
    none.models = path("models");
    assert_int_equal(gw_serving_start(&none, &serving), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "no model none"));
}

static void keeps_an_access_log(void **state)
{
    uint64_t until = gw_deadline(WAIT_NS);
    (void)state;
    start((struct gw_serving_opts){.access_log = path("log")});
    assert_int_equal(ask(), 0);
    while (!has(path("log"), "\"model\":\"echo\"") && gw_deadline(0) < until)
        gw_wait_fds(NULL, 0, gw_deadline(LOOK_NS));
    assert_int_equal(rename(path("log"), path("old")), 0);
    assert_int_equal(gw_serving_reopen_log(serving), 0);
    assert_int_equal(ask(), 0);
    stop(); /* which writes what there is */
    assert_true(has(path("old"), "\"model\":\"echo\""));
    assert_true(has(path("log"), "\"model\":\"echo\""));
    start((struct gw_serving_opts){0});
    assert_int_equal(gw_serving_reopen_log(serving), -ENOENT);
    stop();
}

/* The standard error of a server with these options while it starts. */
static void say(struct gw_serving_opts opts, const char *file)
{
    int kept = dup(2), to = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && to >= 0 && dup2(to, 2) == 2);
    start(opts);
    assert_int_equal(ask(), 0); /* also inside the kernel that waits */
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    close(to);
    stop();
}

static void small_models_and_what_is_said(void **state)
{
    const char *line = "model echo, batches of 1: in the kernel that waits";
    (void)state;
    say((struct gw_serving_opts){.resident = GW_SERVING_RESIDENT_ALWAYS, .log_level = "error"}, path("err"));
    assert_false(has(path("err"), line));
    say((struct gw_serving_opts){.resident = GW_SERVING_RESIDENT_ALWAYS, .log_level = "info"}, path("err"));
    assert_true(has(path("err"), line));
    say((struct gw_serving_opts){0}, path("err"));
    assert_false(has(path("err"), "in the kernel that waits"));
}

static void *end_it(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gw_serving_stop(serving);
}

/* A request is under way while the server ends. Is it answered? */
static int answered_at_the_end(uint64_t drain_ns, uint64_t *took_ns)
{
    pthread_t thread;
    void *error;
    start((struct gw_serving_opts){.drain_ns = drain_ns, .log_level = "error"});
    int held = hold_begin(place);
    assert_true(held >= 0);
    gw_wait_fds(NULL, 0, gw_deadline(200000000)); /* for it to reach the server */
    uint64_t began = gw_deadline(0);
    assert_int_equal(pthread_create(&thread, NULL, end_it, NULL), 0);
    gw_wait_fds(NULL, 0, gw_deadline(1000000000));
    int answered = !hold_end(held);
    pthread_join(thread, &error);
    *took_ns = gw_deadline(0) - began;
    assert_null(error);
    return answered;
}

static void what_is_under_way_is_answered(void **state)
{
    uint64_t took;
    (void)state;
    assert_true(answered_at_the_end(WAIT_NS, &took));
    assert_in_range(took, 1000000000u, WAIT_NS / 2); /* not before, and no longer than the request needs */
    assert_false(answered_at_the_end(0, &took));
    assert_false(answered_at_the_end(300000000, &took)); /* it took too long */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(follows_its_repository, begin, end),
        cmocka_unit_test_setup_teardown(without_watch_models_stay, begin, end),
        cmocka_unit_test_setup_teardown(one_model_alone, begin, end),
        cmocka_unit_test_setup_teardown(keeps_an_access_log, begin, end),
        cmocka_unit_test_setup_teardown(small_models_and_what_is_said, begin, end),
        cmocka_unit_test_setup_teardown(what_is_under_way_is_answered, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
