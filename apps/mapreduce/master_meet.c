/* SPDX-License-Identifier: Apache-2.0 */
/* The master's first minute: ranks connect, and say who they are. Strangers are turned away. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "master_impl.h"

enum { MEET_S = 60, HELLO_S = 5, HELLO_BYTES = 256 };

/* A connection that has not said who it is. */
struct stranger {
    struct wire wire;
    uint64_t until_ns;
};

struct meeting {
    struct master *m;
    struct stranger s[MASTER_PENDING];
    uint32_t strangers, here;
    const uint8_t *cookie;
    size_t cookie_bytes;
};

static bool hello_right(struct meeting *t, struct unpack *u, uint32_t *rank, uint32_t *pid)
{
    size_t n;
    const uint8_t *c = unpack_bytes(u, &n);

    *rank = unpack_u32(u);
    *pid = unpack_u32(u);
    return !u->bad && n == t->cookie_bytes && !memcmp(c, t->cookie, n) && *rank < t->m->o.ranks &&
           !t->m->rank[*rank].alive;
}

/* Reads what a stranger says. true: it is none any more. */
static bool stranger_hear(struct meeting *t, struct stranger *s)
{
    bool gone = wire_read(&s->wire) != 0;
    struct unpack u;
    uint32_t type, rank, pid;

    if (wire_next(&s->wire, &type, &u)) {
        if (type == WIRE_HELLO && hello_right(t, &u, &rank, &pid)) {
            struct member *r = &t->m->rank[rank];

            r->wire = s->wire;
            r->wire.max = UINT32_MAX;
            r->alive = true;
            r->heard_ns = gw_clock_ns();
            r->pid = pid;
            t->here++;
            return true;
        }
        gone = true;
    }
    if (gone || gw_clock_ns() > s->until_ns) {
        wire_close(&s->wire);
        return true;
    }
    return false;
}

static void meet_accept(struct meeting *t, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct stranger *s;

    if (fd < 0) return;
    if (t->strangers == MASTER_PENDING) { /* the first has had its time */
        wire_close(&t->s[0].wire);
        memmove(&t->s[0], &t->s[1], --t->strangers * sizeof(t->s[0]));
    }
    s = &t->s[t->strangers];
    wire_open(&s->wire, fd, HELLO_BYTES);
    s->until_ns = gw_clock_ns() + HELLO_S * (uint64_t)1000000000;
    t->strangers++;
}

static int meet_step(struct meeting *t, int listener)
{
    struct pollfd p[MASTER_PENDING + 2] = {{listener, POLLIN, 0}, {t->m->o.interrupt_fd, POLLIN, 0}};

    for (uint32_t i = 0; i < t->strangers; i++) p[2 + i] = (struct pollfd){t->s[i].wire.fd, POLLIN, 0};
    poll(p, 2 + t->strangers, 200);
    if (p[1].revents) return master_fail(t->m, -EINTR, "interrupted");
    for (uint32_t i = t->strangers; i-- > 0;)
        if ((p[2 + i].revents || gw_clock_ns() > t->s[i].until_ns) && stranger_hear(t, &t->s[i]))
            memmove(&t->s[i], &t->s[i + 1], (--t->strangers - i) * sizeof(t->s[0])); /* oldest first */
    if (p[0].revents) meet_accept(t, listener);
    return 0;
}

int master_meet(struct master *m, int listener, const uint8_t *cookie, size_t cookie_bytes)
{
    struct meeting *t = (struct meeting *)calloc(1, sizeof(*t));
    uint64_t until = gw_clock_ns() + MEET_S * (uint64_t)1000000000;
    int err = t ? 0 : master_fail(m, -ENOMEM, "no memory");

    if (t) {
        t->m = m;
        t->cookie = cookie;
        t->cookie_bytes = cookie_bytes;
    }
    while (!err && t->here < m->o.ranks) {
        err = meet_step(t, listener);
        if (!err && gw_clock_ns() > until)
            err = master_fail(m, -ETIMEDOUT, "only %u of %u ranks came within %d s", t->here, m->o.ranks,
                              MEET_S);
    }
    for (uint32_t i = 0; t && i < t->strangers; i++) wire_close(&t->s[i].wire);
    close(listener);
    m->alive = t ? t->here : 0;
    free(t);
    return err;
}
