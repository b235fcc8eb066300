/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts gRPC connections, and spreads them over the threads that read from them. */
#include "src/server/grpc/gate.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/sync.h>

#include "src/door/connections.h"
#include "src/door/listen.h"

#define THREADS     2 /* that read from connections */
#define EACH_OPTION "--connections-per-client"
#define EACH        64u /* connections of one client, unless the option says otherwise */
#define EVENTS      32
#define STACK       (256u << 10)
#define ROOM        (128u << 10) /* bytes that are read from one connection before it is another's turn */
#define CLOSE_NS    5000000u     /* how often connections are looked at that are to end */
#define LOOK_NS     10000000u    /* deadlines are met so exactly */

/* The gate's record of a connection. */
struct guest {
    struct guest *next, **link;
    struct reader *reader;
    struct gw_visitor *visitor;
    struct gw_grpc_conn *conn;
    int fd;
};

/* One thread, and the connections that it reads from. */
struct reader {
    struct gw_grpc_gate *gate;
    int epoll_fd, wake_fd;
    pthread_t thread;
    int started;
    struct guest *guests; /* the thread's own */
    uint64_t next;        /* when it has to look at them */
    uint8_t *room;
    pthread_mutex_t lock;
    struct guest *fresh; /* that another thread has let in; with the lock */
};

struct gw_grpc_gate {
    struct gw_grpc_gate_opts opts;
    struct gw_door door;
    struct reader reader[THREADS];
    uint32_t turn;    /* which reader has the next connection; the first one's thread has it */
    uint32_t closing; /* atomic */
    uint64_t cut_at;  /* when closing */
    int listen_fd;
    uint16_t port;
};

static void grpc_gate_wake(struct reader *r)
{
    uint64_t one = 1;
    if (r->wake_fd >= 0 && write(r->wake_fd, &one, sizeof(one)) < 0) return; /* it is awake */
}

/* ---- guests ---- */

static void watch_guest(void *guest, int out)
{
    struct guest *u = guest;
    struct epoll_event event = {.events = out ? EPOLLOUT : EPOLLIN, .data.ptr = u};
    epoll_ctl(u->reader->epoll_fd, EPOLL_CTL_MOD, u->fd, &event);
}

/* The reader's thread, or when it has ended. */
static void guest_leave(struct guest *u)
{
    struct gw_grpc_gate *g = u->reader->gate;
    *u->link = u->next;
    if (u->next) u->next->link = u->link;
    epoll_ctl(u->reader->epoll_fd, EPOLL_CTL_DEL, u->fd, NULL);
    gw_door_leave(&g->door, u->visitor);
    gw_grpc_conn_end(u->conn);
    close(u->fd);
    free(u);
}

static void guest_enter(struct reader *r, struct guest *u)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = u};
    u->next = r->guests;
    u->link = &r->guests;
    if (u->next) u->next->link = &u->next;
    r->guests = u;
    if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, u->fd, &event)) guest_leave(u);
}

static void enter_fresh(struct reader *r)
{
    pthread_mutex_lock(&r->lock);
    struct guest *fresh = r->fresh;
    r->fresh = NULL;
    pthread_mutex_unlock(&r->lock);
    for (struct guest *u = fresh, *next; u; u = next) {
        next = u->next;
        guest_enter(r, u);
    }
}

/* HTTP/2's way to refuse a connection: it says why. What does not go at once is left out. */
static void turn_away(const struct gw_grpc_gate *g, int fd)
{
    static const char why[] = "this client has as many connections open as one may (" EACH_OPTION ")";
    static const uint8_t settings[9] = {0, 0, 0, NGHTTP2_SETTINGS};
    uint8_t bytes[9 + 9 + 8 + sizeof(why) - 1] = {0}, *goaway = bytes + sizeof(settings);
    memcpy(bytes, settings, sizeof(settings));
    goaway[2] = 8 + sizeof(why) - 1;
    goaway[3] = NGHTTP2_GOAWAY;
    goaway[9 + 7] = NGHTTP2_ENHANCE_YOUR_CALM;
    memcpy(goaway + 9 + 8, why, sizeof(why) - 1);
    if (!g->opts.env->tls) send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
}

