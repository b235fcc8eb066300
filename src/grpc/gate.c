/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/gate.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/grpc/tls.h"
#include "src/serve/door.h"
#include "src/serve/listen.h"

#define EACH_FDS 4 /* of one connection: gRPC's, ours, and two that join them under TLS */
#define EVENTS   16
#define STACK    (256u << 10)

/* `watch` is a second descriptor of the same socket. It tells us that gRPC, or the client, has ended the
 * connection: gRPC shuts a socket down before it closes it. */
struct connection {
    struct connection *next, **link;
    struct gw_visitor *visitor;
    struct gw_grpc_client *client;
    int fd, watch;
    uint32_t calls;
    uint64_t last; /* when a call ended; 0: none has yet */
};

struct gw_grpc_gate {
    struct gw_grpc_gate_opts opts;
    struct gw_door door;
    pthread_mutex_t lock; /* taken after the door's */
    struct connection *first;
    struct connection **by_fd; /* the newest connection of each number */
    size_t fds;
    struct gw_grpc_client *clients;
    uint32_t connections, calls;
    int listen_fd, stop_fd, epoll_fd;
    uint16_t port;
    int started;
    pthread_t thread;
};

/* ---- clients; with the lock held ---- */

static struct gw_grpc_client *client_of(struct gw_grpc_gate *g, const char *who)
{
    struct gw_grpc_client *c = g->clients;
    while (c && strcmp(c->who, who)) c = c->next;
    if (!c) {
        c = calloc(1, sizeof(*c));
        if (!c) return NULL;
        memcpy(c->who, who, sizeof(c->who));
        c->next = g->clients;
        g->clients = c;
    }
    c->users++;
    return c;
}

static void leave_client(struct gw_grpc_gate *g, struct gw_grpc_client *c)
{
    if (--c->users) return;
    struct gw_grpc_client **at = &g->clients;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    free(c);
}

/* ---- connections ---- */

static int remember(struct gw_grpc_gate *g, struct connection *n)
{
    size_t want = (size_t)n->fd + 1;
    if (want > g->fds) {
        struct connection **more = realloc(g->by_fd, 2 * want * sizeof(*more));
        if (!more) return -ENOMEM;
        memset(more + g->fds, 0, (2 * want - g->fds) * sizeof(*more));
        g->by_fd = more;
        g->fds = 2 * want;
    }
    n->client = client_of(g, n->visitor->who);
    if (!n->client) return -ENOMEM;
    g->by_fd[n->fd] = n;
    n->next = g->first;
    n->link = &g->first;
    if (n->next) n->next->link = &n->next;
    g->first = n;
    g->connections++;
    return 0;
}

static void forget(struct gw_grpc_gate *g, struct connection *n)
{
    pthread_mutex_lock(&g->lock);
    if (n->client) {
        if (g->by_fd[n->fd] == n) g->by_fd[n->fd] = NULL;
        *n->link = n->next;
        if (n->next) n->next->link = n->link;
        g->connections--;
        leave_client(g, n->client);
    }
    pthread_mutex_unlock(&g->lock);
    gw_door_leave(&g->door, n->visitor);
    if (n->watch >= 0) {
        /* Closing would not do: gRPC's descriptor keeps the socket, and epoll would go on telling of it. */
        epoll_ctl(g->epoll_fd, EPOLL_CTL_DEL, n->watch, NULL);
        close(n->watch);
    }
    free(n);
}

static int watch(struct gw_grpc_gate *g, struct connection *n)
{
    struct epoll_event event = {.events = EPOLLET,
                                .data.ptr = n}; /* nothing but its end, which is always told */
    pthread_mutex_lock(&g->lock);
    int error = remember(g, n);
    pthread_mutex_unlock(&g->lock);
    if (error) return error;
    return epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, n->watch, &event) ? -errno : 0;
}

/* A socket of the network becomes a connection, or is closed. */
static void let_in(struct gw_grpc_gate *g, int fd)
{
    int on = 1;
    struct connection *n = gw_door_has_room(&g->door) ? calloc(1, sizeof(*n)) : NULL;
    if (!n) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    gw_listen_watch(fd);
    n->watch = dup(fd);
    n->visitor = n->watch >= 0 ? gw_door_enter(&g->door, n->watch, n) : NULL;
    n->fd = n->visitor && g->opts.tls ? gw_grpc_tls_wrap(g->opts.tls, fd) : fd; /* which then has fd */
    if (!n->visitor || n->fd < 0 || watch(g, n)) {
        if (n->fd >= 0) close(n->fd);
        forget(g, n);
        return;
    }
    g->opts.admit(g->opts.ctx, n->fd);
}

static void hear(struct gw_grpc_gate *g, int on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &g->listen_fd};
    epoll_ctl(g->epoll_fd, EPOLL_CTL_MOD, g->listen_fd, &event);
}

