/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in and out of one connection of rank 0's server, without waiting. */
#include "src/ranks/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_QUEUED ((size_t)128 << 20) /* bytes: more than any rank that reads can have asked for */

struct gw_ranks_out {
    struct gw_ranks_out *next;
    struct gw_ranks_head head;
    struct gw_ranks_blob *body;
};

struct gw_ranks_conn *gw_ranks_conn_new(int fd)
{
    struct gw_ranks_conn *c = calloc(1, sizeof(*c));

    if (!c) {
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->rank = GW_RANKS_NOBODY;
    c->since = gw_ranks_now();
    c->last = &c->first;
    return c;
}

static void out_pop(struct gw_ranks_conn *c)
{
    struct gw_ranks_out *o = c->first;

    c->first = o->next;
    if (!c->first) c->last = &c->first;
    c->sent = 0;
    c->queued -= sizeof(*o) + o->head.size;
    gw_ranks_blob_drop(o->body);
    free(o);
}

void gw_ranks_conn_free(struct gw_ranks_conn *c)
{
    if (!c) return;
    while (c->first) out_pop(c);
    gw_ranks_blob_drop(c->part);
    free(c->body);
    close(c->fd);
    free(c);
}

/* May this connection send such a frame now? */
static bool head_sound(const struct gw_ranks_conn *c)
{
    uint32_t type = c->head.type, size = c->head.size;

    if (c->head.magic != GW_RANKS_MAGIC) return false;
    if (c->rank == GW_RANKS_NOBODY)
        return type == GW_RANKS_SAY_HELLO && size == sizeof(struct gw_ranks_hello);
    if (type == GW_RANKS_SAY_PUBLISH) return size >= GW_RANKS_KEY && size <= GW_RANKS_KEY + GW_RANKS_VALUE;
    if (type == GW_RANKS_SAY_LOOKUP) return size == GW_RANKS_KEY;
    if (type == GW_RANKS_SAY_GATHER) return size <= GW_RANKS_VALUE;
    return type == GW_RANKS_SAY_LEAVE && !size;
}

bool gw_ranks_conn_read(struct gw_ranks_conn *c)
{
    size_t head = sizeof(c->head), want = c->got < head ? head : head + c->head.size;
    uint8_t *to = c->got < head ? (uint8_t *)&c->head + c->got : c->body + (c->got - head);
    ssize_t n = recv(c->fd, to, want - c->got, MSG_DONTWAIT);

    if (n <= 0) {
        c->broken |= !n || (errno != EAGAIN && errno != EINTR);
        return false;
    }
    c->got += (size_t)n;
    if (c->got == head) {
        free(c->body);
        c->body = head_sound(c) ? malloc(c->head.size + 1) : NULL;
        if (!c->body) c->broken = true;
    }
    if (c->broken || c->got < head || c->got < head + c->head.size) return false;
    c->got = 0;
    return true;
}

void gw_ranks_conn_flush(struct gw_ranks_conn *c)
{
    while (c->first && !c->broken) {
        struct gw_ranks_out *o = c->first;
        size_t head = sizeof(o->head), all = head + o->head.size,
               in_body = c->sent > head ? c->sent - head : 0;
        struct iovec v[2] = {
            {.iov_base = (char *)&o->head + c->sent, .iov_len = c->sent < head ? head - c->sent : 0},
            {.iov_base = o->body ? o->body->bytes + in_body : NULL, .iov_len = o->head.size - in_body}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR) continue;
            c->broken |= errno != EAGAIN;
            return;
        }
        c->sent += (size_t)n;
        if (c->sent == all) out_pop(c);
    }
}

void gw_ranks_conn_put(struct gw_ranks_conn *c, struct gw_ranks_head head, struct gw_ranks_blob *body)
{
    struct gw_ranks_out *o = c->broken ? NULL : malloc(sizeof(*o));

    head.magic = GW_RANKS_MAGIC;
    head.size = body ? (uint32_t)body->size : 0;
    if (!o || c->queued + sizeof(*o) + head.size > MAX_QUEUED) {
        free(o);
        c->broken = true;
        return;
    }
    *o = (struct gw_ranks_out){.head = head, .body = body};
    if (body) body->refs++;
    *c->last = o;
    c->last = &o->next;
    c->queued += sizeof(*o) + head.size;
    gw_ranks_conn_flush(c);
}

void gw_ranks_conn_say(struct gw_ranks_conn *c, struct gw_ranks_head head, const char *text)
{
    struct gw_ranks_blob *b = gw_ranks_blob_new(strlen(text));

    if (b) memcpy(b->bytes, text, b->size);
    gw_ranks_conn_put(c, head, b);
    gw_ranks_blob_drop(b);
}