/* A socket of the network becomes a guest, or is closed. */
static void grpc_gate_let_in(struct gw_grpc_gate *g, int fd)
{
    int on = 1;
    struct guest *u = gw_door_has_room(&g->door) ? calloc(1, sizeof(*u)) : NULL;
    if (!u) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    gw_listen_watch(fd);
    u->fd = fd;
    u->reader = &g->reader[g->turn++ % THREADS];
    u->visitor = gw_door_enter(&g->door, fd, u);
    u->conn = u->visitor ? gw_grpc_conn_open(g->opts.env, fd, u->visitor->who, watch_guest, u) : NULL;
    if (!u->conn) {
        if (u->visitor)
            close(fd);
        else
            turn_away(g, fd);
        gw_door_leave(&g->door, u->visitor);
        free(u);
        return;
    }
    pthread_mutex_lock(&u->reader->lock);
    u->next = u->reader->fresh;
    u->reader->fresh = u;
    pthread_mutex_unlock(&u->reader->lock);
    if (u->reader != &g->reader[0]) grpc_gate_wake(u->reader);
}

static void grpc_gate_hear(struct gw_grpc_gate *g, int on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = g};
    epoll_ctl(g->reader[0].epoll_fd, EPOLL_CTL_MOD, g->listen_fd, &event);
}

static void accept_all(struct gw_grpc_gate *g)
{
    int fd;
    while ((fd = accept4(g->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        grpc_gate_let_in(g, fd);
    /* Without descriptors or memory: those who wait stay in the queue until gw_grpc_gate_tend. */
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) grpc_gate_hear(g, 0);
}

static bool grpc_gate_stays(void *ctx, const void *guest)
{
    const struct gw_grpc_gate *g = ctx;
    const struct guest *u = guest;
    return !u->conn || gw_grpc_conn_is_used(u->conn, g->opts.idle_ns);
}

void gw_grpc_gate_tend(struct gw_grpc_gate *g)
{
    gw_door_sweep(&g->door, grpc_gate_stays, g);
    grpc_gate_hear(g, 1);
}

/* ---- the threads ---- */

static void note_due(struct reader *r, uint64_t due)
{
    if (due < r->next) r->next = due;
}

static void serve_guest(struct reader *r, struct guest *u)
{
    uint64_t due;
    if (gw_grpc_conn_work(u->conn, r->room, ROOM, &due))
        guest_leave(u);
    else
        note_due(r, due);
}

static void look_at_all(struct reader *r, uint64_t now)
{
    uint64_t due;
    r->next = UINT64_MAX;
    for (struct guest *u = r->guests, *next; u; u = next) {
        next = u->next;
        if (gw_grpc_conn_look(u->conn, now, &due))
            guest_leave(u);
        else
            note_due(r, due < now + LOOK_NS ? now + LOOK_NS : due);
    }
}

/* The server ends: guests leave when they have been answered, or when the time is over. */
static void see_off(struct reader *r, uint64_t now)
{
    int cut = now >= r->gate->cut_at;
    for (struct guest *u = r->guests, *next; u; u = next) {
        next = u->next;
        if (cut || gw_grpc_conn_finish(u->conn)) guest_leave(u);
    }
    note_due(r, now + CLOSE_NS);
}

static int pause_ms(const struct reader *r)
{
    uint64_t now = gw_deadline(0);
    if (r->next == UINT64_MAX) return -1;
    return r->next <= now ? 0 : (int)((r->next - now) / 1000000u) + 1;
}

static void heed(struct reader *r, const struct epoll_event *event)
{
    uint64_t count;
    if (event->data.ptr == r) {
        if (read(r->wake_fd, &count, sizeof(count)) < 0) return;
    } else if (event->data.ptr == r->gate) {
        accept_all(r->gate);
    } else {
        serve_guest(r, event->data.ptr);
    }
}

static void *grpc_gate_read_all(void *arg)
{
    struct reader *r = arg;
    struct epoll_event event[EVENTS];
    for (;;) {
        int n = epoll_wait(r->epoll_fd, event, EVENTS, pause_ms(r));
        for (int i = 0; i < n; i++) heed(r, &event[i]);
        enter_fresh(r);
        uint64_t now = gw_deadline(0);
        if (now >= r->next) look_at_all(r, now);
        if (!gw_ld_acquire_u32(&r->gate->closing)) continue; /* what was written before it is seen: cut_at */
        see_off(r, now);
        if (!r->guests) return NULL;
    }
}

/* ---- beginning and end ---- */

static int open_reader(struct gw_grpc_gate *g, struct reader *r)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = r};
    *r = (struct reader){.gate = g, .next = UINT64_MAX};
    pthread_mutex_init(&r->lock, NULL);
    r->room = malloc(ROOM);
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!r->room) return gw_error_errno(-ENOMEM, "gRPC");
    if (r->wake_fd < 0 || r->epoll_fd < 0 || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &event))
        return gw_error(-errno, "gRPC: no event descriptors: %s", strerror(errno));
    return 0;
}

