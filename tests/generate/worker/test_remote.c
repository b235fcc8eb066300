/* SPDX-License-Identifier: Apache-2.0 */
/* A generator in one process, and clients in others: sessions over HTTP, tokens by RDMA. Clients are killed,
 * and the server is. The first argument says which of them the program is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/generate.h>

#include "src/generate/client/remote.h"
#include "src/generate/rdma/sessions.h"
#include "tests/generate/worker/rig.h"

#define STREAMS 64

/* ---- the server ---- */

static int serve(void)
{
    static struct rig r;
    struct gen_rdma *rdma;
    struct gw_httpd *httpd;
    char c;
    rig_begin(&r, 1, (struct gen_worker_opts){.lanes = 16, .sessions = 16, .slots = STREAMS});
    rig_slow(&r, 500);
    struct gen_worker *worker[] = {r.worker};
    assert_int_equal(
        gen_rdma_create(&(struct gen_rdma_opts){.worker = worker, .workers = 1, .each = 16}, &rdma), 0);
    const struct gw_httpd_handler handler = {
        .ctx = rdma, .call = gen_rdma_call, .closed = gen_rdma_closed, .stays = gen_rdma_stays};
    assert_int_equal(gw_httpd_start(&(struct gw_httpd_opts){0}, &handler, &httpd), 0);
    printf("%u\n", gw_httpd_port(httpd));
    fflush(stdout);
    while (read(0, &c, 1) > 0) { /* "?": how many sessions clients have, and requests there are */
        struct gen_source_stats s;
        gen_worker_stats(r.worker, &s);
        printf("%u %u\n", gen_pool_open_count(gen_worker_pool(r.worker)), s.running + s.waiting);
        fflush(stdout);
    }
    gw_httpd_stop(httpd);
    rig_end(&r);
    gen_rdma_destroy(rdma);
    return 0;
}

struct child {
    pid_t pid;
    int to;
    FILE *from;
};

static char *self;

static void begin_child(struct child *c, const char *role, const char *arg)
{
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (!c->pid) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execl(self, self, role, arg, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    c->to = to[1];
    c->from = fdopen(from[0], "r");
}

static int end_child(struct child *c, int signal)
{
    int status;
    if (signal) kill(c->pid, signal);
    close(c->to);
    fclose(c->from);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return status;
}

static void read_url(struct child *server, char url[64])
{
    unsigned port = 0;
    assert_int_equal(fscanf(server->from, "%u", &port), 1);
    snprintf(url, 64, "http://127.0.0.1:%u", port);
}

/* Waits until the server has that number of sessions, and no request. */
static void await_sessions(struct child *server, unsigned want)
{
    unsigned sessions = 0, requests = 1;
    for (int i = 0; i < 3000 && (sessions != want || requests); i++) {
        assert_int_equal(write(server->to, "?", 1), 1);
        assert_int_equal(fscanf(server->from, "%u %u", &sessions, &requests), 2);
        usleep(10000);
    }
    assert_int_equal(sessions, want);
    assert_int_equal(requests, 0);
}

/* ---- a client ---- */

struct remote {
    struct rig rig; /* its source, for told_submit */
    struct gen_remote *remote;
    struct gen_client *client;
};

static void open_remote(struct remote *r, const char *url)
{
    uint32_t slots;
    struct gen_client_opts opts = {.name = "fake", .sessions = 2, .share = 2 * STREAMS};
    memset(r, 0, sizeof(*r));
    assert_int_equal(gw_exec_create("cpu", NULL, &r->rig.exec), 0);
    assert_int_equal(gw_device_open("softnic", r->rig.exec, &r->rig.dev), 0);
    if (gen_remote_open(&(struct gen_remote_opts){.url = url}, &r->remote)) fail_msg("%s", gw_last_error());
    gen_remote_shape(r->remote, &opts.shape, &slots);
    assert_int_equal(opts.shape.context, RIG_CONTEXT);
    opts.slots = slots;
    opts.dev = r->rig.dev;
    opts.link = gen_remote_link(r->remote);
    if (gen_client_create(&opts, &r->client)) fail_msg("%s", gw_last_error());
    r->rig.source = gen_client_source(r->client);
}

static void close_remote(struct remote *r)
{
    gen_client_destroy(r->client);
    gen_remote_close(r->remote);
    assert_int_equal(gw_device_close(r->rig.dev), 0);
    gw_exec_destroy(r->rig.exec);
}

/* A process that submits streams again and again, until it is killed. */
static void busy_client(const char *url)
{
    static struct remote r;
    static struct told t[STREAMS];
    open_remote(&r, url);
    for (uint32_t round = 0;; round++) {
        for (uint32_t i = 0; i < STREAMS; i++) told_submit(&r.rig, &t[i], i, 1 + i, 100, "");
        if (!round) puts("busy"), fflush(stdout);
        for (uint32_t i = 0; i < STREAMS; i++) told_wait(&r.rig, &t[i]);
    }
}

/* ---- tests ---- */

static void streams_of_another_process(void **state)
{
    (void)state;
    struct child server;
    struct remote r;
    static struct told t[STREAMS];
    char url[64];
    begin_child(&server, "serve", NULL);
    read_url(&server, url);
    open_remote(&r, url);
    for (uint32_t i = 0; i < STREAMS; i++)
        assert_int_equal(told_submit(&r.rig, &t[i], i, 1 + i, 1 + i, "me"), 0);
    for (uint32_t i = 0; i < STREAMS; i += 5) r.rig.source.ops->cancel(t[i].stream);
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t status = told_wait(&r.rig, &t[i]);
        assert_true(status == GEN_LENGTH || (i % 5 == 0 && status == GEN_CANCELLED));
    }
    close_remote(&r);
    await_sessions(&server, 0);
    assert_int_equal(end_child(&server, 0), 0);
}

