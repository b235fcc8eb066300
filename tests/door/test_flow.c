/* SPDX-License-Identifier: Apache-2.0 */
/* Answers whose bodies are made while they are sent: they come whole, wait without being cut, and end with
 * their client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/door/httpd.h"

#define PATIENCE_MS 300

static struct {
    const void *connection;
    int event;    /* what the body waits for */
    int pieces;   /* of which it has that many, then its end */
    int cut;      /* instead of its end */
    int made;     /* atomic, as the next two */
    int finished; /* what the last wait returned, +1000 */
    int released;
} flow;

static int64_t on_more(void *ctx, char *to, size_t room)
{
    eventfd_t count;
    (void)ctx;
    int err = gw_http_wait(flow.connection, flow.event, GW_NEVER);
    __atomic_store_n(&flow.finished, 1000 + err, __ATOMIC_SEQ_CST);
    if (err) return GW_HTTP_CUT;
    if (flow.made == flow.pieces) return flow.cut ? GW_HTTP_CUT : GW_HTTP_END;
    eventfd_read(flow.event, &count);
    return snprintf(to, room, "piece %d\n", flow.made++);
}

static void on_release(void *ctx)
{
    (void)ctx;
    __atomic_add_fetch(&flow.released, 1, __ATOMIC_SEQ_CST);
}

static void *on_open(void *ctx, const struct gw_http_request *r)
{
    (void)ctx;
    flow.connection = r->connection;
    return strcmp(r->path, "/flow") ? NULL : &flow;
}

static void on_piece(void *stream, const char *data, size_t bytes)
{
    (void)stream, (void)data, (void)bytes;
}

static void on_finish(void *stream, struct gw_http_answer *answer)
{
    (void)stream;
    *answer =
        (struct gw_http_answer){.status = 200, .type = "text/plain", .more = on_more, .release = on_release};
}

static void on_drop(void *stream)
{
    (void)stream;
}

static unsigned on_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    (void)ctx, (void)r;
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

static json_t *on_error(unsigned status, const char *why)
{
    return json_pack("{s:i, s:s}", "our status", status, "our why", why);
}

static struct gw_httpd *flow_start(int pieces, unsigned semaphore)
{
    static const struct gw_httpd_handler handler = {.call = on_call,
                                                    .closed = on_closed,
                                                    .stays = on_stays,
                                                    .open = on_open,
                                                    .piece = on_piece,
                                                    .finish = on_finish,
                                                    .drop = on_drop,
                                                    .error = on_error};
    struct gw_httpd_opts opts = {.patience_ns = PATIENCE_MS * UINT64_C(1000000),
                                 .token = "the token of the test"};
    struct gw_httpd *server;
    memset(&flow, 0, sizeof(flow));
    flow.event = eventfd(semaphore, EFD_SEMAPHORE | EFD_NONBLOCK);
    flow.pieces = pieces;
    assert_int_equal(gw_httpd_start(&opts, &handler, &server), 0);
    return server;
}

static void flow_stop(struct gw_httpd *server)
{
    gw_httpd_stop(server);
    close(flow.event);
}

