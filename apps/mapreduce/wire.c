/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between master and workers: packing, and framing over TCP. */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEAD = 8, READ_BYTES = 256 << 10 };

static bool pack_room(struct pack *p, size_t n)
{
    if (p->failed) return false;
    if (!p->bytes) n += HEAD; /* the frame's head comes first */
    if (p->bytes + n > p->room) {
        size_t room = (p->bytes + n) * 2;
        uint8_t *at = (uint8_t *)realloc(p->at, room);

        if (!at) return p->failed = true, false;
        p->at = at;
        p->room = room;
    }
    if (!p->bytes) p->bytes = HEAD;
    return true;
}

static void pack_raw(struct pack *p, const void *from, size_t n)
{
    if (!pack_room(p, n)) return;
    if (n) memcpy(p->at + p->bytes, from, n);
    p->bytes += n;
}

void pack_u32(struct pack *p, uint32_t v)
{
    pack_raw(p, &v, 4);
}

void pack_u64(struct pack *p, uint64_t v)
{
    pack_raw(p, &v, 8);
}

void pack_bytes(struct pack *p, const void *from, size_t n)
{
    pack_u32(p, (uint32_t)n);
    pack_raw(p, from, n);
}

void pack_free(struct pack *p)
{
    free(p->at);
    memset(p, 0, sizeof(*p));
}

static const uint8_t *unpack_raw(struct unpack *u, size_t n)
{
    const uint8_t *at = u->at;

    if (u->bad || (size_t)(u->end - at) < n) return u->bad = true, NULL;
    u->at += n;
    return at;
}

uint32_t unpack_u32(struct unpack *u)
{
    const uint8_t *at = unpack_raw(u, 4);
    uint32_t v = 0;

    if (at) memcpy(&v, at, 4);
    return v;
}

uint64_t unpack_u64(struct unpack *u)
{
    const uint8_t *at = unpack_raw(u, 8);
    uint64_t v = 0;

    if (at) memcpy(&v, at, 8);
    return v;
}

const uint8_t *unpack_bytes(struct unpack *u, size_t *n)
{
    const uint8_t *at;

    *n = unpack_u32(u);
    at = unpack_raw(u, *n);
    if (!at) *n = 0;
    return at;
}

void unpack_text(struct unpack *u, char *to, size_t size)
{
    size_t n;
    const uint8_t *at = unpack_bytes(u, &n);

    if (n > size - 1) n = size - 1;
    if (n) memcpy(to, at, n);
    to[n] = 0;
}

/* A host that vanished is noticed within half a minute; so is a peer that takes nothing. */
static void wire_options(int fd)
{
    int one = 1, idle = 10, interval = 5, count = 4, limit_ms = 30000;
    struct timeval limit = {20, 0};

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void wire_open(struct wire *w, int fd, size_t max)
{
    memset(w, 0, sizeof(*w));
    w->fd = fd;
    w->max = max;
    wire_options(fd);
}

void wire_close(struct wire *w)
{
    if (w->fd >= 0) close(w->fd);
    free(w->in);
    memset(w, 0, sizeof(*w));
    w->fd = -1;
}

int wire_send(struct wire *w, uint32_t type, struct pack *p)
{
    int err = pack_room(p, 0) ? 0 : -ENOMEM;
    size_t at = 0;

    if (!err) {
        uint32_t head[2] = {type, (uint32_t)(p->bytes - HEAD)};

        memcpy(p->at, head, sizeof(head));
    }
    while (!err && at < p->bytes) {
        ssize_t n = send(w->fd, p->at + at, p->bytes - at, MSG_NOSIGNAL);

        if (n > 0)
            at += (size_t)n;
        else if (errno != EINTR)
            err = errno == EAGAIN ? -ETIMEDOUT : -errno;
    }
    pack_free(p);
    return err;
}

int wire_read(struct wire *w)
{
    for (;;) {
        ssize_t n;

        if (w->used) {
            memmove(w->in, w->in + w->used, w->have - w->used);
            w->have -= w->used;
            w->used = 0;
        }
        if (w->room - w->have < READ_BYTES) {
            size_t room = w->have + 2 * READ_BYTES;
            uint8_t *in = (uint8_t *)realloc(w->in, room);

            if (!in) return -ENOMEM;
            w->in = in;
            w->room = room;
        }
        n = recv(w->fd, w->in + w->have, READ_BYTES, MSG_DONTWAIT);
        if (n > 0) {
            w->have += (size_t)n;
            if (n < READ_BYTES) return 0;
            if (w->have > w->max + HEAD) return 0; /* there is a whole message, or none will be */
        } else if (n == 0) {
            return -ECONNRESET;
        } else if (errno != EINTR) {
            return errno == EAGAIN ? 0 : -ECONNRESET;
        }
    }
}

bool wire_next(struct wire *w, uint32_t *type, struct unpack *u)
{
    uint32_t head[2];

    if (w->have - w->used < HEAD) return false;
    memcpy(head, w->in + w->used, sizeof(head));
    if (head[1] > w->max) {
        *type = 0; /* no type: the caller drops the peer */
        memset(u, 0, sizeof(*u));
        u->bad = true;
        w->used = w->have;
        return true;
    }
    if (w->have - w->used < HEAD + (size_t)head[1]) return false;
    *type = head[0];
    u->at = w->in + w->used + HEAD;
    u->end = u->at + head[1];
    u->bad = false;
    w->used += HEAD + head[1];
    return true;
}
