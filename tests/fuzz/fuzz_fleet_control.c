/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker, a client and a tool tell a controller. The input is a row of messages: who sends it, its
 * kind, and which bytes of a message that makes sense are others. Connections and handshakes are the real
 * ones. No number that a peer tells may break the planner's state.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/fleet/control/control.h"
#include "src/fleet/wire/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)
enum { PEERS = 3, HEAD = 4, SPOIL = 2, ROOM = 1024 };

struct peer {
    struct fleet_conn *conn;
    bool open;
};

static struct fleet_loop *loop;
static struct peer peers[PEERS];
static uint64_t last_seq; /* of what the controller sent to the worker */

static void require(bool ok)
{
    if (!ok) abort();
}

static void opened(void *ctx, struct fleet_conn *c)
{
    struct peer *p = ctx;
    (void)c;
    p->open = true;
}

static void heard(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    (void)c, (void)body;
    if (ctx == &peers[0]) last_seq = f->seq;
}

static void closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct peer *p = ctx;
    (void)c, (void)err, (void)why;
    p->conn = NULL;
    p->open = false;
}

static void dial(int who, uint16_t port)
{
    static const struct fleet_handler handler = {opened, heard, closed};
    static const uint8_t roles[PEERS] = {FLEET_IS_WORKER, FLEET_IS_CLIENT, FLEET_IS_TOOL};
    static const uint8_t ids[PEERS][FLEET_ID] = {"worker", "client", "tool"};
    char address[32];
    struct fleet_conn_opts o = {
        .role = roles[who], .peers = 1 << FLEET_IS_CONTROLLER, .fleet = "f", .name = "w", .id = ids[who]};
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    peers[who] = (struct peer){0};
    require(!fleet_dial(loop, &o, address, &handler, &peers[who], &peers[who].conn));
    for (int i = 0; i < 1000 && !peers[who].open; i++) fleet_loop_run(loop, fleet_clock_now() + MS / 10);
    require(peers[who].open);
}

/* A message that makes sense; returns its length. */
static size_t sensible(uint8_t kind, uint8_t number, void *to)
{
    const struct fleet_hello_worker worker = {.gpu_pages = 100,
                                              .host_pages = 100,
                                              .slots = 64,
                                              .leases = 16,
                                              .models = 2,
                                              .address = "127.0.0.1:1"};
    struct fleet_has_model has = {.model = number % 3, .version = 1, .pages = 10, .where = number % 5};
    const struct fleet_held held = {number % 16u, number % 2u, 7, {3}, 4, 5, 1000 * MS, 16, 0};
    const struct fleet_result result = {.outcome = number % 7u, .model = number % 2u, .where = FLEET_GPU};
    const struct fleet_telemetry telemetry = {.answered = number, .gpu_used = number};
    const struct fleet_demand_message demand = {
        .model = "m0", .slots = 4, .deadline_ns = 20 * MS, .since_ns = MS, .offered = number, .waiting = 1};
    static const char *const questions[] = {"table", "plan", "drain w", "undrain w", "drain", "x"};
    for (int i = 0; i < 5; i++) has.exec_ns[i] = MS << i;
    has.load_ns = MS;
    memcpy(has.name, number % 3 ? "m1" : "m0", 3);
#define SENSIBLE(k, what)                                                                                    \
    case k: memcpy(to, &(what), sizeof(what)); return sizeof(what)
    switch (kind) {
        SENSIBLE(FLEET_WORKER, worker);
        SENSIBLE(FLEET_HAS_MODEL, has);
        SENSIBLE(FLEET_HELD, held);
        SENSIBLE(FLEET_RESULT, result);
        SENSIBLE(FLEET_TELEMETRY, telemetry);
        SENSIBLE(FLEET_DEMAND, demand);
    case FLEET_ASK: strcpy(to, questions[number % 6]); return strlen(to);
    default: return 0;
    }
}

/* Sends the message at `at`; returns how many bytes of the input it took. */
static size_t send_one(const uint8_t *at, size_t left)
{
    static const uint8_t kinds[] = {FLEET_WORKER, FLEET_HAS_MODEL, FLEET_HELD,   FLEET_READY,
                                    FLEET_RESULT, FLEET_TELEMETRY, FLEET_LEAVES, FLEET_DEMAND,
                                    FLEET_ASK,    FLEET_WELCOME};
    uint8_t body[ROOM] = {0}, kind = kinds[at[1] % sizeof(kinds)], who = at[0] & 3;
    size_t n = sensible(kind, at[2], body), used = HEAD;
    for (uint8_t i = at[0] >> 4; i && left - used >= SPOIL; i--, used += SPOIL)
        if (n) body[(at[used] * 3u) % n] = at[used + 1];
    if (at[0] & 8) n = n / 2;
    if (kind == FLEET_DEMAND) who = 1;
    if (kind == FLEET_ASK) who = 2;
    if (kind < FLEET_DEMAND && kind >= FLEET_WORKER) who = 0;
    if (who >= PEERS || !peers[who].open) return used;
    fleet_send(peers[who].conn, kind, kind == FLEET_RESULT ? last_seq - at[3] % 4 : 0, body, n, NULL, 0,
               NULL);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t id[FLEET_ID] = "controller";
    struct fleet_control *control;
    require(!fleet_loop_create(&loop));
    struct fleet_control_opts o = {.loop = loop,
                                   .fleet = "f",
                                   .name = "",
                                   .id = id,
                                   .listen = "127.0.0.1:0",
                                   .limits = {2, 4, 8},
                                   .settle_ns = 1};
    require(!fleet_control_open(&o, &control));
    fleet_control_lead(control, 1);
    for (int i = 0; i < PEERS; i++) dial(i, fleet_control_port(control));
    for (size_t at = 0; at + HEAD <= size;) {
        at += send_one(data + at, size - at);
        for (int i = 0; i < 3; i++) fleet_loop_run(loop, 0);
        if (!peers[0].open) dial(0, fleet_control_port(control));
    }
    /* A round takes its time, so not each input has one. */
    if (size && data[size - 1] % 8 == 0) fleet_loop_run(loop, fleet_clock_now() + 12 * MS);
    json_t *table = fleet_control_table(control);
    require(table != NULL);
    json_decref(table);
    fleet_control_close(control);
    fleet_loop_destroy(loop);
    return 0;
}
