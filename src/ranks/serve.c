/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0's server does with each frame, and when a rank ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/ranks/server_impl.h"

#define MAX_LOOKUPS 1024u               /* of one rank that wait */
#define TELL_NS     UINT64_C(150000000) /* between two messages about who is missing */

struct gw_ranks_wait {
    struct gw_ranks_wait *next;
    uint32_t from, id, rank;
    char key[GW_RANKS_KEY];
};

static void serve_all(struct gw_ranks_server *s, struct gw_ranks_head head, struct gw_ranks_blob *body)
{
    for (uint32_t i = 0; i < s->size; i++)
        if (s->peer[i].conn) gw_ranks_conn_put(s->peer[i].conn, head, body);
}

/* ---- who is there -------------------------------------------------------------------------------------- */

static void serve_ready(struct gw_ranks_server *s)
{
    struct gw_ranks_blob *hosts = gw_ranks_blob_new(s->size * sizeof(uint64_t));

    for (uint32_t i = 0; hosts && i < s->size; i++)
        memcpy(hosts->bytes + i * sizeof(uint64_t), &s->peer[i].host, sizeof(uint64_t));
    serve_all(s, (struct gw_ranks_head){.type = GW_RANKS_SAY_READY}, hosts);
    gw_ranks_blob_drop(hosts);
    if (s->listener >= 0) close(s->listener); /* no other process belongs to this program */
    s->listener = -1;
}

/* The time of the comparison says nothing of where the first difference is. */
static bool secret_same(const char *a, const char *b)
{
    uint8_t differ = 0;

    for (uint32_t i = 0; i < GW_RANKS_SECRET; i++) differ |= (uint8_t)(a[i] ^ b[i]);
    return !differ;
}

static bool serve_hello(struct gw_ranks_server *s, struct gw_ranks_conn *c)
{
    struct gw_ranks_hello hello;
    uint32_t rank = c->head.rank, err = 0;
    char why[GW_RANKS_TEXT];

    memcpy(&hello, c->body, sizeof(hello));
    if (!secret_same(hello.secret, s->secret)) {
        err = EACCES;
        snprintf(why, sizeof(why), "rank 0 has another secret");
    } else if (hello.size != s->size || rank >= s->size) {
        err = EPROTO;
        snprintf(why, sizeof(why), "rank %u of %u is none of rank 0's %u", rank, hello.size, s->size);
    } else if (s->peer[rank].state != GW_RANKS_ABSENT) {
        err = EPROTO;
        snprintf(why, sizeof(why), "rank 0 has a process of rank %u already", rank);
    }
    if (err) {
        gw_ranks_conn_say(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_REFUSED, .err = err}, why);
        c->broken = true;
        return false;
    }
    c->rank = rank;
    s->peer[rank].conn = c;
    s->peer[rank].state = GW_RANKS_HERE;
    s->peer[rank].host = hello.host;
    gw_ranks_conn_put(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_WELCOME}, NULL);
    for (uint32_t i = 0; i < s->size; i++) /* who died before it came */
        if (s->peer[i].state == GW_RANKS_LOST)
            gw_ranks_conn_put(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_DEAD, .rank = i}, NULL);
    if (++s->come == s->size) serve_ready(s);
    return true;
}

/* ---- fences and gathers -------------------------------------------------------------------------------- */

static void gather_done(struct gw_ranks_server *s, uint32_t err, struct gw_ranks_blob *body)
{
    for (uint32_t i = 0; i < s->size; i++) {
        struct gw_ranks_conn *c = s->peer[i].conn;

        if (!c || !c->part) continue;
        gw_ranks_blob_drop(c->part);
        c->part = NULL;
        gw_ranks_conn_put(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_DONE, .err = err}, body);
    }
}

static void gather_fail(struct gw_ranks_server *s, uint32_t err, const char *why)
{
    struct gw_ranks_blob *b = gw_ranks_blob_new(strlen(why));

    if (b) memcpy(b->bytes, why, b->size);
    gather_done(s, err, b);
    gw_ranks_blob_drop(b);
}

