/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clients on three connections send HTTP/2 frames to the gRPC door in any order. They send whole calls,
 * with the token and without, and calls in pieces. They send floods of each kind of frame, and bytes that are
 * no frames. They read the answers, or do not. Threads work on calls, time passes, connections close. After
 * each step no client has more than its share, and what the door keeps is bounded. The door must still answer
 * another client's call. In the end nothing is left.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/server/grpc/conn_impl.h"
#include "tests/fuzz/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t __sanitizer_get_current_allocated_bytes(void);

enum { PEERS = 3, STEPS = 400, ROOM = 65536, MESSAGE = 64 << 10, MEMORY = 256 << 10, CALLS = 16, EACH = 6 };
/* Messages and answers; and for each connection a buffer, HPACK's tables, and what nghttp2 keeps of streams
 * and frames. */
enum { BOUND = MEMORY + (PEERS + 1) * (512 << 10) };
#define TOKEN       "a-token-of-the-fuzzer"
#define PATIENCE_NS UINT64_C(20000000000)
#define IDLE_NS     UINT64_C(300000000000)

struct peer {
    struct gw_grpc_conn *conn;
    int server, client; /* the two ends */
    int is_stuck, is_over;
};

static struct {
    struct gw_grpc_env env;
    struct peer peer[PEERS + 1]; /* the last one is another client's */
    struct stream in;
    struct gw_grpc_job *jobs, **last;
    uint64_t ahead; /* time that has passed beside the real one */
    size_t before;  /* bytes that were allocated at first */
} f;

/* ---- the pool: jobs run when the input says so ---- */

int gw_grpc_pool_add(struct gw_grpc_pool *p, struct gw_grpc_job *job)
{
    (void)p;
    job->next = NULL;
    *f.last = job;
    f.last = &job->next;
    return 0;
}

static struct gw_grpc_job *take_job(struct gw_grpc_job **at)
{
    struct gw_grpc_job *job = *at;
    if (!job) return NULL;
    *at = job->next;
    if (!*at) f.last = at;
    return job;
}

int gw_grpc_pool_cancel(struct gw_grpc_pool *p, struct gw_grpc_job *job)
{
    struct gw_grpc_job **at = &f.jobs;
    (void)p;
    while (*at && *at != job) at = &(*at)->next;
    return take_job(at) != NULL;
}

static int run_job(void)
{
    struct gw_grpc_job *job = take_job(&f.jobs);
    if (!job) return 0;
    job->run(job);
    job->leave(job);
    return 1;
}

void gw_say(struct gw_say_limit *limit, const char *format, ...)
{
    (void)limit, (void)format;
}

/* ---- methods ---- */

/* The answer is the message, repeated. */
static void repeat(struct gw_grpc_turn *turn, unsigned times)
{
    size_t bytes;
    const uint8_t *message = gw_grpc_turn_message(turn, &bytes);
    struct gw_grpc_message *m = gw_grpc_message_new((uint64_t)bytes * times);
    require(m && bytes <= MESSAGE);
    for (unsigned i = 0; i < times; i++) memcpy(gw_grpc_message_body(m) + i * bytes, message, bytes);
    gw_grpc_answer(turn, m);
}

static void echo(void *ctx, struct gw_grpc_turn *turn)
{
    (void)ctx;
    if (gw_grpc_turn_cancelled(turn))
        gw_grpc_refuse(turn, GW_GRPC_CANCELLED, "it has gone");
    else
        repeat(turn, 1);
}

static void grow(void *ctx, struct gw_grpc_turn *turn)
{
    (void)ctx;
    repeat(turn, 5);
}

static void fail(void *ctx, struct gw_grpc_turn *turn)
{
    (void)ctx;
    gw_grpc_refuse(turn, GW_GRPC_NOT_FOUND, "no such thing: 100 % \n");
}

static const struct gw_grpc_method methods[] = {
    {.path = "/a/Echo", .waits = 1, .run = echo},
    {.path = "/a/Stream", .waits = 1, .stream = 1, .run = echo},
    {.path = "/a/Grow", .waits = 1, .run = grow},
    {.path = "/a/Fail", .waits = 1, .stream = 1, .run = fail},
    {.path = "/a/Now", .run = echo},
    {.path = "/a/Health", .health = 1, .run = echo},
    {0},
};