/* The connection that opened a session ends with the process, and so the session does. */
static void clients_that_are_killed(void **state)
{
    (void)state;
    struct child server, client[4];
    char url[64], word[16];
    begin_child(&server, "serve", NULL);
    read_url(&server, url);
    for (int i = 0; i < 4; i++) begin_child(&client[i], "client", url);
    for (int i = 0; i < 4; i++) assert_int_equal(fscanf(client[i].from, "%15s", word), 1);
    for (int i = 0; i < 4; i++) end_child(&client[i], SIGKILL);
    await_sessions(&server, 0);
    struct remote r;
    struct told t;
    open_remote(&r, url);
    assert_int_equal(told_submit(&r.rig, &t, 3, 20, 20, ""), 0);
    assert_int_equal(told_wait(&r.rig, &t), GEN_LENGTH);
    close_remote(&r);
    assert_int_equal(end_child(&server, 0), 0);
}

/* Streams that have had tokens end; what comes then finds no session. */
static void a_server_that_is_killed(void **state)
{
    (void)state;
    struct child server;
    struct remote r;
    static struct told t[8], late;
    char url[64];
    begin_child(&server, "serve", NULL);
    read_url(&server, url);
    open_remote(&r, url);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(told_submit(&r.rig, &t[i], i, 20, 200, ""), 0);
    while (!told_events(&t[0])) usleep(1000);
    end_child(&server, SIGKILL);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(told_wait(&r.rig, &t[i]), GEN_FAILED);
    const struct gen_source_ask ask = {.request = {.prompt = 1, .max_tokens = 1, .top_p = 1, .repetition = 1},
                                       .prompt = late.token};
    int err = r.rig.source.ops->submit(r.rig.source.own, &ask, &late.stream);
    assert_true(err == -EIO || err == -EAGAIN);
    close_remote(&r);
}

