/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients use the sessions of one worker in any order. They open, close, and write what and where
 * they like, with old keys too. The NIC's calls fail now and then. The invariant: no client gets a word of
 * another's. The model gets no memory but a slot of the session that asked. The kernel does not touch what
 * the host has taken back.
 */
#include "tests/fuzz/serve_world.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 4 };

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
} f;

static void open_one(struct client *c)
{
    struct gw_session_wish wish = {.slots = take8(&f.in) % 6,
                                   .reply_addr = (uint64_t)take8(&f.in) << 56 | 0x1000,
                                   .reply_stride = 64 + (uint64_t)take8(&f.in) * 8,
                                   .reply_rkey = take8(&f.in)};
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

/* One step of the host or of a client. The loop may be in the middle of a turn. */
static void step(void *unused)
{
    uint32_t what = take8(&f.in);
    struct client *c = &f.client[take8(&f.in) % CLIENTS];
    uint32_t activity;
    (void)unused;
    world_pass(1u << (what >> 4));
    switch (what % 11) {
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
    default: send_one(c, c->id); break;
    }
    require(gw_session_pool_open_count(f.pool) == f.open);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&f, 0, sizeof(f));
    f.in = (struct stream){data, size};
    f.pool = world_begin(&f.in);
    while (f.in.left) {
        step(NULL);
        if (take8(&f.in) & 1) world_turn(step, NULL);
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
    world_end();
    return 0;
}
