/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients with several connections call the server's HTTP API in any order. They open, keep, use
 * and close sessions, and name wrong ones; connections close, and time passes. The invariant: the counts are
 * right at any time. No client has more than its share. No session outlives its connection or its time. All
 * sessions come back.
 */
#include "tests/fuzz/fake_worker.h"
#include "tests/fuzz/serve_table.h"
#include "tests/fuzz/serve_world.h"

#include <stdio.h>
#include <string.h>

#include "src/server/http/api.h"
#include "src/server/lifecycle/cputime.h"
#include "src/server/requests/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 5, CLIENTS = 3, IDS = 8, MAX_EACH = 2 };
#define UNUSED_NS UINT64_C(10000000000)
#define IDLE_NS   UINT64_C(60000000000)

/* ---- a worker whose model copies ----------------------------------------------------------------------- */

static struct gw_session_pool *pool;
static const struct gw_tensor_info tensor_info = {.name = "x",
                                                  .dtype = GW_DTYPE_F32,
                                                  .rank = 1,
                                                  .dims = {WORLD_FLOATS},
                                                  .bytes = WORLD_FLOATS * sizeof(float)};
const struct fake_worker fake_worker = {
    .name = "copy", .inputs = 1, .outputs = 1, .input = &tensor_info, .output = &tensor_info};

uint32_t gw_worker_slots(const struct gw_worker *w)
{
    (void)w;
    return WORLD_SLOTS;
}
uint32_t gw_worker_max_rows(const struct gw_worker *w)
{
    (void)w;
    return 1;
}
struct gw_session_pool *gw_worker_sessions(const struct gw_worker *w)
{
    (void)w;
    return pool;
}
const char *gw_model_kind(const struct gw_model *m)
{
    (void)m;
    return "copy";
}
int gw_cputime_read(struct gw_cputime *t)
{
    (void)t;
    return 0;
}
void gw_fault_text(const struct gw_fault *fault, char *text, size_t size)
{
    (void)fault;
    snprintf(text, size, "failed");
}
void gw_say(struct gw_say_limit *limit, const char *format, ...)
{
    (void)limit, (void)format;
}

/* ---- the callers --------------------------------------------------------------------------------------- */

static struct {
    struct gw_api api;
    struct gw_table table;
    struct gw_worker *worker[1];
    size_t workers;
    struct stream in;
    char place[CONNECTIONS]; /* their addresses name the connections */
    char id[IDS][GW_SESSION_ID];
    uint32_t session[IDS], client[IDS], ids, generations;
} f;

static const char *who_of(uint32_t connection)
{
    static const char *const names[CLIENTS] = {"user 7", "192.0.2.7", "2001:db8::/64"};
    return names[connection % CLIENTS];
}

static void check_counts(void)
{
    struct gw_table *t = &f.table;
    require(table_count(t, NULL, NULL) == gw_session_pool_open_count(pool));
    for (uint32_t c = 0; c < CLIENTS; c++) require(table_count(t, NULL, who_of(c)) <= MAX_EACH);
}

/* A session was opened over HTTP: its client is told what the pool says. */
static void opened(const json_t *body, const json_t *reply, uint32_t client)
{
    struct gw_session_wish wish = {
        .slots = (uint32_t)json_integer_value(json_object_get(body, "slots")),
        .reply_stride = (uint64_t)json_integer_value(json_object_get(body, "reply_stride")),
        .reply_rkey = (uint32_t)json_integer_value(json_object_get(body, "reply_rkey"))};
    struct gw_session_grant grant = {
        .slots = (uint32_t)json_integer_value(json_object_get(reply, "slots")),
        .request_rkey = (uint32_t)json_integer_value(json_object_get(reply, "request_rkey"))};
    wish.reply_addr = strtoull(json_string_value(json_object_get(body, "reply_addr")), NULL, 16);
    grant.request_addr = strtoull(json_string_value(json_object_get(reply, "request_addr")), NULL, 16);
    for (grant.index = 0; world_address(grant.index) != grant.request_addr;) grant.index++;
    world_granted(client, &wish, &grant);
    uint32_t i = f.ids++ % IDS;
    snprintf(f.id[i], sizeof(f.id[i]), "%s", json_string_value(json_object_get(reply, "id")));
    f.session[i] = grant.index;
    f.client[i] = client;
}

static unsigned call(const char *method, const char *path, const json_t *body, uint32_t connection,
                     json_t **reply)
{
    const struct gw_http_request r = {method, path, body, &f.place[connection], who_of(connection)};
    *reply = NULL;
    unsigned status = gw_api_call(&f.api, &r, reply);
    require(json_is_object(*reply) && status >= 200 && status < 600);
    require((status >= 400) == (json_object_get(*reply, "error") != NULL));
    return status;
}

static void open_one(uint32_t connection)
{
    static const char *const fields[] = {"model",      "slots",      "reply_stride",
                                         "reply_rkey", "reply_addr", "endpoint"};
    uint32_t client = ++f.generations & 0xffff, spoil = take8(&f.in);
    char text[GW_ENDPOINT_TEXT];
    struct gw_endpoint ep;
    json_t *reply;
    world_endpoint(client, &ep);
    gw_endpoint_format(&ep, text);
    json_t *body = json_pack("{s:s, s:i, s:i, s:i, s:s, s:s}", "model", "copy", "slots", take8(&f.in) % 5,
                             "reply_stride", 112 + take8(&f.in), "reply_rkey", take8(&f.in), "reply_addr",
                             "0x10000", "endpoint", text);
    if (spoil & 128) {
        const char *field = fields[spoil % 6];
        json_t *value = spoil & 64 ? json_integer((json_int_t)((uint64_t)take32(&f.in) << 32 | take32(&f.in)))
                        : spoil & 32 ? json_string(spoil & 16 ? "0xffffffffffffffff" : "gw:1:")
                        : spoil & 8  ? json_null()
                                     : json_array();
        json_object_set_new(body, field, value);
    }
    if (call("POST", "/v2/rdma/sessions", body, connection, &reply) == 201) opened(body, reply, client);
    json_decref(body);
    json_decref(reply);
}