/* Another client's id is not to be guessed, and closing is for the one that has it. */
static void calls_that_make_no_sense(void **state)
{
    (void)state;
    struct child server;
    char url[64];
    struct gen_remote *remote = NULL;
    begin_child(&server, "serve", NULL);
    read_url(&server, url);
    assert_int_equal(gen_remote_open(&(struct gen_remote_opts){.url = url, .model = "none"}, &remote),
                     -ENOENT);
    assert_int_equal(gen_remote_open(&(struct gen_remote_opts){.url = "ftp://x"}, &remote), -ENOTSUP);
    assert_int_equal(gen_remote_open(&(struct gen_remote_opts){.url = url}, &remote), 0);
    struct gen_link link = gen_remote_link(remote);
    struct gen_grant grant = {.id = "00000000000000000000000000000000"};
    struct gen_wish wish = {.slots = 1, .ring = 0, .event_stride = 4096};
    assert_int_equal(link.ops->confirm(link.ctx, &grant), -ENOENT);
    assert_int_equal(link.ops->open(link.ctx, &wish, &grant), -EINVAL);
    wish.ring = 1u << 30;
    assert_int_equal(link.ops->open(link.ctx, &wish, &grant), -EINVAL);
    gen_remote_close(remote);
    await_sessions(&server, 0);
    assert_int_equal(end_child(&server, 0), 0);
}

/* <gpuwire/generate.h>: streams of one session, whose events come mixed. */
static void the_public_client(void **state)
{
    (void)state;
    struct child server;
    struct gw_generate *g;
    struct gw_generate_model model;
    struct gw_generate_event e;
    uint32_t token[4][RIG_CONTEXT], n[4], left = 4;
    uint64_t stream[4];
    char url[64];
    begin_child(&server, "serve", NULL);
    read_url(&server, url);
    if (gw_generate_open(&(struct gw_generate_opts){.server = url}, &g)) fail_msg("%s", gw_last_error());
    gw_generate_describe(g, &model);
    assert_string_equal(model.name, "fake");
    assert_int_equal(model.vocab, FAKE_VOCAB);
    assert_int_equal(gw_generate_next(g, 0, &e), -EAGAIN);
    for (uint32_t i = 0; i < 4; i++) {
        n[i] = 10 + i;
        for (uint32_t k = 0; k < n[i]; k++) token[i][k] = i * k;
        const struct gw_generate_request r = {
            .prompt = token[i], .prompt_tokens = n[i], .max_tokens = i == 3 ? 200 : 20};
        assert_int_equal(gw_generate_submit(g, &r, gw_deadline(PATIENCE), &stream[i]), 0);
    }
    assert_int_equal(gw_generate_cancel(g, stream[3]), 0);
    assert_int_equal(gw_generate_cancel(g, stream[3] + 1), -ENOENT);
    while (left) {
        uint32_t i = 0;
        assert_int_equal(gw_generate_next(g, gw_deadline(PATIENCE), &e), 0);
        while (stream[i] != e.stream) i++;
        if (e.token != GW_GENERATE_NO_TOKEN) {
            assert_int_equal(e.token, fake_net_next(token[i], n[i]));
            token[i][n[i]++] = e.token;
        }
        left -= e.status != GW_GENERATE_GOING;
        assert_true(e.status == GW_GENERATE_GOING ||
                    e.status == (i == 3 ? GW_GENERATE_CANCELLED : GW_GENERATE_LENGTH));
    }
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(n[i], 30 + i);
    const struct gw_generate_request bad = {.prompt = token[0], .prompt_tokens = 1, .max_tokens = 1000000};
    assert_int_equal(gw_generate_submit(g, &bad, 0, &stream[0]), -EINVAL);
    const struct gw_generate_request more = {.prompt = token[0], .prompt_tokens = 1, .max_tokens = 200};
    assert_int_equal(gw_generate_submit(g, &more, 0, &stream[0]), 0); /* it runs when all is closed */
    gw_generate_close(g);
    await_sessions(&server, 0);
    assert_int_equal(end_child(&server, 0), 0);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1 && !strcmp(argv[1], "serve")) return serve();
    if (argc > 2 && !strcmp(argv[1], "client")) busy_client(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_another_process), cmocka_unit_test(clients_that_are_killed),
        cmocka_unit_test(a_server_that_is_killed),    cmocka_unit_test(calls_that_make_no_sense),
        cmocka_unit_test(the_public_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
