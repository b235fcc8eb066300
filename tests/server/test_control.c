/* SPDX-License-Identifier: Apache-2.0 */
/* The control path without RDMA: HTTP server against HTTP client, the model repository, CPU
 * times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include "src/server/lifecycle/cputime.h"
#include "src/door/httpd.h"
#include "src/server/worker/repository.h"
#include "tests/server/ask.h"

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

/* A user may write to the repository, and links to a folder that only the server's user may read. */
static void names_behind_a_link_are_not_told(void **state)
{
    char dir[] = "/tmp/gpuwire-test-XXXXXX", secret[] = "/tmp/gpuwire-test-XXXXXX", link[128], command[160];
    struct gw_repository r;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_non_null(mkdtemp(secret));
    touch(dir, "net/1/model.onnx");
    touch(dir, "plain/1/weights.bin");
    touch(dir, "folder/readme");
    touch(secret, "1/customers.db");
    snprintf(link, sizeof(link), "%s/linked", dir); /* the model's folder */
    assert_int_equal(symlink(secret, link), 0);
    snprintf(link, sizeof(link), "%s/folder/7", dir); /* a version's */
    snprintf(command, sizeof(command), "%s/1", secret);
    assert_int_equal(symlink(command, link), 0);
    assert_int_equal(gw_repository_scan(dir, &r), 0);
    assert_int_equal(r.others, 3);
    int named = 0;
    for (size_t i = 0; i < r.others; i++) {
        assert_null(strstr(r.other[i].why, "customers"));
        named += strstr(r.other[i].why, "weights.bin") != NULL;
    }
    assert_int_equal(named, 1);
    gw_repository_free(&r);
    snprintf(command, sizeof(command), "rm -rf %s %s", dir, secret);
    assert_int_equal(system(command), 0);
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
    assert_int_equal(r.others, 0);
    gw_repository_free(&r);
    assert_int_equal(gw_repository_scan("/nonexistent/models", &r), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "/nonexistent/models"));
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static const char *why_of(const struct gw_repository *r, const char *name)
{
    for (size_t i = 0; i < r->others; i++)
        if (!strcmp(r->other[i].name, name)) return r->other[i].why;
    return NULL;
}

static void repository_tells_models_of_other_kinds(void **state)
{
    (void)state;
    char dir[] = "/tmp/gpuwire-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    struct gw_repository r;
    touch(dir, "engine/1/model.plan");
    touch(dir, "engine/2/model.plan");
    touch(dir, "bare/config.pbtxt");
    touch(dir, "notes/readme");
    touch(dir, "coming/1/.half-a-file");
    touch(dir, "caf\xe9/1/model.onnx");
    touch(dir, "th\xe9/1/model.plan");
    assert_int_equal(gw_repository_scan(dir, &r), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "no model in it that runs here; "));
    touch(dir, "folder/1/model.onnx/model.onnx");
    touch(dir, "folder/config.pbtxt");
    assert_int_equal(gw_repository_scan(dir, &r), 0);
    assert_int_equal(r.count, 1);
    assert_true(r.entry[0].has_config);
    assert_non_null(strstr(r.entry[0].path, "folder/1/model.onnx/model.onnx"));
    assert_int_equal(r.others, 4);
    assert_string_equal(why_of(&r, "engine"), "it has model.plan, and neither model.onnx nor model.so");
    assert_string_equal(why_of(&r, "bare"),
                        "it has a config.pbtxt and no version: bare/1/model.onnx is expected");
    assert_string_equal(why_of(&r, "caf?"), "its folder's name is no UTF-8, so no client could ask for it");
    assert_string_equal(why_of(&r, "th?"), "it has model.plan, and neither model.onnx nor model.so");
    gw_repository_free(&r);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

struct seen {
    atomic_int calls, closed, stays;
    unsigned uid; /* the caller's, as the server knows it */
};

static unsigned on_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct seen *seen = ctx;
    assert_non_null(r->connection);
    seen->calls++;
    seen->uid = (unsigned)-1;
    sscanf(r->who, "user %u", &seen->uid);
    if (!strcmp(r->path, "/echo")) {
        *reply = json_pack("{s:s, s:O}", "method", r->method, "body", r->body ? r->body : json_null());
        return 200;
    }
    if (!strcmp(r->path, "/large")) {
        char text[8001];
        memset(text, 'y', 8000);
        text[8000] = 0;
        *reply = json_pack("{s:s}", "text", text);
        return 200;
    }
    *reply = json_pack("{s:s}", "error", "no such thing\033[2J");
    return !strcmp(r->path, "/busy") ? 503 : 404;
}