/* ---- connections ---- */

static void watch(void *peer, int out)
{
    ((struct peer *)peer)->is_stuck = out;
}

static void open_peer(struct peer *p, const char *who)
{
    int pair[2];
    require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    *p = (struct peer){.server = pair[0], .client = pair[1]};
    p->conn = gw_grpc_conn_open(&f.env, p->server, who, watch, p);
    require(p->conn);
}

static void close_peer(struct peer *p)
{
    if (!p->conn) return;
    gw_grpc_conn_end(p->conn);
    close(p->server);
    close(p->client);
    *p = (struct peer){0};
}

static void check(void)
{
    const struct gw_grpc_accounts *a = &f.env.accounts;
    require(a->bytes <= MEMORY && a->calls <= CALLS && a->streams <= a->max_streams);
    for (const struct gw_grpc_client *c = a->clients; c; c = c->next)
        require(c->bytes <= a->bytes_each && c->calls <= EACH && c->streams <= a->max_streams / 4);
    require(__sanitizer_get_current_allocated_bytes() - f.before < BOUND);
}

/* The server does what there is to do, as its thread would. */
static void serve(struct peer *p)
{
    static uint8_t room[ROOM];
    uint64_t due;
    while (p->conn && !p->is_over) {
        struct pollfd ready = {.fd = p->server, .events = p->is_stuck ? POLLOUT : POLLIN};
        if (poll(&ready, 1, 0) != 1) return;
        p->is_over = gw_grpc_conn_work(p->conn, room, sizeof(room), &due) != 0;
        check();
    }
}

/* Bytes that the server does not take for now are lost. */
static void put(struct peer *p, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    while (n && p->conn && !p->is_over) {
        ssize_t sent = send(p->client, from, n, MSG_NOSIGNAL);
        if (sent > 0) {
            from += sent;
            n -= (size_t)sent;
        }
        serve(p);
        if (sent <= 0) return;
    }
}

/* ---- frames ---- */

static void put_frame(struct peer *p, unsigned type, unsigned flags, uint32_t stream, const void *bytes,
                      size_t n)
{
    uint8_t frame[9 + 16384] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type,
                                (uint8_t)flags};
    for (int i = 0; i < 4; i++) frame[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
    require(n <= 16384);
    if (n) memcpy(frame + 9, bytes, n);
    put(p, frame, 9 + n);
}

static size_t put_field(uint8_t *to, const char *name, const char *value)
{
    size_t n = 0;
    to[n++] = 0; /* literal, not indexed */
    to[n++] = (uint8_t)strlen(name);
    memcpy(to + n, name, strlen(name));
    n += strlen(name);
    to[n++] = (uint8_t)strlen(value);
    memcpy(to + n, value, strlen(value));
    return n + strlen(value);
}

/* The headers of a call; `spoil` says what is wrong with them. */
static size_t put_head(uint8_t *to, unsigned method, unsigned spoil)
{
    size_t n = put_field(to, ":method", spoil == 1 ? "GET" : "POST");
    n += put_field(to + n, ":scheme", "http");
    n += put_field(to + n, ":authority", "x");
    n += put_field(to + n, ":path", spoil == 2 ? "/nothing" : methods[method % 6].path);
    n += put_field(to + n, "content-type", spoil == 3 ? "text/html" : "application/grpc");
    if (spoil != 4) n += put_field(to + n, "te", "trailers");
    if (spoil != 5) n += put_field(to + n, "authorization", "Bearer " TOKEN);
    if (spoil == 6) n += put_field(to + n, "grpc-timeout", "1n");
    if (spoil == 7) n += put_field(to + n, "grpc-encoding", "gzip");
    if (spoil == 8) n += put_field(to + n, "grpc-timeout", "99999999H");
    return n;
}

static uint32_t choose_stream(void)
{
    return 1 + 2u * (take8(&f.in) % 64);
}

static void begin_call(struct peer *p)
{
    uint8_t head[512];
    unsigned what = take8(&f.in);
    size_t n = put_head(head, take8(&f.in), what % 16);
    put_frame(p, NGHTTP2_HEADERS, (what & 16 ? 0 : NGHTTP2_FLAG_END_HEADERS) | (what & 32 ? 1 : 0),
              choose_stream(), head, n);
}