static void name_one(uint32_t connection)
{
    char path[64];
    json_t *reply;
    const char *method = take8(&f.in) & 1 ? "PUT" : "DELETE";
    snprintf(path, sizeof(path), "/v2/rdma/sessions/%s", f.id[take8(&f.in) % IDS]);
    call(method, path, NULL, connection, &reply);
    json_decref(reply);
}

static void ask_anything(uint32_t connection)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "HEAD"};
    static const char *const starts[] = {"/v2",
                                         "/v2/models/copy",
                                         "/v2/models/copy/versions/",
                                         "/v2/models/",
                                         "/v2/health/live",
                                         "/v2/rdma/sessions/",
                                         "/v2/rdma/sessions",
                                         "/v2/repository/",
                                         "/v2/systemsharedmemory/",
                                         "/v2/cudasharedmemory/region/",
                                         "/"};
    char path[128], body[200];
    size_t n = take8(&f.in) % 24, m = take8(&f.in) % sizeof(body);
    size_t at = (size_t)snprintf(path, sizeof(path), "%s",
                                 starts[take8(&f.in) % (sizeof(starts) / sizeof(starts[0]))]);
    const char *method = methods[take8(&f.in) % 5];
    for (size_t i = 0; i < n; i++) path[at + i] = (char)take8(&f.in);
    path[at + n] = 0;
    for (size_t i = 0; i < m; i++) body[i] = (char)take8(&f.in);
    json_error_t where;
    json_t *json = json_loadb(body, m, JSON_REJECT_DUPLICATES, &where), *reply;
    call(method, path, json, connection, &reply);
    json_decref(json);
    json_decref(reply);
}

static void use_one(void)
{
    uint32_t i = take8(&f.in) % IDS;
    struct world_message m = {
        .header = {.magic = GW_SERVE_MAGIC, .version = GW_SERVE_VERSION, .bytes = world_bytes(1), .rows = 1},
        .addr = world_address(f.session[i]),
        .rkey = world_key(f.session[i]) + (take8(&f.in) == 77),
        .bytes = (uint32_t)(sizeof(struct gw_serve_request) + world_bytes(1)),
        .with_imm = true};
    world_send(f.client[i], f.session[i], &m);
}

static void tend(void)
{
    gw_table_tend(&f.table, f.worker, 1);
}

static void step(void *unused)
{
    uint32_t what = take8(&f.in), connection = take8(&f.in) % CONNECTIONS;
    (void)unused;
    switch (what % 10) {
    case 0:
    case 1: open_one(connection); break;
    case 2: name_one(connection); break;
    case 3: ask_anything(connection); break;
    case 4:
        gw_api_connection_closed(&f.api, &f.place[connection]);
        require(!gw_api_connection_stays(&f.api, &f.place[connection]));
        break;
    case 5: table_advance((uint64_t)take8(&f.in) * 500000000); break;
    case 6: tend(); break;
    case 7: world_acknowledge(take8(&f.in) % WORLD_SESSIONS); break;
    default: use_one(); break;
    }
    check_counts();
}

/* The loop does all there is to do, a request a turn. A request that waits would be activity later. */
static void work_off(void)
{
    for (uint32_t i = 0; i < 4 * WORLD_SESSIONS * WORLD_SLOTS; i++) {
        world_turn(NULL, NULL);
        for (uint32_t s = 0; s < WORLD_SESSIONS; s++) world_acknowledge(s);
    }
}

/* No client does anything any more: each session's time ends. */
static void wait_for_all(void)
{
    for (int i = 0; i < 6; i++) {
        work_off();
        table_advance(IDLE_NS);
        tend();
    }
    require(table_count(&f.table, NULL, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&f, 0, sizeof(f));
    f.in = (struct stream){data, size};
    bool in_time = take8(&f.in) & 1;
    pool = world_begin(&f.in);
    require(!gw_table_init(&f.table, MAX_EACH, UNUSED_NS, IDLE_NS));
    f.worker[0] = (struct gw_worker *)&f; /* there is one, and nothing looks inside */
    f.workers = 1;
    struct gw_infer_local local = {.worker = f.worker, .workers = &f.workers};
    struct gw_infer_opts infer = {.backend = &gw_infer_local, .ctx = &local};
    require(!gw_infer_create(&infer, &f.api.infer));
    f.api.server =
        (struct gw_server_view){.clock = "", .worker = f.worker, .workers = &f.workers, .sessions = &f.table};
    while (f.in.left) {
        step(NULL);
        if (take8(&f.in) & 1) world_turn(step, NULL);
    }
    if (in_time) wait_for_all();
    for (uint32_t i = 0; i < CONNECTIONS; i++) gw_api_connection_closed(&f.api, &f.place[i]);
    for (int i = 0; i < 8; i++) {
        world_turn(NULL, NULL);
        tend();
    }
    require(gw_session_pool_open_count(pool) == 0 && gw_session_pool_tend(pool) == 0);
    gw_infer_destroy(f.api.infer);
    gw_table_free(&f.table);
    world_end();
    return 0;
}
