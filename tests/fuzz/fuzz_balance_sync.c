/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A standby's input: frames of an active balancer, and of peers that only look like one. The input is a
 * row of frames: kind, ways to spoil it, length, content. The sender has the key, and TLS is the real one.
 * The magic, the sizes and the number are right unless they are to be spoiled, because a fuzzer does not
 * guess them. A table may be the standby's own, with one byte changed. No record counts twice, and no flow
 * is there that was not told.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/balance/control/sync_impl.h"
#include "tests/fuzz/balance_plane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 4, SPOIL_MAGIC = 1, SPOIL_NUMBER = 2, SPOIL_RECORD = 4, SPOIL_LENGTH = 8, OWN_TABLE = 32 };
#define SECOND UINT64_C(1000000000)
enum { MOST = 32768 }; /* bytes of an input: as many as a socket surely takes */

static struct gw_bal_sync sync_state;
static char *table;

static void begin(struct plane *p)
{
    json_t *question = plane_services(), *answer = gw_bal_agent_answer(p->agent, question);
    require(json_object_get(answer, "version") != NULL);
    table = json_dumps(json_object_get(question, "state"), JSON_COMPACT);
    require(table != NULL);
    json_decref(question);
    json_decref(answer);
    sync_state = (struct gw_bal_sync){.bal = p->bal, .global = &p->global, .agent = p->agent};
    sync_state.end_fd = eventfd(0, EFD_CLOEXEC);
    require(!gw_bal_tls_key_make("a-key-that-both-balancers-have", &sync_state.key));
}

/* The content of a frame, from `n` bytes of the input; returns its length. */
static size_t fill(char content[4096], uint8_t kind, uint8_t how, const uint8_t *at, size_t n)
{
    size_t own = strlen(table);
    memcpy(content, at, n);
    if (kind != GW_BAL_SYNC_TABLE || !(how & OWN_TABLE)) return n;
    require(own < 4096);
    memcpy(content, table, own);
    if (n > 2) content[(at[0] | (size_t)at[1] << 8) % own] = (char)at[2];
    return own;
}

/* Returns how many bytes of the input the frame has taken. */
static size_t send_one(struct gw_bal_tls *t, uint64_t number, const uint8_t *at, size_t left)
{
    char content[4096];
    uint8_t kind = at[0] & 7, how = at[1];
    size_t used = at[2] | (size_t)(at[3] & 3) << 8;
    if (used > left - HEAD) used = left - HEAD;
    size_t n = fill(content, kind, how, at + HEAD, used);
    struct gw_bal_sync_frame f = {GW_BAL_SYNC_MAGIC, kind, (uint32_t)n, sizeof(struct bal_record), number};
    if (how & SPOIL_MAGIC) f.magic ^= 1;
    if (how & SPOIL_NUMBER) f.number ^= 1u << (how >> 6);
    if (how & SPOIL_RECORD) f.record--;
    if (how & SPOIL_LENGTH) f.bytes ^= 1u << (at[3] >> 3);
    require(!gw_bal_tls_write(t, &f, sizeof(f), SECOND));
    require(!n || !gw_bal_tls_write(t, content, n, SECOND));
    return HEAD + used;
}

/* Both ends of a connection, which have proved the key. */
static void connect_ends(struct gw_bal_tls *active, struct gw_bal_tls *standby)
{
    int pair[2], left = 2;
    short events;
    require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    require(!gw_bal_tls_open(&sync_state.key, pair[0], sync_state.end_fd, 0, active));
    require(!gw_bal_tls_open(&sync_state.key, pair[1], sync_state.end_fd, 1, standby));
    for (int i = 0; i < 8 && left; i++)
        left = (gw_bal_tls_step(active, &events) != 0) + (gw_bal_tls_step(standby, &events) != 0);
    require(!left);
}

static void receive(const uint8_t *data, size_t size)
{
    struct gw_bal_tls active, standby;
    uint64_t number = 0;
    connect_ends(&active, &standby);
    while (size >= HEAD && number < 64) {
        size_t used = send_one(&active, ++number, data, size);
        data += used;
        size -= used;
    }
    shutdown(active.fd, SHUT_WR); /* it still takes answers */
    sync_state.received = sync_state.unknown = sync_state.lost = 0;
    gw_bal_sync_receive(&sync_state, &standby);
    gw_bal_tls_close(&standby);
    gw_bal_tls_close(&active);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plane *p = plane();
    if (!table) begin(p);
    if (size > MOST) return 0;
    receive(data, size);
    uint64_t records = sync_state.received + sync_state.unknown;
    require(!sync_state.active && !sync_state.lost && records <= size / sizeof(struct bal_record));
    if (!records) return 0;
    plane_keep(p, (unsigned)(records / 64) + 1);
    require(plane_live(p) <= sync_state.received);
    p->now += UINT64_C(7200000000000); /* the next input begins with no flow */
    for (int i = 0; i < 64 && plane_live(p); i++) plane_keep(p, 1);
    require(!plane_live(p));
    return 0;
}