static int flow_ask(const struct gw_httpd *server, const char *token)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(gw_httpd_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {20, 0};
    char request[256];
    int n = snprintf(request, sizeof(request),
                     "GET /flow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

/* Reads until the server has said `until`. False: it closed before. */
static bool flow_hear(int fd, const char *until, char *text, size_t room)
{
    size_t at = 0;
    ssize_t n = 1;
    text[0] = 0;
    while (at < room - 1 && !strstr(text, until) && (n = recv(fd, text + at, room - 1 - at, 0)) > 0)
        text[at += (size_t)n] = 0;
    return strstr(text, until) != NULL;
}

static bool soon(const int *number, int value)
{
    for (int i = 0; i < 2000; i++, usleep(10000))
        if (__atomic_load_n(number, __ATOMIC_SEQ_CST) == value) return true;
    return false;
}

static void a_body_comes_while_it_is_made(void **state)
{
    struct gw_httpd *server = flow_start(3, 1);
    char text[4096];
    (void)state;
    int fd = flow_ask(server, "the token of the test");
    assert_true(flow_hear(fd, "piece 0\n", text, sizeof(text)));
    assert_non_null(strstr(text, "Transfer-Encoding: chunked"));
    assert_null(strstr(text, "piece 1"));
    eventfd_write(flow.event, 3);
    assert_true(flow_hear(fd, "\r\n0\r\n\r\n", text, sizeof(text)));
    assert_non_null(strstr(text, "piece 1\n"));
    assert_non_null(strstr(text, "piece 2\n"));
    assert_true(soon(&flow.released, 1));
    /* The connection takes a further call. */
    assert_true(
        send(fd, "GET /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer the token of the test\r\n\r\n",
             83, MSG_NOSIGNAL) > 0);
    assert_true(flow_hear(fd, "{}", text, sizeof(text)));
    close(fd);
    flow_stop(server);
}

/* What the server takes its time for is not the client's fault. */
static void one_that_waits_is_not_cut(void **state)
{
    struct gw_httpd *server = flow_start(1, 0);
    char text[4096];
    (void)state;
    int fd = flow_ask(server, "the token of the test");
    for (int ms = 0; ms < 3 * PATIENCE_MS; ms += 20, usleep(20000)) gw_httpd_tend(server);
    eventfd_write(flow.event, 2);
    assert_true(flow_hear(fd, "\r\n0\r\n\r\n", text, sizeof(text)));
    close(fd);
    flow_stop(server);
}

static void a_client_that_goes_ends_the_wait(void **state)
{
    struct gw_httpd *server = flow_start(1000, 1);
    char text[4096];
    (void)state;
    int fd = flow_ask(server, "the token of the test");
    assert_true(flow_hear(fd, "piece 0\n", text, sizeof(text)));
    close(fd);
    assert_true(soon(&flow.released, 1));
    assert_int_equal(flow.finished, 1000 - EPIPE);
    flow_stop(server);
}

static void one_that_reads_nothing_is_cut(void **state)
{
    struct gw_httpd *server = flow_start(100000000, 1000000000);
    (void)state;
    int fd = flow_ask(server, "the token of the test");
    for (int i = 0; i < 1000 && !__atomic_load_n(&flow.released, __ATOMIC_SEQ_CST); i++, usleep(20000))
        gw_httpd_tend(server);
    assert_int_equal(flow.released, 1);
    close(fd);
    flow_stop(server);
}

static void a_broken_body_has_no_end(void **state)
{
    struct gw_httpd *server = flow_start(1, 2);
    char text[4096];
    (void)state;
    flow.cut = 1;
    int fd = flow_ask(server, "the token of the test");
    assert_false(flow_hear(fd, "\r\n0\r\n\r\n", text, sizeof(text)));
    assert_non_null(strstr(text, "piece 0\n"));
    close(fd);
    flow_stop(server);
}

/* Its thread is in the wait. */
static void the_server_can_stop_in_between(void **state)
{
    struct gw_httpd *server = flow_start(1000, 1);
    char text[4096];
    (void)state;
    int fd = flow_ask(server, "the token of the test");
    assert_true(flow_hear(fd, "piece 0\n", text, sizeof(text)));
    flow_stop(server);
    assert_int_equal(flow.released, 1);
    close(fd);
}

static void refusals_are_in_the_owners_words(void **state)
{
    struct gw_httpd *server = flow_start(1, 1);
    char text[4096];
    (void)state;
    int fd = flow_ask(server, "another token");
    assert_true(flow_hear(fd, "our why", text, sizeof(text)));
    assert_non_null(strstr(text, "\"our status\":401"));
    close(fd);
    flow_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_comes_while_it_is_made),    cmocka_unit_test(one_that_waits_is_not_cut),
        cmocka_unit_test(a_client_that_goes_ends_the_wait), cmocka_unit_test(one_that_reads_nothing_is_cut),
        cmocka_unit_test(a_broken_body_has_no_end),         cmocka_unit_test(the_server_can_stop_in_between),
        cmocka_unit_test(refusals_are_in_the_owners_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