/* A piece of a message, or a whole one. */
static void put_data(struct peer *p)
{
    static uint8_t bytes[16384];
    uint32_t stream = choose_stream();
    unsigned what = take8(&f.in), times = what & 64 ? 1 + take8(&f.in) % 32 : 1;
    size_t length = take16(&f.in), n = what & 1 ? 5 + length % 512 : take16(&f.in) % sizeof(bytes);
    bytes[0] = what & 2 ? take8(&f.in) : 0;
    bytes[1] = what & 4 ? take8(&f.in) : 0;
    length = what & 1 ? length % 512 : length * 2;
    bytes[2] = (uint8_t)(length >> 16);
    bytes[3] = (uint8_t)(length >> 8);
    bytes[4] = (uint8_t)length;
    for (unsigned i = 0; i < times; i++)
        put_frame(p, NGHTTP2_DATA, what & 32 && i + 1 == times ? NGHTTP2_FLAG_END_STREAM : 0, stream, bytes,
                  n);
}

/* The same frame again and again. */
static void flood(struct peer *p)
{
    uint8_t payload[64];
    unsigned type = take8(&f.in) % 11, flags = take8(&f.in), times = 1 + take8(&f.in);
    uint32_t stream = take8(&f.in) & 1 ? choose_stream() : 0;
    size_t n = take8(&f.in) % sizeof(payload);
    for (size_t i = 0; i < n; i++) payload[i] = take8(&f.in);
    for (unsigned i = 0; i < times; i++) put_frame(p, type, flags, stream, payload, n);
}

/* Calls are begun and reset. */
static void reset_calls(struct peer *p)
{
    static const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    uint8_t head[512];
    size_t n = put_head(head, take8(&f.in), 0);
    uint32_t stream = choose_stream();
    for (unsigned times = take8(&f.in); times--; stream += 2) {
        put_frame(p, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, head, n);
        put_frame(p, NGHTTP2_RST_STREAM, 0, stream, cancel, sizeof(cancel));
    }
}

static void widen(struct peer *p)
{
    uint32_t by = take32(&f.in) & 0x7fffffff;
    uint8_t bytes[6] = {(uint8_t)(by >> 24), (uint8_t)(by >> 16), (uint8_t)(by >> 8), (uint8_t)by};
    put_frame(p, NGHTTP2_WINDOW_UPDATE, 0, take8(&f.in) & 1 ? 0 : choose_stream(), bytes, 4);
    if (!(take8(&f.in) & 1)) return;
    memmove(bytes + 2, bytes, 4);
    bytes[0] = 0;
    bytes[1] = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    put_frame(p, NGHTTP2_SETTINGS, 0, 0, bytes, sizeof(bytes));
}

static void put_bytes(struct peer *p)
{
    uint8_t bytes[64];
    size_t n = take8(&f.in) % sizeof(bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = take8(&f.in);
    put(p, bytes, n);
}

static void take_answers(struct peer *p)
{
    static uint8_t bytes[ROOM];
    while (p->conn && recv(p->client, bytes, sizeof(bytes), 0) > 0) serve(p);
}

/* ---- another client's call ---- */

static int status;

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name, size_t names,
                     const uint8_t *value, size_t values, uint8_t flags, void *unused)
{
    (void)s, (void)frame, (void)flags, (void)unused;
    if (gw_h2_is(name, names, "grpc-status")) status = (int)gw_grpc_status_parse(value, values);
    return 0;
}

static ssize_t read_message(nghttp2_session *s, int32_t stream, uint8_t *to, size_t most, uint32_t *flags,
                            nghttp2_data_source *source, void *unused)
{
    static const uint8_t message[] = {0, 0, 0, 0, 3, 'a', 'b', 'c'};
    (void)s, (void)stream, (void)most, (void)source, (void)unused;
    memcpy(to, message, sizeof(message));
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return sizeof(message);
}