static void on_closed(void *ctx, const void *connection)
{
    struct seen *seen = ctx;
    assert_non_null(connection);
    seen->closed++;
}

static bool on_stays(void *ctx, const void *connection)
{
    struct seen *seen = ctx;
    (void)connection;
    return seen->stays;
}

static void client_and_server_talk_json(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct gw_httpd_handler handler = {.ctx = &seen, .call = on_call, .closed = on_closed, .stays = on_stays};
    struct gw_httpd_opts opts = {0};
    struct gw_httpd *server, *second;
    struct gw_http *client;
    char where[32];
    json_t *reply, *body = json_pack("{s:i}", "n", 7);
    assert_int_equal(gw_httpd_start(&opts, &handler, &server), 0);
    snprintf(where, sizeof(where), "127.0.0.1:%u", gw_httpd_port(server));
    opts.port = gw_httpd_port(server);
    assert_int_equal(gw_httpd_start(&opts, &handler, &second), -EADDRINUSE);
    opts.host = "localhost!";
    assert_int_equal(gw_httpd_start(&opts, &handler, &second), -EINVAL);

    assert_int_equal(ask_open(where, &client), 0);
    assert_int_equal(gw_http_call(client, "POST", "echo", body, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "POST");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(reply, "body"), "n")), 7);
    assert_int_equal(seen.uid, getuid());
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "GET", "echo", NULL, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "GET");
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "DELETE", "echo", NULL, &reply), 0);
    assert_string_equal(json_string_value(json_object_get(reply, "method")), "DELETE");
    json_decref(reply);
    assert_int_equal(gw_http_call(client, "GET", "busy", NULL, &reply), -EBUSY);
    assert_int_equal(gw_http_call(client, "GET", "nothing", NULL, &reply), -ENOENT);
    assert_non_null(strstr(gw_last_error(), "no such thing?[2J")); /* nothing of it steers a terminal */
    assert_int_equal(seen.closed, 0); /* five calls, one connection, still open */
    gw_http_close(client);
    for (int i = 0; i < 6000 && !seen.closed; i++) usleep(10000);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(seen.calls, 5);

    gw_httpd_stop(server);
    assert_int_equal(ask_open(where, &client), 0);
    assert_int_equal(gw_http_call(client, "GET", "echo", NULL, &reply), -ECONNREFUSED);
    gw_http_close(client);
    json_decref(body);
}

/* ---- callers that mean no good ---- */