/* All have come, or some never will. */
static void gather_check(struct gw_ranks_server *s)
{
    struct gw_ranks_blob *all;
    const struct gw_ranks_blob *part = NULL;
    uint32_t come = 0;
    char why[GW_RANKS_TEXT];

    for (uint32_t i = 0; i < s->size; i++) {
        const struct gw_ranks_blob *p = s->peer[i].conn ? s->peer[i].conn->part : NULL;

        /* Once they are out of step, all hear that: some may have left on hearing it. */
        if (!s->out_of_step && (s->peer[i].state == GW_RANKS_LOST || s->peer[i].state == GW_RANKS_GONE)) {
            snprintf(why, sizeof(why), "rank %u %s", i,
                     s->peer[i].state == GW_RANKS_LOST ? "is dead" : "has left");
            gather_fail(s, ECONNRESET, why);
            return;
        }
        if (!p) continue;
        come++;
        if (part && part->size != p->size) s->out_of_step = true;
        part = p;
    }
    if (s->out_of_step || (part && part->size * s->size > GW_RANKS_ROOM)) {
        s->out_of_step = true; /* who comes later must hear it, too */
        gather_fail(s, EPROTO, "the ranks do not bring the same number of bytes");
        return;
    }
    if (come < s->size) return;
    all = gw_ranks_blob_new(s->size * part->size);
    for (uint32_t i = 0; all && i < s->size; i++)
        memcpy(all->bytes + i * part->size, s->peer[i].conn->part->bytes, part->size);
    gather_done(s, all ? 0 : ENOMEM, all);
    gw_ranks_blob_drop(all);
}

static void serve_gather(struct gw_ranks_server *s, struct gw_ranks_conn *c)
{
    if (c->part) { /* it has not had the answer to its last one */
        c->broken = true;
        return;
    }
    c->part = gw_ranks_blob_new(c->head.size);
    if (!c->part) {
        c->broken = true;
        return;
    }
    memcpy(c->part->bytes, c->body, c->head.size);
    gather_check(s);
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void wait_answer(struct gw_ranks_conn *c, uint32_t id, struct gw_ranks_blob *value, uint32_t err)
{
    gw_ranks_conn_put(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_VALUE, .id = id, .err = err}, value);
}

/* Answers the waits that are for `rank` (and key, if not NULL), and drops those that `from` had. */
static void waits_end(struct gw_ranks_server *s, uint32_t rank, const char *key, struct gw_ranks_blob *value,
                      uint32_t from)
{
    struct gw_ranks_wait **at = &s->waits, *w;

    while ((w = *at)) {
        bool answer = w->rank == rank && (!key || !strcmp(w->key, key));

        if (!answer && w->from != from) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        if (w->from != from && s->peer[w->from].conn) {
            s->peer[w->from].conn->lookups--;
            wait_answer(s->peer[w->from].conn, w->id, value, value ? 0 : ESRCH);
        }
        free(w);
    }
}

static void serve_publish(struct gw_ranks_server *s, struct gw_ranks_conn *c)
{
    const char *key = (const char *)c->body;
    int err =
        memchr(key, 0, GW_RANKS_KEY) && key[0]
            ? gw_ranks_store_put(s->store, c->rank, key, c->body + GW_RANKS_KEY, c->head.size - GW_RANKS_KEY)
            : -EINVAL;
    char why[GW_RANKS_TEXT];

    if (!err) {
        waits_end(s, c->rank, key, gw_ranks_store_get(s->store, c->rank, key), GW_RANKS_NOBODY);
        return;
    }
    snprintf(why, sizeof(why), "rank 0 cannot keep what this rank published: %s", strerror(-err));
    gw_ranks_conn_say(c, (struct gw_ranks_head){.type = GW_RANKS_SAY_REFUSED, .err = (uint32_t)-err}, why);
    c->broken = true;
}