static void close_reader(struct reader *r)
{
    enter_fresh(r);
    while (r->guests) guest_leave(r->guests);
    if (r->wake_fd >= 0) close(r->wake_fd);
    if (r->epoll_fd >= 0) close(r->epoll_fd);
    free(r->room);
    pthread_mutex_destroy(&r->lock);
}

static int listen_on(struct gw_grpc_gate *g)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = g};
    g->listen_fd = gw_listen_tcp("gRPC", "--grpc", g->opts.host, g->opts.port, &g->port);
    if (g->listen_fd < 0) return g->listen_fd;
    return epoll_ctl(g->reader[0].epoll_fd, EPOLL_CTL_ADD, g->listen_fd, &event) ? -errno : 0;
}

static void grpc_gate_open_door(struct gw_grpc_gate *g)
{
    uint32_t most = gw_listen_places(1), each = g->opts.each;
    if (!each) each = most / 4 > EACH ? EACH : (most + 3) / 4;
    gw_door_open(&g->door, most, each < most - most / 4 ? each : most - most / 4, g->opts.patience_ns);
    g->door.option = EACH_OPTION;
}

int gw_grpc_gate_start(const struct gw_grpc_gate_opts *o, struct gw_grpc_gate **out)
{
    struct gw_grpc_gate *g = calloc(1, sizeof(*g));
    if (!g) return -ENOMEM;
    *g = (struct gw_grpc_gate){.opts = *o, .listen_fd = -1};
    grpc_gate_open_door(g);
    int err = gw_proxies_parse("--trusted-proxy", o->proxies, &g->door.proxies);
    for (int i = 0; i < THREADS; i++) {
        int failed = open_reader(g, &g->reader[i]);
        if (!err) err = failed;
    }
    if (!err) err = listen_on(g);
    if (err)
        gw_grpc_gate_free(g);
    else
        *out = g;
    return err;
}

int gw_grpc_gate_open(struct gw_grpc_gate *g)
{
    pthread_attr_t attr;
    int err = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (int i = 0; i < THREADS && !err; i++) {
        err = pthread_create(&g->reader[i].thread, &attr, grpc_gate_read_all, &g->reader[i]);
        g->reader[i].started = !err;
        if (!err) pthread_setname_np(g->reader[i].thread, "gw-grpc");
    }
    pthread_attr_destroy(&attr);
    return err ? gw_error_errno(-err, "gRPC: no thread") : 0;
}

uint16_t gw_grpc_gate_port(const struct gw_grpc_gate *g)
{
    return g->port;
}

void gw_grpc_gate_close(struct gw_grpc_gate *g, uint64_t patience_ns)
{
    epoll_ctl(g->reader[0].epoll_fd, EPOLL_CTL_DEL, g->listen_fd, NULL);
    g->cut_at = gw_deadline(patience_ns);
    gw_st_release_u32(&g->closing, 1); /* a thread that sees it sees cut_at */
    for (int i = 0; i < THREADS; i++) {
        grpc_gate_wake(&g->reader[i]);
        if (g->reader[i].started) pthread_join(g->reader[i].thread, NULL);
        g->reader[i].started = 0;
    }
}

void gw_grpc_gate_free(struct gw_grpc_gate *g)
{
    if (!g) return;
    for (int i = 0; i < THREADS; i++) close_reader(&g->reader[i]);
    if (g->listen_fd >= 0) close(g->listen_fd);
    gw_door_close(&g->door);
    free(g);
}
