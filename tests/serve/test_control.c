/* SPDX-License-Identifier: Apache-2.0 */
/* The control path without RDMA: HTTP server against HTTP client, percentiles, the model repository, CPU
 * times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include "src/serve/cputime.h"
#include "src/serve/http_client.h"
#include "src/serve/httpd.h"
#include "src/serve/percentile.h"
#include "src/serve/repository.h"

static void percentiles_are_nearest_ranks(void **state)
{
    (void)state;
    struct gw_samples s = {0};
    assert_int_equal(gw_samples_percentile(&s, 50), 0);
    for (int i = 100; i >= 1; i--) assert_int_equal(gw_samples_add(&s, i), 0);
    gw_samples_sort(&s);
    assert_int_equal(gw_samples_percentile(&s, 50), 50);
    assert_int_equal(gw_samples_percentile(&s, 99), 99);
    assert_int_equal(gw_samples_percentile(&s, 99.9), 100);
    assert_int_equal(gw_samples_percentile(&s, 100), 100);
    assert_int_equal(gw_samples_percentile(&s, 0), 1);
    gw_samples_free(&s);
}

static void touch(const char *dir, const char *path)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s/%s", dir, path);
    for (char *slash = whole + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fclose(f);
}

static void repository_takes_the_highest_version(void **state)
{
    (void)state;
    char dir[] = "/tmp/gpuwire-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    struct gw_repository r;
    assert_int_equal(gw_repository_scan(dir, &r), -ENOENT);
    touch(dir, "net/2/model.onnx");
    touch(dir, "net/10/model.onnx");
    touch(dir, "net/11/other.onnx"); /* not a model */
    touch(dir, "net/x9/model.onnx"); /* not a version */
    touch(dir, "abc/1/model.onnx");
    touch(dir, "empty/readme");
    assert_int_equal(gw_repository_scan(dir, &r), 0);
    assert_int_equal(r.count, 2);
    assert_string_equal(r.entry[0].name, "abc");
    assert_string_equal(r.entry[1].name, "net");
    assert_int_equal(r.entry[1].version, 10);
    assert_non_null(strstr(r.entry[1].path, "net/10/model.onnx"));
    gw_repository_free(&r);
    assert_int_equal(gw_repository_scan("/nonexistent/models", &r), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "/nonexistent/models"));
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

struct seen {
    atomic_int calls, closed;
};

static unsigned on_call(void *ctx, const char *method, const char *path, const json_t *body,
                        const void *connection, json_t **reply)
{
    struct seen *seen = ctx;
    assert_non_null(connection);
    seen->calls++;
    if (!strcmp(path, "/echo")) {
        *reply = json_pack("{s:s, s:O}", "method", method, "body", body ? body : json_null());
        return 200;
    }
    *reply = json_pack("{s:s}", "error", "no such thing");
    return !strcmp(path, "/busy") ? 503 : 404;
}

static void on_closed(void *ctx, const void *connection)
{
    struct seen *seen = ctx;
    assert_non_null(connection);
    seen->closed++;
}

static void client_and_server_talk_json(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct gw_httpd_handler handler = {&seen, on_call, on_closed};
    struct gw_httpd *server, *second;
    struct gw_http *client;
    char where[32];
    json_t *reply, *body = json_pack("{s:i}", "n", 7);
    assert_int_equal(gw_httpd_start("127.0.0.1", 0, &handler, &server), 0);
    snprintf(where, sizeof(where), "127.0.0.1:%u", gw_httpd_port(server));
    assert_int_equal(gw_httpd_start("127.0.0.1", gw_httpd_port(server), &handler, &second), -EADDRINUSE);
    assert_int_equal(gw_httpd_start("localhost!", 0, &handler, &second), -EINVAL);

    assert_int_equal(gw_http_open(where, 60000000000u, NULL, &client), 0);
    assert_int_equal(gw_http_call(client, "POST", "echo", body, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "POST");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(reply, "body"), "n")), 7);
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "GET", "echo", NULL, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "GET");
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "DELETE", "echo", NULL, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "DELETE");
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "GET", "busy", NULL, &reply), -EBUSY);
    assert_int_equal(gw_http_call(client, "GET", "nothing", NULL, &reply), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "no such thing"));
    assert_int_equal(seen.closed, 0); /* five calls, one connection, still open */
    gw_http_close(client);
    for (int i = 0; i < 6000 && !seen.closed; i++) usleep(10000);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(seen.calls, 5);

    gw_httpd_stop(server);
    assert_int_equal(gw_http_open(where, 60000000000u, NULL, &client), 0);
    assert_int_equal(gw_http_call(client, "GET", "echo", NULL, &reply), -ECONNREFUSED);
    gw_http_close(client);
    json_decref(body);
}

struct burner {
    const char *name;
    sem_t burnt, measured;
};

static void *burn(void *arg)
{
    struct burner *b = arg;
    struct timespec t;
    prctl(PR_SET_NAME, b->name);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_nsec < 50000000);
    sem_post(&b->burnt);
    sem_wait(&b->measured); /* still there when it is measured */
    return NULL;
}

static void nic_threads_are_counted_apart(void **state)
{
    (void)state;
    struct gw_cputime before, after;
    struct burner b = {.name = "gw-nic"};
    pthread_t thread;
    assert_int_equal(sem_init(&b.burnt, 0, 0) | sem_init(&b.measured, 0, 0), 0);
    assert_int_equal(gw_cputime_read(&before), 0);
    assert_int_equal(pthread_create(&thread, NULL, burn, &b), 0);
    while (sem_wait(&b.burnt)) continue;
    assert_int_equal(gw_cputime_read(&after), 0);
    sem_post(&b.measured);
    pthread_join(thread, NULL);
    assert_true(after.nic_ns - before.nic_ns >= 40000000);
    assert_true(after.own_ns - before.own_ns < 40000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_nearest_ranks),
        cmocka_unit_test(repository_takes_the_highest_version),
        cmocka_unit_test(client_and_server_talk_json),
        cmocka_unit_test(nic_threads_are_counted_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