static void serve_lookup(struct gw_ranks_server *s, struct gw_ranks_conn *c)
{
    uint32_t rank = c->head.rank, id = c->head.id;
    const char *key = (const char *)c->body;
    struct gw_ranks_blob *value;
    struct gw_ranks_wait *w;

    if (rank >= s->size || !memchr(key, 0, GW_RANKS_KEY)) {
        c->broken = true;
        return;
    }
    value = gw_ranks_store_get(s->store, rank, key);
    if (value || (s->peer[rank].state != GW_RANKS_HERE && s->peer[rank].state != GW_RANKS_ABSENT)) {
        wait_answer(c, id, value, value ? 0 : ESRCH);
        return;
    }
    w = c->lookups < MAX_LOOKUPS ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        wait_answer(c, id, NULL, EBUSY);
        return;
    }
    *w = (struct gw_ranks_wait){.next = s->waits, .from = c->rank, .id = id, .rank = rank};
    strcpy(w->key, key);
    s->waits = w;
    c->lookups++;
}

void gw_ranks_serve_free(struct gw_ranks_server *s)
{
    struct gw_ranks_wait *w;

    while ((w = s->waits)) {
        s->waits = w->next;
        free(w);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

void gw_ranks_serve_end(struct gw_ranks_server *s, uint32_t rank, enum gw_ranks_state how)
{
    gw_ranks_conn_free(s->peer[rank].conn);
    s->peer[rank].conn = NULL;
    s->peer[rank].state = how;
    serve_all(s,
              (struct gw_ranks_head){.type = how == GW_RANKS_LOST ? GW_RANKS_SAY_DEAD : GW_RANKS_SAY_LEFT,
                                     .rank = rank},
              NULL);
    waits_end(s, rank, NULL, NULL, rank);
    gather_check(s);
}

bool gw_ranks_serve(struct gw_ranks_server *s, struct gw_ranks_conn *c)
{
    switch (c->head.type) {
    case GW_RANKS_SAY_HELLO: return serve_hello(s, c);
    case GW_RANKS_SAY_PUBLISH: serve_publish(s, c); break;
    case GW_RANKS_SAY_LOOKUP: serve_lookup(s, c); break;
    case GW_RANKS_SAY_GATHER: serve_gather(s, c); break;
    case GW_RANKS_SAY_LEAVE: gw_ranks_serve_end(s, c->rank, GW_RANKS_GONE); break;
    }
    return false;
}

static bool rank_missing(const struct gw_ranks_server *s, uint32_t rank)
{
    if (s->come < s->size) return s->peer[rank].state == GW_RANKS_ABSENT;
    return s->peer[rank].conn && !s->peer[rank].conn->part;
}

/* Does that rank wait for others, and have nothing yet that tells for whom? */
static bool rank_waits(const struct gw_ranks_server *s, uint32_t rank)
{
    const struct gw_ranks_conn *c = s->peer[rank].conn;

    return c && (s->come < s->size || c->part);
}

/* "2, 5 and 7 more" */
static void missing_text(const struct gw_ranks_server *s, char text[GW_RANKS_TEXT])
{
    uint32_t missing = 0, shown = 0;
    size_t used = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < s->size; i++) {
        if (!rank_missing(s, i)) continue;
        missing++;
        if (used > GW_RANKS_TEXT - 40) continue;
        used += (size_t)snprintf(text + used, GW_RANKS_TEXT - used, "%s%u", used ? ", " : "", i);
        shown++;
    }
    if (missing > shown) snprintf(text + used, GW_RANKS_TEXT - used, " and %u more", missing - shown);
}

bool gw_ranks_serve_missing(struct gw_ranks_server *s)
{
    char text[GW_RANKS_TEXT];
    uint64_t now = gw_ranks_now();
    bool waiting = false;

    for (uint32_t i = 0; i < s->size && !waiting; i++) waiting = rank_waits(s, i);
    if (!waiting || !s->told_ns) {
        s->told_ns = waiting ? now : 0;
        s->missing[0] = 0;
        return waiting;
    }
    if (now - s->told_ns < TELL_NS) return true;
    s->told_ns = now;
    missing_text(s, text);
    if (!strcmp(text, s->missing)) return true;
    strcpy(s->missing, text);
    for (uint32_t i = 0; i < s->size; i++)
        if (rank_waits(s, i))
            gw_ranks_conn_say(s->peer[i].conn, (struct gw_ranks_head){.type = GW_RANKS_SAY_MISSING}, text);
    return true;
}
