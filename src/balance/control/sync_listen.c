/* SPDX-License-Identifier: Apache-2.0 */
/* The standby's door. A connection first proves the key, beside others that do so; then a thread of its own
 * serves it. Strangers get a few places for a short time, and take none from those that have the key. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/balance/control/sync_impl.h"
#include "src/door/limit.h"
#include "src/door/listen.h"

#define PROOF_NS  (5000 * MS) /* for the whole proof */
#define TURN_NS   (500 * MS)
#define STRANGERS 64u /* that have not proved the key; a new one takes the place of the oldest */
#define EACH      8u  /* of one address, by the same rule */
#define RECEIVERS 8u
#define AT_ONCE   16u /* strangers that come in before the others go on */
#define FIRST_FD  2u

struct stranger {
    struct gw_bal_tls tls; /* fd -1: the place is free */
    short events;
    uint64_t came_ns;
    unsigned char from[8]; /* an IPv4 address, or the network of an IPv6 address */
};

/* state: 0 free, 1 its thread runs, 2 its thread has ended. */
struct receiver {
    struct gw_bal_sync *s;
    struct gw_bal_tls tls;
    pthread_t thread;
    _Atomic int state;
};

struct listening {
    struct gw_bal_sync *s;
    struct stranger stranger[STRANGERS];
    struct receiver receiver[RECEIVERS];
    struct gw_say_limit said;
};

/* ---- those that have the key ---- */

static void *serve_receiver(void *arg)
{
    struct receiver *r = arg;
    int err = gw_bal_sync_receive(r->s, &r->tls);
    if (err == -ETIMEDOUT)
        fprintf(stderr, "gpuwire balance: the active balancer is connected, but silent; its connection is "
                        "closed\n");
    if (err == -EPROTO) fprintf(stderr, "gpuwire balance: flows came from another version of gpuwire\n");
    gw_bal_tls_close(&r->tls);
    r->state = 2;
    return NULL;
}

static void join_receivers(struct listening *l, bool all)
{
    for (unsigned i = 0; i < RECEIVERS; i++) {
        struct receiver *r = &l->receiver[i];
        if (r->state != 2 && !(all && r->state)) continue;
        pthread_join(r->thread, NULL);
        r->state = 0;
    }
}

static void begin_receiver(struct listening *l, struct stranger *o)
{
    for (unsigned i = 0; i < RECEIVERS; i++) {
        struct receiver *r = &l->receiver[i];
        if (r->state) continue;
        r->s = l->s;
        r->tls = o->tls;
        r->state = 1;
        if (pthread_create(&r->thread, NULL, serve_receiver, r)) {
            r->state = 0;
            break;
        }
        o->tls.fd = -1;
        return;
    }
    gw_bal_tls_close(&o->tls);
    gw_say(&l->said, "sync_listen: %u active balancers are connected already; one more is turned away",
           RECEIVERS);
}

/* ---- those that have not proved it ---- */

static void address_key(int fd, unsigned char from[8])
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a = {0};
    socklen_t bytes = sizeof(a);
    memset(from, 0, 8);
    if (getpeername(fd, &a.any, &bytes)) return;
    if (a.any.sa_family == AF_INET)
        memcpy(from, &a.four.sin_addr, 4);
    else
        memcpy(from, &a.six.sin6_addr, 8);
}

/* The place for one more: a free one, or that of the oldest stranger. An address that has enough gives one of
 * its own. */
static struct stranger *sync_listen_take_place(struct listening *l, const unsigned char from[8])
{
    struct stranger *free_one = NULL, *oldest = NULL, *oldest_same = NULL;
    unsigned same = 0;
    for (struct stranger *o = l->stranger; o < l->stranger + STRANGERS; o++) {
        if (o->tls.fd < 0) {
            free_one = o;
            continue;
        }
        if (!oldest || o->came_ns < oldest->came_ns) oldest = o;
        if (memcmp(o->from, from, 8)) continue;
        same++;
        if (!oldest_same || o->came_ns < oldest_same->came_ns) oldest_same = o;
    }
    struct stranger *place = same >= EACH ? oldest_same : free_one ? free_one : oldest;
    if (place->tls.fd >= 0) gw_bal_tls_close(&place->tls);
    return place;
}

/* Returns false when no peer waits. */
static bool sync_listen_let_in(struct listening *l)
{
    unsigned char from[8];
    struct gw_bal_tls tls;
    int fd = accept4(l->s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return false;
    gw_listen_watch(fd); /* an active one that vanishes closes nothing */
    address_key(fd, from);
    if (gw_bal_tls_open(&l->s->key, fd, l->s->end_fd, 1, &tls)) return true;
    struct stranger *o = sync_listen_take_place(l, from);
    *o = (struct stranger){.tls = tls, .events = POLLIN, .came_ns = gw_deadline(0)};
    memcpy(o->from, from, sizeof(from));
    return true;
}

static void sync_listen_go_on(struct listening *l, struct stranger *o)
{
    int err = gw_bal_tls_step(&o->tls, &o->events);
    if (!err) {
        begin_receiver(l, o);
        return;
    }
    if (err == -EAGAIN && gw_deadline(0) - o->came_ns < PROOF_NS) return;
    if (err == -EACCES)
        gw_say(&l->said, "sync_listen: a connection does not prove the key; an active balancer must have the "
                         "same sync_key_file");
    gw_bal_tls_close(&o->tls);
}

/* ---- the loop ---- */

static void listen_turn(struct listening *l, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = l->s->end_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = l->s->listen_fd, .events = POLLIN};
    for (unsigned i = 0; i < STRANGERS; i++)
        fds[FIRST_FD + i] = (struct pollfd){.fd = l->stranger[i].tls.fd, .events = l->stranger[i].events};
    poll(fds, FIRST_FD + STRANGERS, TURN_NS / MS);
    join_receivers(l, false);
    for (unsigned i = 0; i < STRANGERS; i++)
        if (l->stranger[i].tls.fd >= 0) sync_listen_go_on(l, &l->stranger[i]);
    for (unsigned i = 0; i < AT_ONCE && sync_listen_let_in(l); i++) continue;
}

void *gw_bal_sync_listen(void *arg)
{
    struct pollfd fds[FIRST_FD + STRANGERS] = {0};
    struct listening *l = calloc(1, sizeof(*l));
    if (!l) return NULL;
    l->s = arg;
    for (unsigned i = 0; i < STRANGERS; i++) l->stranger[i].tls.fd = -1;
    while (!(fds[0].revents & POLLIN)) listen_turn(l, fds);
    for (unsigned i = 0; i < STRANGERS; i++)
        if (l->stranger[i].tls.fd >= 0) gw_bal_tls_close(&l->stranger[i].tls);
    join_receivers(l, true); /* end_fd ends their waits, too */
    free(l);
    return NULL;
}
