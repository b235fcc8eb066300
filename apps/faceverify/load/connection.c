/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests and takes replies on one connection, without waiting. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#include <gpuwire/error.h>

#include "apps/faceverify/load/connection.h"
#include "apps/faceverify/now.h"

#define NO_SLOT UINT32_MAX
enum { REQUESTS_A_CALL = 32 };

int face_connection_open(struct face_connection *c, const struct face_load *load)
{
    c->wire = load->wire;
    c->pipeline = load->pipeline;
    c->fd = -1;
    c->slot = aligned_alloc(16, c->pipeline * sizeof(*c->slot));
    if (!c->slot) return gw_error(-ENOMEM, "no memory for %u requests", c->pipeline);
    memset(c->slot, 0, c->pipeline * sizeof(*c->slot));
    for (uint32_t i = 0; i < c->pipeline; i++) c->slot[i].next = i + 1 < c->pipeline ? i + 1 : NO_SLOT;
    c->free_first = 0;
    c->send_first = c->send_last = NO_SLOT;
    c->fd = c->wire->open((const struct sockaddr *)&load->address, load->address_len);
    return c->fd < 0 ? gw_error_errno(-errno, "cannot connect to the server") : 0;
}

void face_connection_close(struct face_connection *c, struct face_tally *tally)
{
    if (c->fd >= 0) c->wire->close(c->fd);
    c->fd = -1;
    tally->lost += c->busy;
    c->busy = 0;
    free(c->slot);
    c->slot = NULL;
}

void face_connection_post(struct face_connection *c, const struct face_ask *ask, uint64_t now)
{
    uint32_t i = c->free_first;
    struct face_slot *s = &c->slot[i];
    uint64_t id = (uint64_t)++s->turn << 32 | i;
    c->free_first = s->next;
    c->busy++;
    s->ask = ask;
    s->sent = false;
    s->begun_ns = now;
    s->next = NO_SLOT;
    memcpy(s->head, ask->head, ask->head_bytes);
    memcpy(s->head + offsetof(struct face_request, id), &id, sizeof(id));
    if (c->send_last == NO_SLOT)
        c->send_first = i;
    else
        c->slot[c->send_last].next = i;
    c->send_last = i;
}

/* The parts of the first requests in the list that are not sent yet. */
static int connection_parts(struct face_connection *c, struct iovec *part)
{
    uint32_t skip = c->sent_bytes;
    int n = 0;
    for (uint32_t i = c->send_first; i != NO_SLOT && n < 2 * REQUESTS_A_CALL; i = c->slot[i].next) {
        struct face_slot *s = &c->slot[i];
        uint32_t head = s->ask->head_bytes, skip_head = skip < head ? skip : head;
        if (skip < head) part[n++] = (struct iovec){s->head + skip, head - skip};
        skip -= skip_head;
        part[n++] = (struct iovec){(void *)(s->ask->pixels + skip), FACE_PIXELS - skip};
        skip = 0;
    }
    return n;
}

static void connection_sent(struct face_connection *c, size_t bytes)
{
    bytes += c->sent_bytes;
    while (c->send_first != NO_SLOT) {
        struct face_slot *s = &c->slot[c->send_first];
        uint32_t size = s->ask->head_bytes + FACE_PIXELS;
        if (bytes < size) break;
        bytes -= size;
        s->sent = true;
        c->send_first = s->next;
    }
    if (c->send_first == NO_SLOT) c->send_last = NO_SLOT;
    c->sent_bytes = (uint32_t)bytes;
}

bool face_connection_unsent(const struct face_connection *c)
{
    return c->send_first != NO_SLOT;
}

int face_connection_send(struct face_connection *c)
{
    struct iovec part[2 * REQUESTS_A_CALL + 1];
    c->want_out = false;
    while (c->send_first != NO_SLOT) {
        struct msghdr m = {.msg_iov = part, .msg_iovlen = (size_t)connection_parts(c, part)};
        ssize_t n = c->wire->send(c->fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) return -errno;
        if (n < 0) {
            c->want_out = true;
            return 0;
        }
        connection_sent(c, (size_t)n);
    }
    return 0;
}

