/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what a socket does not take. Short frames of one turn of the loop leave together. */
#include "src/fleet/wire/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LONG = 16 << 10 }; /* from here on, copying costs more than a call of the system */

static int outbox_room(struct fleet_outbox *o, size_t n)
{
    if (o->from && o->room - o->to < n) {
        memmove(o->bytes, o->bytes + o->from, o->to - o->from);
        o->to -= o->from;
        o->from = 0;
    }
    if (o->room - o->to >= n) return 0;
    size_t room = 2 * o->room > o->to + n ? 2 * o->room : o->to + n;
    uint8_t *bytes = realloc(o->bytes, room);
    if (!bytes) return -ENOMEM;
    o->bytes = bytes;
    o->room = room;
    return 0;
}

/* What a socket took: it is gone from the vector. */
static void outbox_skip(struct iovec *v, int n, size_t gone)
{
    for (int i = 0; i < n; i++) {
        size_t k = gone < v[i].iov_len ? gone : v[i].iov_len;
        v[i].iov_base = (char *)v[i].iov_base + k;
        v[i].iov_len -= k;
        gone -= k;
    }
}

static ssize_t outbox_write(int fd, struct iovec *v, int n)
{
    struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
    ssize_t k = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k >= 0) return k;
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

int fleet_outbox_send(struct fleet_outbox *o, int fd, struct iovec *v, int n, size_t most)
{
    size_t bytes = 0, waits = o->to - o->from;
    for (int i = 0; i < n; i++) bytes += v[i].iov_len;
    if (waits && waits + bytes > most) return -ENOBUFS;
    if (!waits && bytes >= LONG) {
        ssize_t k = outbox_write(fd, v, n);
        if (k < 0) return (int)k;
        outbox_skip(v, n, (size_t)k);
        bytes -= (size_t)k;
    }
    int err = outbox_room(o, bytes);
    if (err) return err;
    for (int i = 0; i < n; i++) {
        if (v[i].iov_len) memcpy(o->bytes + o->to, v[i].iov_base, v[i].iov_len);
        o->to += v[i].iov_len;
    }
    return 0;
}

int fleet_outbox_flush(struct fleet_outbox *o, int fd)
{
    while (o->from < o->to) {
        struct iovec v = {o->bytes + o->from, o->to - o->from};
        ssize_t k = outbox_write(fd, &v, 1);
        if (k < 0) return (int)k;
        if (!k) return 1;
        o->from += (size_t)k;
    }
    o->from = o->to = 0;
    return 0;
}

void fleet_outbox_trim(struct fleet_outbox *o)
{
    if (o->from < o->to) return;
    free(o->bytes);
    *o = (struct fleet_outbox){0};
}
