/* SPDX-License-Identifier: Apache-2.0 */
/* A call goes to the handler whose path it has, and so does each piece of its body. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/door/fork.h"

struct side {
    char name;
    uint32_t calls, closed, pieces, finished, refused, dropped;
    bool stays, opens;
};

static unsigned fork_side_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct side *s = ctx;

    s->calls++;
    *reply = json_string(r->path);
    return s->name == 'a' ? 200 : 201;
}

static void fork_side_closed(void *ctx, const void *connection)
{
    (void)connection;
    ((struct side *)ctx)->closed++;
}

static bool fork_side_stays(void *ctx, const void *connection)
{
    (void)connection;
    return ((struct side *)ctx)->stays;
}

static void *fork_side_open(void *ctx, const struct gw_http_request *r)
{
    (void)r;
    return ((struct side *)ctx)->opens ? ctx : NULL;
}

static void fork_side_piece(void *stream, const char *data, size_t bytes)
{
    assert_memory_equal(data, "xyz", bytes);
    ((struct side *)stream)->pieces++;
}

static void fork_side_finish(void *stream, struct gw_http_answer *answer)
{
    answer->status = (unsigned)((struct side *)stream)->name;
    ((struct side *)stream)->finished++;
}

static void fork_side_refuse(void *stream, unsigned status, const char *why)
{
    (void)status, (void)why;
    ((struct side *)stream)->refused++;
}

static void fork_side_drop(void *stream)
{
    ((struct side *)stream)->dropped++;
}

static struct gw_httpd_handler side_of(struct side *s)
{
    return (struct gw_httpd_handler){s,
                                     .call = fork_side_call,
                                     .closed = fork_side_closed,
                                     .stays = fork_side_stays,
                                     .open = fork_side_open,
                                     .piece = fork_side_piece,
                                     .finish = fork_side_finish,
                                     .refuse = fork_side_refuse,
                                     .drop = fork_side_drop};
}

static bool is_beside(void *ctx, const char *path)
{
    assert_int_equal(((struct side *)ctx)->name, 'b');
    return !strncmp(path, "/b/", 3);
}

static void one_body(const struct gw_httpd_handler *h, const char *path, char name)
{
    const struct gw_http_request r = {.method = "POST", .path = path};
    struct gw_http_answer answer = {0};
    void *stream = h->open(h->ctx, &r);

    assert_non_null(stream);
    h->piece(stream, "xyz", 3);
    h->finish(stream, &answer);
    h->refuse(stream, 400, "no");
    h->drop(stream);
    assert_int_equal(answer.status, name);
}

static void test_paths(void **state)
{
    struct side a = {.name = 'a', .opens = true}, b = {.name = 'b', .opens = true};
    struct gw_http_fork f = {side_of(&a), side_of(&b), is_beside};
    struct gw_httpd_handler h = gw_http_fork_handler(&f);
    const struct gw_http_request to_a = {.method = "GET", .path = "/b"},
                                 to_b = {.method = "GET", .path = "/b/x"};
    json_t *reply;

    (void)state;
    assert_int_equal(h.call(h.ctx, &to_a, &reply), 200);
    assert_string_equal(json_string_value(reply), "/b");
    json_decref(reply);
    assert_int_equal(h.call(h.ctx, &to_b, &reply), 201);
    json_decref(reply);
    one_body(&h, "/", 'a');
    one_body(&h, "/b/", 'b');
    assert_int_equal(a.pieces + a.finished + a.refused + a.dropped, 4);
    assert_int_equal(b.pieces + b.finished + b.refused + b.dropped, 4);
}

/* Both hear of connections, and either may keep one. */
static void test_connections(void **state)
{
    struct side a = {.name = 'a'}, b = {.name = 'b'};
    struct gw_http_fork f = {side_of(&a), side_of(&b), is_beside};
    struct gw_httpd_handler h = gw_http_fork_handler(&f);
    const struct gw_http_request r = {.method = "POST", .path = "/b/"};

    (void)state;
    assert_false(h.stays(h.ctx, &a));
    b.stays = true;
    assert_true(h.stays(h.ctx, &a));
    h.closed(h.ctx, &a);
    assert_int_equal(a.closed + b.closed, 2);
    assert_null(h.open(h.ctx, &r)); /* no memory, or no such call: the door refuses it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths), cmocka_unit_test(test_connections)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