static void accept_all(struct gw_grpc_gate *g)
{
    int fd;
    while ((fd = accept4(g->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) let_in(g, fd);
    /* Without descriptors or memory: those who wait stay in the queue until gw_grpc_gate_tend. */
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) hear(g, 0);
}

static int stays(void *ctx, const void *connection)
{
    struct gw_grpc_gate *g = ctx;
    const struct connection *n = connection;
    pthread_mutex_lock(&g->lock);
    int yes = n->calls || (n->last && gw_deadline(0) - n->last < g->opts.idle_ns);
    pthread_mutex_unlock(&g->lock);
    return yes;
}

void gw_grpc_gate_tend(struct gw_grpc_gate *g)
{
    gw_door_sweep(&g->door, stays, g);
    hear(g, 1);
}

static void *keep_gate(void *arg)
{
    struct gw_grpc_gate *g = arg;
    struct epoll_event event[EVENTS];
    for (;;) {
        int n = epoll_wait(g->epoll_fd, event, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (event[i].data.ptr == &g->stop_fd) return NULL;
            if (event[i].data.ptr == &g->listen_fd)
                accept_all(g);
            else if (event[i].events & EPOLLHUP)
                forget(g, event[i].data.ptr);
        }
    }
}

/* ---- calls ---- */

static struct connection *named(struct gw_grpc_gate *g, const char *peer)
{
    char *end = NULL;
    if (!peer || strncmp(peer, "fd:", 3)) return NULL;
    unsigned long fd = strtoul(peer + 3, &end, 10);
    return end > peer + 3 && fd < g->fds ? g->by_fd[fd] : NULL;
}

struct gw_grpc_client *gw_grpc_gate_begin(struct gw_grpc_gate *g, const char *peer, const char **why)
{
    pthread_mutex_lock(&g->lock);
    struct connection *n = named(g, peer);
    struct gw_grpc_client *c = n ? n->client : NULL;
    *why = !c                               ? "the connection has ended"
           : g->calls >= g->opts.calls      ? "the server has as many calls under way as it may: try again"
           : c->calls >= g->opts.calls_each ? "this client has as many calls under way as one may: try again"
                                            : NULL;
    if (*why) {
        c = NULL;
    } else {
        g->calls++;
        c->users++;
        c->calls++;
        n->calls++;
    }
    pthread_mutex_unlock(&g->lock);
    return c;
}

void gw_grpc_gate_end(struct gw_grpc_gate *g, struct gw_grpc_client *c, const char *peer)
{
    pthread_mutex_lock(&g->lock);
    struct connection *n = named(g, peer);
    g->calls--;
    c->calls--;
    /* The connection may have gone since, and another may have its number. */
    if (n && n->client == c && n->calls) {
        n->calls--;
        n->last = gw_deadline(0);
    }
    leave_client(g, c);
    pthread_mutex_unlock(&g->lock);
}

/* ---- beginning and end ---- */

static int listen_on(struct gw_grpc_gate *g)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &g->stop_fd};
    g->listen_fd = gw_listen_tcp("gRPC", "--grpc", g->opts.host, g->opts.port, &g->port);
    if (g->listen_fd < 0) return g->listen_fd;
    g->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (g->stop_fd < 0 || g->epoll_fd < 0 || epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, g->stop_fd, &event))
        return gw_error(-errno, "gRPC: no event descriptors: %s", strerror(errno));
    event.data.ptr = &g->listen_fd;
    return epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, g->listen_fd, &event) ? -errno : 0;
}

int gw_grpc_gate_start(const struct gw_grpc_gate_opts *o, struct gw_grpc_gate **out)
{
    struct gw_grpc_gate *g = calloc(1, sizeof(*g));
    if (!g) return -ENOMEM;
    uint32_t most = gw_listen_places(EACH_FDS);
    *g = (struct gw_grpc_gate){.opts = *o, .listen_fd = -1, .stop_fd = -1, .epoll_fd = -1};
    pthread_mutex_init(&g->lock, NULL);
    gw_door_open(&g->door, most, most / 4 > 64 ? 64 : (most + 3) / 4, o->patience_ns);
    int error = listen_on(g);
    if (error)
        gw_grpc_gate_free(g);
    else
        *out = g;
    return error;
}

int gw_grpc_gate_open(struct gw_grpc_gate *g)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int error = pthread_create(&g->thread, &attr, keep_gate, g);
    pthread_attr_destroy(&attr);
    if (error) return gw_error_errno(-error, "gRPC: no thread");
    pthread_setname_np(g->thread, "gw-grpc-gate");
    g->started = 1;
    return 0;
}

uint16_t gw_grpc_gate_port(const struct gw_grpc_gate *g)
{
    return g->port;
}

void gw_grpc_gate_close(struct gw_grpc_gate *g)
{
    uint64_t one = 1;
    if (g->started && write(g->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one)) {
        pthread_join(g->thread, NULL);
        g->started = 0;
    }
    if (g->listen_fd >= 0) close(g->listen_fd);
    g->listen_fd = -1;
}

void gw_grpc_gate_free(struct gw_grpc_gate *g)
{
    if (!g) return;
    gw_grpc_gate_close(g);
    while (g->first) {
        shutdown(g->first->watch, SHUT_RDWR); /* what TLS still relays ends with it */
        forget(g, g->first);
    }
    if (g->stop_fd >= 0) close(g->stop_fd);
    if (g->epoll_fd >= 0) close(g->epoll_fd);
    gw_door_close(&g->door);
    pthread_mutex_destroy(&g->lock);
    free(g->by_fd);
    free(g);
}