static void ask_honestly(void)
{
    static uint8_t room[ROOM];
    struct peer *p = &f.peer[PEERS];
    struct gw_h2 h = {.shaken = 1};
    nghttp2_session_callbacks *cb;
    const nghttp2_data_provider message = {{.ptr = NULL}, read_message};
    const nghttp2_nv head[] = {gw_h2_header(":method", "POST"),
                               gw_h2_header(":scheme", "http"),
                               gw_h2_header(":path", "/a/Echo"),
                               gw_h2_header(":authority", "x"),
                               gw_h2_header("te", "trailers"),
                               gw_h2_header("content-type", "application/grpc"),
                               gw_h2_header("authorization", "Bearer " TOKEN)};
    if (f.env.accounts.head || f.env.accounts.bytes > MEMORY / 2) return; /* two others may have it all */
    open_peer(p, "2001:db8::/64");
    h.fd = p->client;
    status = -1;
    require(!nghttp2_session_callbacks_new(&cb));
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    require(!nghttp2_session_client_new(&h.session, cb, NULL));
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(h.session, NGHTTP2_FLAG_NONE, NULL, 0);
    nghttp2_submit_request(h.session, NULL, head, sizeof(head) / sizeof(head[0]), &message, NULL);
    for (int i = 0; i < 20 && status < 0; i++) {
        gw_h2_send(&h);
        serve(p);
        while (run_job()) check();
        gw_h2_receive(&h, room, sizeof(room));
    }
    require(status == GW_GRPC_OK);
    gw_h2_close(&h);
    close_peer(p);
}

/* ---- */

static void pass_time(struct peer *p)
{
    uint64_t due;
    f.ahead += take8(&f.in) * UINT64_C(1000000000);
    if (p->conn && !p->is_over) p->is_over = gw_grpc_conn_look(p->conn, gw_deadline(0) + f.ahead, &due) != 0;
}

static void reopen(struct peer *p, unsigned i)
{
    static const uint8_t beginning[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    close_peer(p);
    open_peer(p, i ? "192.0.2.7" : "user 7");
    if (take8(&f.in) % 8) put(p, beginning, sizeof(beginning)); /* with the last byte, a zero */
}

static void step(void)
{
    unsigned what = take8(&f.in), i = take8(&f.in) % PEERS;
    struct peer *p = &f.peer[i];
    if (!p->conn || p->is_over) reopen(p, i);
    switch (what % 16) {
    case 0:
    case 1:
    case 2: begin_call(p); break;
    case 3:
    case 4:
    case 5: put_data(p); break;
    case 6: flood(p); break;
    case 7: reset_calls(p); break;
    case 8: widen(p); break;
    case 9: put_bytes(p); break;
    case 10: pass_time(p); break;
    case 11: take_answers(p); break;
    case 12: reopen(p, i); break;
    case 13:
        if (!p->is_over) p->is_over = gw_grpc_conn_finish(p->conn) != 0;
        break;
    default: run_job(); break;
    }
    check();
}

static void check_empty(void)
{
    const struct gw_grpc_accounts *a = &f.env.accounts;
    require(!a->bytes && !a->calls && !a->streams && !a->head && !f.env.turns && !f.jobs);
    for (const struct gw_grpc_client *c = a->clients; c; c = c->next)
        require(!c->users && !c->bytes && !c->calls && !c->streams);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct gw_grpc_limits limits = {
        .calls = CALLS, .calls_each = EACH, .streams = 8, .bytes = MEMORY};
    memset(&f, 0, sizeof(f));
    f.before = __sanitizer_get_current_allocated_bytes();
    f.in = (struct stream){data, size};
    f.last = &f.jobs;
    f.env = (struct gw_grpc_env){.rules = {methods, take8(&f.in) & 1 ? TOKEN : NULL, 1},
                                 .max_body = MESSAGE,
                                 .patience_ns = PATIENCE_NS,
                                 .idle_ns = IDLE_NS};
    gw_grpc_accounts_open(&f.env.accounts, &limits);
    for (int i = 0; i < STEPS && f.in.left; i++) step();
    ask_honestly();
    for (int i = 0; i < PEERS; i++) close_peer(&f.peer[i]);
    while (run_job()) continue; /* what they were at work on */
    check_empty();
    gw_grpc_accounts_close(&f.env.accounts);
    return 0;
}
