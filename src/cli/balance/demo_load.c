/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and clients of the balancer's demo. */
#include "src/cli/balance/demo_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#define MS       1000000ull
#define ASK_NS   (100 * MS)
#define SHORT_NS (10 * MS)    /* a short connection begins so often */
#define LOST_NS  (15000 * MS) /* without an answer for this long, it is broken */
#define STEP_NS  (100 * MS)
#define CLIENTS  1024
#define EVENTS   64
#define NOBODY   GW_DEMO_WORKERS

/* A worker's handshake announces a segment size of its own. So a client knows its worker before the first
 * answer. */
#define MSS      1000
#define MSS_STEP 100

static struct sockaddr_in demo_load_address(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(GW_DEMO_PORT)};
    inet_pton(AF_INET, text, &a.sin_addr);
    return a;
}

/* ---- a worker: answers each byte with its number ---- */

static void demo_load_answer(int fd, char number)
{
    char data[256];
    ssize_t n = recv(fd, data, sizeof(data), 0);
    if (n <= 0) {
        close(fd);
        return;
    }
    memset(data, number, (size_t)n);
    if (send(fd, data, (size_t)n, MSG_NOSIGNAL) < 0) close(fd);
}

void gw_demo_worker(unsigned number)
{
    struct sockaddr_in any = demo_load_address("0.0.0.0");
    struct epoll_event e = {.events = EPOLLIN}, got[EVENTS];
    int on = 1, poll = epoll_create1(0), door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int mss = MSS + MSS_STEP * (int)number;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(door, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
    e.data.fd = door;
    if (bind(door, (struct sockaddr *)&any, sizeof(any)) || listen(door, 1024) ||
        epoll_ctl(poll, EPOLL_CTL_ADD, door, &e))
        _exit(1);
    for (;;) {
        int n = epoll_wait(poll, got, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (got[i].data.fd != door) {
                demo_load_answer(got[i].data.fd, (char)('0' + number));
                continue;
            }
            e.data.fd = accept4(door, NULL, NULL, SOCK_NONBLOCK);
            if (e.data.fd >= 0) epoll_ctl(poll, EPOLL_CTL_ADD, e.data.fd, &e);
        }
    }
}

/* ---- clients ---- */

struct client {
    int fd;     /* -1: the place is free */
    int worker; /* NOBODY: none has answered yet */
    int began;  /* in which phase */
    int stays, connected, waits;
    uint64_t asked_ns, next_ns;
};

struct clients {
    struct gw_demo_tally *t;
    struct client c[CLIENTS];
    int poll, staying;
    uint64_t short_ns, time_ns, clock_ns;
};

static int phase_of(const struct clients *all)
{
    int phase = atomic_load(&all->t->phase);
    return phase < GW_DEMO_PHASES ? phase : GW_DEMO_PHASES - 1;
}

/* This process' own time. It stands still while the machine does: then no client is late. */
static uint64_t own_time(struct clients *all)
{
    uint64_t clock = gw_deadline(0), step = clock - all->clock_ns;
    all->clock_ns = clock;
    return all->time_ns += step < STEP_NS ? step : STEP_NS;
}

static void demo_load_end(struct clients *all, struct client *c)
{
    close(c->fd);
    c->fd = -1;
    if (!c->stays) return;
    all->staying--;
    if (c->worker != NOBODY) atomic_fetch_sub(&all->t->of[c->worker].staying, 1);
}

static void broke(struct clients *all, struct client *c)
{
    int began = c->began;
    if (began < GW_DEMO_DYING && phase_of(all) >= GW_DEMO_DYING)
        began = GW_DEMO_DYING; /* it asked the dead one, too */
    atomic_fetch_add(c->worker == NOBODY ? &all->t->unanswered[began] : &all->t->of[c->worker].broken, 1);
    demo_load_end(all, c);
}

/* A worker has answered for the first time. */
static void opened(struct clients *all, struct client *c, int worker)
{
    c->worker = worker;
    atomic_fetch_add(&all->t->of[worker].opened[c->began], 1);
    if (c->stays) atomic_fetch_add(&all->t->of[worker].staying, 1);
}

static void demo_load_begin(struct clients *all, int stays, uint64_t now)
{
    struct sockaddr_in to = demo_load_address(GW_DEMO_VIP);
    struct client *c = all->c;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    while (c < all->c + CLIENTS && c->fd >= 0) c++;
    if (c == all->c + CLIENTS) return; /* the others are slow */
    *c = (struct client){
        .worker = NOBODY, .began = phase_of(all), .stays = stays, .waits = 1, .asked_ns = now};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) return;
    e.data.ptr = c;
    all->staying += stays;
    if ((connect(c->fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS) ||
        epoll_ctl(all->poll, EPOLL_CTL_ADD, c->fd, &e))
        broke(all, c);
}

static void demo_load_ask(struct clients *all, struct client *c, uint64_t now)
{
    c->waits = 1;
    c->asked_ns = now;
    if (send(c->fd, "?", 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN) broke(all, c);
}

static void demo_load_connected(struct clients *all, struct client *c, uint64_t now)
{
    int mss = 0, worker;
    socklen_t size = sizeof(mss);
    c->connected = 1;
    getsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &size);
    worker = (mss - MSS + MSS_STEP / 2) / MSS_STEP; /* options take a few bytes of it */
    if (mss >= MSS - MSS_STEP / 2 && worker < GW_DEMO_WORKERS) opened(all, c, worker);
    demo_load_ask(all, c, now);
}

static void demo_load_take_answer(struct clients *all, struct client *c, uint64_t now)
{
    char data[16];
    ssize_t n = recv(c->fd, data, sizeof(data), 0);
    if (n < 0 && errno == EAGAIN) return;
    int worker = n > 0 ? data[0] - '0' : -1;
    if (worker < 0 || worker >= GW_DEMO_WORKERS) {
        broke(all, c);
        return;
    }
    if (c->worker == NOBODY) opened(all, c, worker);
    if (c->worker != worker) { /* it counts as the first one's */
        atomic_fetch_add(&all->t->of[c->worker].moved, 1);
        demo_load_end(all, c);
        return;
    }
    c->waits = 0;
    c->next_ns = now + ASK_NS;
    atomic_fetch_add(&all->t->of[worker].answers, 1);
    if (!c->stays) demo_load_end(all, c);
}

static void demo_load_look(struct clients *all, struct client *c, uint32_t events, uint64_t now)
{
    if (events & (EPOLLERR | EPOLLHUP))
        broke(all, c);
    else if (events & EPOLLIN)
        demo_load_take_answer(all, c, now);
    else if (!c->connected)
        demo_load_connected(all, c, now);
}

static void demo_load_tend(struct clients *all, uint64_t now)
{
    for (struct client *c = all->c; c < all->c + CLIENTS; c++) {
        if (c->fd < 0) continue;
        if (c->waits && now - c->asked_ns > LOST_NS)
            broke(all, c);
        else if (!c->waits && now >= c->next_ns)
            demo_load_ask(all, c, now);
    }
    for (int n = 0; all->staying < GW_DEMO_STAYING && n < 10; n++) demo_load_begin(all, 1, now);
    if (now < all->short_ns) return;
    all->short_ns = now + SHORT_NS;
    demo_load_begin(all, 0, now);
}

void gw_demo_clients(struct gw_demo_tally *t)
{
    struct epoll_event got[EVENTS];
    struct clients *all = calloc(1, sizeof(*all));
    if (!all) _exit(1);
    all->t = t;
    all->poll = epoll_create1(0);
    for (int i = 0; i < CLIENTS; i++) all->c[i].fd = -1;
    while (atomic_load(&t->phase) != GW_DEMO_END) {
        int n = epoll_wait(all->poll, got, EVENTS, 5);
        uint64_t now = own_time(all);
        for (int i = 0; i < n; i++) {
            struct client *c = got[i].data.ptr;
            if (c->fd >= 0) demo_load_look(all, c, got[i].events, now);
        }
        demo_load_tend(all, now);
    }
    _exit(0);
}
