/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients use the sessions of one worker in any order. They open, close, and write what and where
 * they like, with old keys too. The NIC's calls fail now and then. The invariant: no client gets a word of
 * another's. The model gets no memory but a slot of the session that asked. The kernel does not touch what
 * the host has taken back. Where there are several models, leases and models come and go as well; at the end
 * no request is counted on a lease any more.
 */
#include "tests/fuzz/serve_world.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 4, LEASES = 4 };

static struct {
    struct gw_session_pool *pool;
    struct stream in;
    uint32_t generations;
    struct client {
        uint32_t id; /* 0: it has no session */
        uint32_t session;
        uint32_t key; /* as it was told; it stays in mind */
    } client[CLIENTS];
    uint32_t open;
    bool tables;  /* there are several models, and leases */
    bool in_work; /* the model runs */
} f;

static void open_one(struct client *c)
{
    struct gw_session_wish wish = {.slots = take8(&f.in) % 6,
                                   .reply_addr = (uint64_t)take8(&f.in) << 56 | 0x1000,
                                   .reply_stride = 64 + (uint64_t)take8(&f.in) * 8,
                                   .reply_rkey = take8(&f.in),
                                   .owner = take8(&f.in) % CLIENTS};
    struct gw_session_grant grant;
    if (c->id) return;
    uint32_t id = ++f.generations & 0xffff;
    world_endpoint(id, &wish.endpoint);
    if (gw_session_open(f.pool, &wish, &grant)) return;
    world_granted(id, &wish, &grant);
    for (int i = 0; i < CLIENTS; i++) require(!f.client[i].id || f.client[i].session != grant.index);
    *c = (struct client){.id = id, .session = grant.index, .key = grant.request_rkey};
    f.open++;
}

static void close_one(struct client *c)
{
    if (!c->id) return;
    gw_session_close(f.pool, c->session);
    c->id = 0; /* but it knows the session and its key, and goes on sending */
    f.open--;
}

static void send_one(struct client *c, uint32_t id)
{
    uint32_t how = take8(&f.in), slot = take8(&f.in) % 5, more = take8(&f.in), rows = 1 + more % WORLD_ROWS;
    struct world_message m = {.header = {.magic = GW_SERVE_MAGIC,
                                         .version = GW_SERVE_VERSION,
                                         .slot = (uint16_t)(how & 1 ? slot : take8(&f.in) % 5),
                                         .id = take8(&f.in),
                                         .bytes = world_bytes(rows),
                                         .rows = rows,
                                         .priority = more >> 2 & 15,
                                         .lease = f.tables ? take8(&f.in) % (LEASES + 2) : 0,
                                         .key = f.tables ? take8(&f.in) % 4 : 0,
                                         .budget_ns = more & 64 ? 1u << (take8(&f.in) & 31) : 0},
                              .addr = world_address(c->session) + slot * world_stride(),
                              .rkey = how & 2 ? c->key : world_key(c->session),
                              .bytes = (uint32_t)(sizeof(struct gw_serve_request) + world_bytes(rows)),
                              .imm = how & 4 ? slot : take8(&f.in) % 5,
                              .with_imm = how & 8};
    if (how & 16) m.addr += 4 * (uint64_t)take8(&f.in);
    if (how & 32) m.bytes = 4u * take8(&f.in);
    if (how & 64) m.imm = take32(&f.in);
    if (how & 128) m.header.bytes = take32(&f.in) & 0xffffff;
    if (more & 128) m.header.rows = take8(&f.in) % 7;
    world_send(id, c->session, &m);
}

/* A model comes or goes, or a lease is made, changed or ended. */
static void order_one(void)
{
    uint32_t what = take8(&f.in);
    struct gw_serve_order o = {.kind = what & 1 ? GW_ORDER_LEASE : GW_ORDER_MODEL, .retry_ns = 1000};
    o.number = (what >> 1) % (what & 1 ? LEASES : WORLD_MODELS);
    o.word = take8(&f.in) % 3;
    o.key = take8(&f.in) % 4;
    o.owner = take8(&f.in) % CLIENTS;
    o.model = take8(&f.in) % WORLD_MODELS;
    o.slots = 1 + take8(&f.in) % 4;
    o.max_rows = take8(&f.in) % 6;
    o.interval_ns = take8(&f.in) * 1000u;
    o.until = world_clock() + ((uint64_t)take8(&f.in) << 20);
    if (f.tables) world_order(&o);
}

/* The kernel beside the model looks round once, if there is one now. */
static void be_beside(void)
{
    if (!f.in_work || !f.tables) return;
    f.in_work = false; /* a step that comes while it polls calls it no second time */
    world_beside();
    f.in_work = true;
}

/* One step of the host or of a client. The loop may be in the middle of a turn. */
static void step(void *unused)
{
    uint32_t what = take8(&f.in);
    struct client *c = &f.client[take8(&f.in) % CLIENTS];
    uint32_t activity;
    (void)unused;
    world_pass(1u << (what >> 4));
    switch (what % 13) {
    case 0: open_one(c); break;
    case 1: close_one(c); break;
    case 2: gw_session_pool_tend(f.pool); break;
    case 3: world_acknowledge(take8(&f.in) % WORLD_SESSIONS); break;
    case 4:
        gw_session_ask(f.pool, c->session);
        gw_session_heard(f.pool, c->session, &activity);
        break;
    case 5: send_one(c, c->id ? c->id : f.generations); break; /* perhaps as the latest client there */
    case 6: world_model(take8(&f.in) * 100u, take8(&f.in) * 1000u, take8(&f.in) == 1); break;
    case 7: world_flush(take8(&f.in) % WORLD_SESSIONS); break;
    case 8: world_after_poll(step, NULL); break;
    case 9: order_one(); break;
    case 10: be_beside(); break;
    default: send_one(c, c->id); break;
    }
    require(gw_session_pool_open_count(f.pool) == f.open);
}

/* While the model runs. */
static void step_beside(void *unused)
{
    f.in_work = true;
    step(unused);
    f.in_work = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&f, 0, sizeof(f));
    f.in = (struct stream){data, size};
    f.tables = take8(&f.in) & 1;
    f.pool = f.tables ? world_begin_tables(&f.in, LEASES) : world_begin(&f.in);
    while (f.in.left) {
        step(NULL);
        if (take8(&f.in) & 1) world_turn(step_beside, NULL);
    }
    world_after_poll(NULL, NULL);
    /* When all have gone, all sessions come back. */
    for (int i = 0; i < CLIENTS; i++) close_one(&f.client[i]);
    for (int i = 0; i < 8; i++) {
        world_pass(1000000);
        world_turn(NULL, NULL);
        gw_session_pool_tend(f.pool);
    }
    require(gw_session_pool_tend(f.pool) == 0);
    for (uint32_t i = 0; f.tables && i < LEASES; i++) require(!world_in_flight(i));
    world_end();
    return 0;
}