static int connect_to(const struct gw_httpd *server)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(gw_httpd_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int is_over(int fd)
{
    char bytes[4096];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) continue;
    return n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Drips a byte of `text` at a time, for as long as the server lets it, and reads nothing. 1: it was cut
 * off. */
static int drip(struct gw_httpd *server, const char *text)
{
    int fd = connect_to(server), over = 0;
    for (int i = 0; i < 2000 && !over; i++) {
        if (send(fd, *text ? text++ : " ", 1, MSG_NOSIGNAL) < 0) over = 1;
        usleep(10000);
        gw_httpd_tend(server);
        over |= is_over(fd);
    }
    close(fd);
    return over;
}

/* Asks again and again and never takes an answer, until the server cannot send any more. 1: it was cut
 * off. */
static int take_nothing(struct gw_httpd *server)
{
    static const char call[] = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = connect_to(server), over = 0, small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    for (int i = 0; i < 2000 && !over; i++) {
        for (int k = 0; k < 100; k++)
            if (send(fd, call, sizeof(call) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
                over = 1;
        usleep(10000);
        gw_httpd_tend(server);
    }
    close(fd);
    return over;
}

static struct gw_httpd *patient_for(uint64_t ns, uint32_t each, struct seen *seen)
{
    struct gw_httpd_handler handler = {.ctx = seen, .call = on_call, .closed = on_closed, .stays = on_stays};
    struct gw_httpd_opts opts = {.patience_ns = ns, .max_each = each};
    struct gw_httpd *server;
    assert_int_equal(gw_httpd_start(&opts, &handler, &server), 0);
    return server;
}

static void slow_callers_are_cut_off(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct gw_httpd *server = patient_for(300000000, 0, &seen);
    assert_true(drip(server, "GET /echo HTTP/1.1\r\nX: "));
    assert_true(drip(server, "POST /echo HTTP/1.1\r\nContent-Length: 9999\r\n\r\n"));
    assert_true(drip(server, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n"));
    assert_true(drip(server, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nX:"));
    assert_true(drip(server, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}DELETE "));
    assert_true(take_nothing(server));
    for (int i = 0; i < 6000 && seen.closed < 6; i++) usleep(10000);
    assert_int_equal(seen.closed, 6);
    gw_httpd_stop(server);
}

static void whoever_holds_something_may_be_silent(void **state)
{
    (void)state;
    struct seen seen = {.stays = 1};
    struct gw_httpd *server = patient_for(50000000, 0, &seen);
    int fd = connect_to(server);
    for (int i = 0; i < 20; i++, usleep(20000)) gw_httpd_tend(server);
    assert_false(is_over(fd));
    seen.stays = 0; /* it has ended */
    for (int i = 0; i < 6000 && !is_over(fd); i++, usleep(10000)) gw_httpd_tend(server);
    assert_true(is_over(fd));
    close(fd);
    gw_httpd_stop(server);
}

static void one_client_has_so_many_connections(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct gw_httpd *server = patient_for(0, 5, &seen);
    int fd[6];
    for (int i = 0; i < 6; i++) fd[i] = connect_to(server);
    send(fd[5], "GET /echo HTTP/1.0\r\n\r\n", 22, MSG_NOSIGNAL); /* is told why, and closed */
    for (int i = 0; i < 6000 && !is_over(fd[5]); i++) usleep(10000);
    assert_true(is_over(fd[5]));
    assert_int_equal(seen.calls, 0);
    for (int i = 0; i < 5; i++) assert_false(is_over(fd[i]));
    close(fd[0]);
    for (int i = 0; i < 6000 && seen.closed < 2; i++) usleep(10000);
    close(fd[5]);
    fd[0] = connect_to(server);
    usleep(50000);
    assert_false(is_over(fd[0])); /* there is room again */
    for (int i = 0; i < 5; i++) close(fd[i]);
    gw_httpd_stop(server);
}

static void long_and_deep_bodies_are_refused(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct gw_httpd *server = patient_for(0, 0, &seen);
    struct gw_http *client;
    char where[32], *text = malloc(100001);
    json_t *reply = NULL, *body;
    snprintf(where, sizeof(where), "127.0.0.1:%u", gw_httpd_port(server));
    assert_int_equal(ask_open(where, &client), 0);
    memset(text, 'x', 100000);
    text[100000] = 0;
    body = json_pack("{s:s}", "n", text);
    assert_int_equal(gw_http_call(client, "POST", "echo", body, &reply), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "too long"));
    json_decref(body);
    body = json_array();
    for (int i = 0; i < 2000;
         i++) { /* more levels than a thread's stack has room for; jansson's own limit is 2048 */
        json_t *around = json_array();
        json_array_append_new(around, body);
        body = around;
    }
    assert_int_equal(gw_http_call(client, "POST", "echo", body, &reply), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "nested too deeply"));
    json_decref(body);
    assert_int_equal(seen.calls, 0);
    body = json_pack("{s:s}", "n", "[[[[[[[[[[[[[[[[[[[[\"\\{{{{{{{{{{{{{{{{{{{{"); /* text, not levels */
    assert_int_equal(gw_http_call(client, "POST", "echo", body, &reply), 0);
    json_decref(reply);
    json_decref(body);
    gw_http_close(client);
    free(text);
    gw_httpd_stop(server);
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
        cmocka_unit_test(names_behind_a_link_are_not_told),
        cmocka_unit_test(repository_takes_the_highest_version),
        cmocka_unit_test(repository_tells_models_of_other_kinds),
        cmocka_unit_test(client_and_server_talk_json),
        cmocka_unit_test(slow_callers_are_cut_off),
        cmocka_unit_test(whoever_holds_something_may_be_silent),
        cmocka_unit_test(one_client_has_so_many_connections),
        cmocka_unit_test(long_and_deep_bodies_are_refused),
        cmocka_unit_test(nic_threads_are_counted_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