static void tally_wrong(struct face_tally *t, const struct face_ask *ask, const struct face_reply *r,
                        const char *must)
{
    const struct face_request *head = (const void *)ask->head;
    if (!t->wrong++)
        snprintf(t->why, sizeof(t->why), "%.*s: verdict %u, distance %g; must be %s, %g",
                 (int)head->name_len < 60 ? (int)head->name_len : 60, (const char *)ask->head + sizeof(*head),
                 r->verdict, (double)r->distance, must, (double)ask->distance);
}

/* A refusal is not wrong: it is counted by its verdict. */
static void check_verdict(const struct face_ask *ask, const struct face_reply *r, bool exact,
                          struct face_tally *t)
{
    if (r->verdict == FACE_UNAVAILABLE || r->verdict == FACE_BUSY) return;
    if (ask->distance < 0) {
        if (r->verdict != FACE_UNKNOWN) tally_wrong(t, ask, r, "unknown");
        return;
    }
    bool match = exact ? ask->distance <= r->threshold : r->distance <= r->threshold;
    if (r->verdict != (match ? FACE_MATCH : FACE_NO_MATCH) || (exact && r->distance != ask->distance))
        tally_wrong(t, ask, r, match ? "a match" : "no match");
}

/* Where the server's time went. */
static void count_spans(const struct face_reply *r, struct face_tally *t)
{
    static const uint8_t from[FACE_SPANS] = {FACE_RECEIVED, FACE_ASKED, FACE_ANSWERED, FACE_COMPARED};
    for (int i = 0; i < FACE_SPANS; i++) {
        uint64_t a = r->ns[from[i]], b = r->ns[from[i] + 1];
        if (a && b >= a) face_times_add(&t->span[i], b - a);
    }
}

/* -EPROTO: nothing of this protocol, or a reply to nothing that was asked. */
static int take_reply(struct face_connection *c, const struct face_load *load, const struct face_reply *r,
                      struct face_tally *t)
{
    uint32_t i = (uint32_t)r->id;
    if (r->magic != FACE_REPLY_MAGIC || r->version != FACE_WIRE_VERSION || r->verdict >= FACE_VERDICTS ||
        i >= c->pipeline || !c->slot[i].ask || !c->slot[i].sent || c->slot[i].turn != (uint32_t)(r->id >> 32))
        return -EPROTO;
    struct face_slot *s = &c->slot[i];
    uint64_t now = face_now();
    t->replies++;
    t->verdict[r->verdict]++;
    check_verdict(s->ask, r, load->check, t);
    if (now >= load->count_ns && now < load->end_ns) {
        t->counted++;
        face_times_add(&t->total, now - s->begun_ns);
        count_spans(r, t);
    }
    s->ask = NULL;
    s->next = c->free_first;
    c->free_first = i;
    c->busy--;
    return 0;
}

int face_connection_receive(struct face_connection *c, const struct face_load *load, struct face_tally *tally)
{
    for (;;) {
        ssize_t n = c->wire->recv(c->fd, c->in + c->got_bytes, sizeof(c->in) - c->got_bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN ? 0 : -errno;
        if (!n) return -ECONNRESET;
        c->got_bytes += (uint32_t)n;
        uint32_t at = 0;
        for (; c->got_bytes - at >= sizeof(struct face_reply); at += (uint32_t)sizeof(struct face_reply)) {
            int err = take_reply(c, load, (const void *)(c->in + at), tally);
            if (err) return err;
        }
        c->got_bytes -= at;
        memmove(c->in, c->in + at, c->got_bytes);
        if ((size_t)n < sizeof(c->in) / 2) return 0;
    }
}
