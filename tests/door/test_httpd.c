/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the HTTP server answers with no, before it looks at what they ask: raw bytes over a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/door/httpd.h"
#include "src/door/origin.h"
#include "src/door/room.h"

static char last_who[64];
static int calls; /* of one connection after the other: no two at once */

static unsigned on_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    (void)ctx;
    snprintf(last_who, sizeof(last_who), "%s", r->who);
    calls++;
    *reply = json_object();
    return 200;
}

static void on_closed(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
}

static bool on_stays(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
    return false;
}

static struct gw_httpd *start(const struct gw_httpd_opts *opts)
{
    static const struct gw_httpd_handler handler = {.call = on_call, .closed = on_closed, .stays = on_stays};
    struct gw_httpd *server;
    assert_int_equal(gw_httpd_start(opts, &handler, &server), 0);
    calls = 0;
    return server;
}

static int knock(const struct gw_httpd *server)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(gw_httpd_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {20, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Reads until the server closes, or has said `until`. Returns the status of the first answer; *closed. */
static int hear(int fd, const char *until, char *text, size_t room, int *closed)
{
    size_t at = 0;
    ssize_t n = 1;
    text[0] = 0;
    while (at < room - 1 && !(until && strstr(text, until)) &&
           (n = recv(fd, text + at, room - 1 - at, 0)) > 0)
        text[at += (size_t)n] = 0;
    *closed = n <= 0;
    return strncmp(text, "HTTP/1.1 ", 9) ? 0 : atoi(text + 9);
}

static int ask(const struct gw_httpd *server, const char *request, char *text, size_t room, int *closed)
{
    int fd = knock(server);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    int status = hear(fd, "}", text, room, closed);
    if (!*closed) { /* is another one answered? */
        struct timeval soon = {0, 100000};
        char one;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
        *closed = recv(fd, &one, 1, 0) == 0;
    }
    close(fd);
    return status;
}

static void a_call_with_two_ends_is_refused(void **state)
{
    static const char *const wrong[] = {
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 44\r\n\r\n{}",
        "Content-Length: 2\r\ncontent-length: 02\r\n\r\n{}",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Host: other\r\nContent-Length: 2\r\n\r\n{}",
        "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}",
        "Content-Length\t: 5\r\nContent-Length: 2\r\n\r\n{}",
    };
    struct gw_httpd *server = start(&(struct gw_httpd_opts){0});
    char request[512], text[4096];
    int closed;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(request, sizeof(request), "POST /a HTTP/1.1\r\nHost: localhost\r\n%sGET /b HTTP/1.1\r\n\r\n",
                 wrong[i]);
        int status = ask(server, request, text, sizeof(text), &closed);
        if (status != 400 || !closed || calls) fail_msg("%s: %s", wrong[i], text);
    }
    assert_int_equal(
        ask(server, "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            text, sizeof(text), &closed),
        200);
    gw_httpd_stop(server);
}

static void pages_of_strangers_are_refused(void **state)
{
    /* Host, Origin (NULL: none), allowed? */
    static const struct {
        const char *host, *origin;
        int allowed;
    } cases[] = {
        {"127.0.0.1:8000", NULL, 1},
        {"[::1]:8000", NULL, 1},
        {"192.0.2.7", NULL, 1},
        {"localhost:8000", NULL, 1},
        {"gpu.localhost", NULL, 1},
        {"LOCALHOST.:8000", NULL, 1},
        {"worker", NULL, 1},
        {NULL, NULL, 1},
        {"", NULL, 0},
        {"localhost:80.evil.example", NULL, 0},
        {"gpu.example.com", NULL, 1},
        {"GPU.example.com:8000", NULL, 1},
        {"models.internal", NULL, 1},
        {"evil.example", NULL, 0},
        {"evil.example:8000", NULL, 0},
        {"127.0.0.1.evil.example", NULL, 0},
        {"localhost.evil.example", NULL, 0},
        {"gpu.example.com.evil.example", NULL, 0},
        {"xgpu.example.com", NULL, 0},
        {"evil.example:x@localhost", NULL, 0},
        {"[::1", NULL, 0},
        {"localhost:8000", "http://localhost:8000", 1},
        {"[::1]:8000", "http://[::1]:8000", 1},
        {"gpu.example.com", "https://gpu.example.com", 1},
        {"127.0.0.1:8000", "https://gpu.example.com", 1}, /* a proxy says its own Host */
        {"localhost:8000", "http://localhost:3000", 0},
        {"localhost:8000", "http://evil.example", 0},
        {"localhost:8000", "https://localhost.evil.example:8000", 0},
        {"localhost:8000", "null", 0},
        {"localhost:8000", "", 0},
        {"localhost:8000", "localhost:8000", 0},
        {"evil.example:8000", "http://evil.example:8000", 0},
        {"worker", "http://worker", 0}, /* a page's own name may be short in this network */
        {NULL, "http://evil.example", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *why = gw_http_foreign(cases[i].host, cases[i].origin, "gpu.example.com, models.internal");
        if ((why == NULL) != cases[i].allowed)
            fail_msg("Host %s, Origin %s: %s", cases[i].host, cases[i].origin, why);
    }
}

static void the_server_asks_where_a_call_comes_from(void **state)
{
    static const char text_post[] =
        "POST /a HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nContent-Type: text/plain\r\n"
        "Content-Length: 2\r\n\r\n{}";
    struct gw_httpd *server = start(&(struct gw_httpd_opts){.host_names = "gpu.example.com"});
    char request[512], text[4096];
    int closed;
    (void)state;
    snprintf(request, sizeof(request), text_post, "localhost", "http://evil.example");
    assert_int_equal(ask(server, request, text, sizeof(text), &closed), 403);
    assert_non_null(strstr(text, "--host-name"));
    assert_int_equal(
        ask(server, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", text, sizeof(text), &closed), 403);
    assert_int_equal(
        ask(server, "DELETE /a HTTP/1.1\r\nHost: evil.example\r\n\r\n", text, sizeof(text), &closed), 403);
    assert_int_equal(calls, 0);
    assert_int_equal(ask(server, "GET /v2/health/live HTTP/1.1\r\nHost: evil.example\r\n\r\n", text,
                         sizeof(text), &closed),
                     200);
    snprintf(request, sizeof(request), text_post, "gpu.example.com", "http://gpu.example.com");
    assert_int_equal(ask(server, request, text, sizeof(text), &closed), 200);
    gw_httpd_stop(server);
    /* A page does not know the token. */
    server = start(&(struct gw_httpd_opts){.token = "0123456789abcdef"});
    assert_int_equal(
        ask(server, "GET /a HTTP/1.1\r\nHost: any.example\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n",
            text, sizeof(text), &closed),
        200);
    assert_int_equal(ask(server, "GET /a HTTP/1.1\r\nHost: any.example\r\n\r\n", text, sizeof(text), &closed),
                     401);
    gw_httpd_stop(server);
}

static void one_connection_too_many_is_told_why(void **state)
{
    struct gw_httpd_opts opts = {.max_each = 3, .each_option = "--connections-per-client"};
    struct gw_httpd *server = start(&opts);
    static const char big[] = "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n";
    char text[4096], body[300000] = "";
    int fd[3], closed;
    (void)state;
    for (int i = 0; i < 3; i++) fd[i] = knock(server);
    assert_int_equal(ask(server, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n", text, sizeof(text), &closed),
                     503);
    assert_true(closed);
    assert_non_null(strstr(text, "has 3 connections open"));
    assert_non_null(strstr(text, "--connections-per-client"));
    /* One that sends a lot first is told, too. */
    int late = knock(server);
    assert_int_equal(send(late, big, sizeof(big) - 1, MSG_NOSIGNAL), sizeof(big) - 1);
    assert_int_equal(send(late, body, sizeof(body), MSG_NOSIGNAL), sizeof(body));
    assert_int_equal(hear(late, "}", text, sizeof(text), &closed), 503);
    close(late);
    assert_int_equal(calls, 0);
    for (int i = 0; i < 3; i++) close(fd[i]);
    int status = 0; /* when the server has noticed */
    for (int i = 0; i < 200 && status != 200; i++, usleep(10000))
        status = ask(server, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n", text, sizeof(text), &closed);
    assert_int_equal(status, 200);
    gw_httpd_stop(server);
}

static void a_trusted_proxy_speaks_for_its_clients(void **state)
{
    static const struct {
        const char *trusted, *forwarded, *who; /* who NULL: this test's own user */
    } cases[] = {
        {"", "192.0.2.7", NULL},
        {"192.0.2.1", "192.0.2.7", NULL},
        {"127.0.0.1", "192.0.2.7", "192.0.2.7"},
        {"user %u", "192.0.2.7", "192.0.2.7"},
        {"10.0.0.0/8,127.0.0.0/8", "198.51.100.1, 192.0.2.7", "192.0.2.7"},
        {"10.0.0.0/8,127.0.0.0/8", "198.51.100.1, 192.0.2.7 , 10.1.2.3", "192.0.2.7"},
        {"127.0.0.1", "192.0.2.7:4711", "192.0.2.7"},
        {"127.0.0.1", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
        {"127.0.0.1", "[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"},
        {"127.0.0.1", "::ffff:192.0.2.7", "192.0.2.7"},
        {"127.0.0.1", "127.0.0.1", NULL}, /* itself */
        {"127.0.0.1", "127.0.0.5", NULL}, /* an address of this host names no other */
        {"127.0.0.1", "user 0", NULL},
        {"127.0.0.1", "unknown", NULL},
        {"127.0.0.1", "", NULL},
        {"127.0.0.1", ",,,", NULL},
        {"127.0.0.1", "evil, 192.0.2.7", "192.0.2.7"},
        {"127.0.0.1", "192.0.2.7, evil", NULL},
    };
    char me[64], list[128], request[512], text[4096];
    int closed;
    (void)state;
    snprintf(me, sizeof(me), "user %u", (unsigned)getuid());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gw_proxies proxies;
        struct gw_httpd_opts opts = {.proxies = &proxies};
        if (strchr(cases[i].trusted, '%'))
            snprintf(list, sizeof(list), "%s", me);
        else
            snprintf(list, sizeof(list), "%s", cases[i].trusted);
        assert_int_equal(gw_proxies_parse("--trusted-proxy", list, &proxies), 0);
        struct gw_httpd *server = start(&opts);
        snprintf(request, sizeof(request),
                 "GET /a HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\n\r\n", cases[i].forwarded);
        assert_int_equal(ask(server, request, text, sizeof(text), &closed), 200);
        if (strcmp(last_who, cases[i].who ? cases[i].who : me))
            fail_msg("%s trusted, %s: '%s'", cases[i].trusted, cases[i].forwarded, last_who);
        gw_httpd_stop(server);
    }
}

static void lists_of_proxies_are_checked(void **state)
{
    static const char *const wrong[] = {"localhost",         "10.0.0.0/33",       "10.0.0.0/0", "10.0.0.0/x",
                                        "10.0.0.0/",         "fd00::/129",        "user",       "user x",
                                        "10.0.0.1 10.0.0.2", "10.0.0.1,,10.0.0.2"};
    struct gw_proxies p;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (gw_proxies_parse("--trusted-proxy", wrong[i], &p) != -EINVAL) fail_msg("%s is taken", wrong[i]);
    assert_int_equal(gw_proxies_parse("--trusted-proxy", NULL, &p), 0);
    assert_int_equal(p.count, 0);
    assert_int_equal(gw_proxies_parse("--trusted-proxy", " 10.0.0.1 , fd00::/64,user 33 ", &p), 0);
    assert_int_equal(p.count, 3);
}

static void room_is_left_for_others(void **state)
{
    struct gw_room r;
    char who[32];
    uint64_t had = 0;
    (void)state;
    gw_room_open(&r, 1000);
    while (!gw_room_take(&r, "user 1", 10)) had += 10;
    assert_int_equal(had, 500);
    assert_int_equal(gw_room_take(&r, "user 1", 1), -EAGAIN);
    for (int i = 2; i < 12; i++) { /* each that comes finds something */
        snprintf(who, sizeof(who), "user %d", i);
        assert_int_equal(gw_room_take(&r, who, 10), 0);
    }
    assert_int_equal(gw_room_take(&r, "user 99", UINT64_MAX), -EAGAIN);
    gw_room_give(&r, "user 1", 500);
    assert_int_equal(gw_room_take(&r, "user 1", 400), 0);
    gw_room_give(&r, "user 1", 400);
    for (int i = 2; i < 12; i++) {
        snprintf(who, sizeof(who), "user %d", i);
        gw_room_give(&r, who, 10);
    }
    assert_int_equal(r.held, 0);
    assert_null(r.first);
    gw_room_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_with_two_ends_is_refused),
        cmocka_unit_test(pages_of_strangers_are_refused),
        cmocka_unit_test(the_server_asks_where_a_call_comes_from),
        cmocka_unit_test(one_connection_too_many_is_told_why),
        cmocka_unit_test(a_trusted_proxy_speaks_for_its_clients),
        cmocka_unit_test(lists_of_proxies_are_checked),
        cmocka_unit_test(room_is_left_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
