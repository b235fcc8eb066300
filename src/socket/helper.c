/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread: answers what kernels ask, and keeps the sockets' states. It never waits for a peer. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "src/socket/proxy.h"
#include "src/socket/datagram.h"

#define ANSWER_LATER INT_MIN /* it will be said when it is known */
#define LINGER_NS    50000u  /* what falling asleep and being woken costs both sides, there and back */

/* ---- news for kernels --------------------------------------------------------------------------------- */

void gw_sock_publish(struct gw_sockets *set, struct sock *k, uint32_t state)
{
    gw_st_release_u32(&k->info->state, state); /* release: the rest of *info first */
    set->news_pending = true;
}

/* Once for all that a look has brought: who sleeps is not woken by the first half of what it waits for. */
static void sock_helper_tell(struct gw_sockets *set)
{
    if (!set->news_pending) return;
    set->news_pending = false;
    gw_helper_tell(&set->helper);
}

void gw_cpu_sock_wake_(struct gw_sockets *set)
{
    gw_helper_wake(&set->helper);
}

uint32_t gw_cpu_sock_news_(struct gw_sockets *set)
{
    return gw_helper_news(&set->helper);
}

void gw_cpu_sock_sleep_(struct gw_sockets *set, uint32_t news, uint64_t deadline_ns)
{
    gw_helper_wait(&set->helper, news, deadline_ns);
}

/* ---- sockets given out and back ----------------------------------------------------------------------- */

struct sock *gw_sock_find_free(struct gw_sockets *set)
{
    for (uint32_t i = 0; i < set->attr.count; i++) {
        struct sock *k = &set->sock[(set->hint + i) % set->attr.count];

        if (k->step == SOCK_FREE) return k;
    }
    return NULL;
}

struct sock *gw_sock_take_free(struct gw_sockets *set)
{
    struct sock *k = gw_sock_find_free(set);

    if (!k) return NULL;
    set->hint = (uint32_t)(k - set->sock + 1) % set->attr.count;
    GW_ASSERT(!k->requests && !k->closer && gw_ld_relaxed_u32(&set->open) < set->attr.count);
    gw_add_relaxed_u32(&set->open, 1);
    k->bound = false;
    k->backlog = k->waiting = 0;
    k->listener = k->next = k->first = NULL;
    k->last = &k->first;
    k->info->error = 0;
    k->info->kind = GW_SOCK_STREAM_;
    k->fd = -1;
    k->requests = k->ready_rdma = k->ready_host = 0;
    k->watched = false;
    k->closer = NULL;
    k->info->ready = 0;
    memset(&k->info->local, 0, sizeof(k->info->local));
    memset(&k->info->remote, 0, sizeof(k->info->remote));
    return k;
}

void gw_sock_release(struct gw_sockets *set, struct sock *k)
{
    GW_ASSERT(k->step != SOCK_BROKEN && !k->requests && gw_ld_relaxed_u32(&set->open) > 0);
    k->listener = NULL; /* it must not be closed a second time with the one that it came to */
    gw_sock_cm_close(k);
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
    gw_datagram_close(set, k);
    gw_sock_publish(set, k, GW_SOCK_FREE_);
    /* A queue pair that cannot be made new is lost to the set, until it is destroyed. */
    k->step = gw_sock_renew(set, k) ? SOCK_BROKEN : SOCK_FREE;
    gw_add_relaxed_u32(&set->open, (uint32_t)-1);
}

struct gw_sock_addr_ gw_sock_any(uint32_t domain)
{
    struct gw_sock_addr_ any = {.len = domain == AF_INET6  ? sizeof(struct sockaddr_in6)
                                       : domain == AF_INET ? sizeof(struct sockaddr_in)
                                                           : sizeof(sa_family_t)};
    struct sockaddr sa = {.sa_family = (sa_family_t)domain};

    memcpy(any.bytes, &sa, sizeof(sa)); /* the rest is zeros */
    return any;
}

void gw_sock_inherit(struct sock *k, const struct sock *listener)
{
    memcpy(k->info->opt, listener->info->opt, sizeof(k->info->opt));
    k->info->opt[GW_SOCK_OPT_NONBLOCK_] = 0; /* as accept(2) has it on Linux */
}

uint32_t gw_sockets_open(struct gw_sockets *set)
{
    return gw_ld_relaxed_u32(&set->open);
}

void gw_sock_say_ready(struct gw_sockets *set, struct sock *l)
{
    uint32_t ready = l->ready_rdma + l->ready_host;

    if (ready == l->info->ready) return;
    gw_st_relaxed_u32(&l->info->ready, ready);
    gw_sock_publish(set, l, GW_SOCK_LISTENING_);
}

/* ---- what kernels ask --------------------------------------------------------------------------------- */

int gw_sock_take_ready(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer)
{
    struct sock *k = l->first;

    if (l->step != SOCK_LISTENING) return -EINVAL;
    if (!k) return -EAGAIN;
    l->first = k->next;
    if (!l->first) l->last = &l->first;
    GW_ASSERT(k->step == SOCK_READY && k->listener == l);
    GW_ASSERT(l->ready_rdma && l->ready_rdma <= l->waiting);
    l->waiting--;
    l->ready_rdma--;
    gw_sock_say_ready(set, l);
    k->listener = k->next = NULL;
    k->step = SOCK_CONNECTED;
    *peer = k->info->remote;
    return (int)(k - set->sock);
}

void gw_sock_close_waiting(struct gw_sockets *set, struct sock *l)
{
    for (uint32_t i = 0; l->step == SOCK_LISTENING && i < set->attr.count; i++)
        if (set->sock[i].listener == l) gw_sock_release(set, &set->sock[i]);
}

/* As a kernel asks: the domain, and the type above it. */
static int open_sock(struct gw_sockets *set, int domain, int type)
{
    struct sock *k = gw_sock_take_free(set);
    int err = 0;

    if (!k) return -EMFILE;
    gw_sock_options_begin(set, k, domain, type);
    k->info->local = gw_sock_any((uint32_t)domain);
    if (k->info->opt[GW_SOCK_OPT_RDMA_] != GW_RDMA_ONLY)
        err = gw_socket_proxy_open(set, k, domain, type);
    else if (domain == AF_UNIX)
        err = -EAFNOSUPPORT;
    else if (type != SOCK_STREAM)
        err = gw_datagram_open(set, k, domain);
    if (err) {
        gw_sock_release(set, k);
        return err;
    }
    k->step = k->datagram ? SOCK_CONNECTED : SOCK_OPENED; /* as the host's datagrams */
    if (type == SOCK_DGRAM && !k->datagram) {
        k->info->kind = GW_SOCK_HOST_DATAGRAM_;
        gw_host_datagram_start(set, k);
    }
    gw_sock_publish(set, k, GW_SOCK_OPENED_);
    return (int)(k - set->sock);
}

static int close_sock(struct gw_sockets *set, struct sock *k, struct gw_sock_ask_ *ask)
{
    gw_sock_close_waiting(set, k);
    gw_sock_cm_close(k); /* no other peer comes by RDMA while the other half closes */
    if (k->fd >= 0 && gw_socket_proxy_close(set, k)) {
        k->closer = ask;
        return ANSWER_LATER;
    }
    gw_sock_release(set, k);
    return 0;
}

static void sock_helper_say(struct gw_sock_ask_ *ask, int result)
{
    ask->result = result;
    gw_st_release_u32(&ask->state, GW_SOCK_ANSWERED_); /* release: the answer first */
}

void gw_sock_closed(struct gw_sockets *set, struct sock *k)
{
    struct gw_sock_ask_ *closer = k->closer;

    k->closer = NULL;
    gw_sock_release(set, k);
    if (closer) sock_helper_say(closer, 0);
    set->news_pending = true;
}

/* The ways to carry sockets, and to set them up: by enum gw_sock_rdma. */
static const struct {
    int (*bind)(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
    int (*listen)(struct gw_sockets *set, struct sock *k, int backlog);
    int (*accept)(struct gw_sockets *set, struct sock *l, struct gw_sock_addr_ *peer);
    int (*connect)(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr);
} carriers[] = {
    [GW_RDMA_OFF] = {gw_socket_proxy_bind, gw_socket_proxy_listen, gw_socket_proxy_accept,
                     gw_socket_proxy_connect},
    [GW_RDMA_ONLY] = {gw_sock_cm_bind, gw_sock_cm_listen, gw_sock_take_ready, gw_sock_cm_connect},
    [GW_RDMA_TRY] = {gw_try_bind, gw_try_listen, gw_try_accept, gw_try_connect},
};

static int sock_helper_answer(struct gw_sockets *set, struct gw_sock_ask_ *ask)
{
    struct sock *k = (uint32_t)ask->sock < set->attr.count ? &set->sock[ask->sock] : NULL;
    uint32_t by;
    bool open;

    if (ask->op == GW_SOCK_OPEN_) return open_sock(set, ask->number & 0xff, ask->number >> 8);
    if (!k || k->step == SOCK_FREE || k->step == SOCK_BROKEN || k->step == SOCK_ACCEPTING ||
        k->step == SOCK_READY || k->step == SOCK_CLOSING)
        return -EBADF;
    if (k->datagram && ask->op != GW_SOCK_OPTION_ && ask->op != GW_SOCK_CLOSE_)
        return gw_datagram_answer(set, k, ask);
    by = k->info->opt[GW_SOCK_OPT_RDMA_];
    open = k->step == SOCK_OPENED || k->info->kind == GW_SOCK_HOST_DATAGRAM_;
    switch (ask->op) {
    case GW_SOCK_BIND_: return open ? carriers[by].bind(set, k, &ask->addr) : -EINVAL;
    case GW_SOCK_LISTEN_:
        return open || k->step == SOCK_LISTENING ? carriers[by].listen(set, k, ask->number) : -EINVAL;
    case GW_SOCK_ACCEPT_:
        return k->step == SOCK_LISTENING ? carriers[by].accept(set, k, &ask->addr) : -EINVAL;
    case GW_SOCK_CONNECT_: return open ? carriers[by].connect(set, k, &ask->addr) : -EALREADY;
    case GW_SOCK_OPTION_: return gw_sock_option(set, k, ask->number, &ask->addr);
    case GW_SOCK_CLOSE_: return close_sock(set, k, ask);
    default: return -EINVAL;
    }
}

/* How many were looked at. */
static uint32_t answer_all(struct gw_sockets *set)
{
    struct gw_sock_ask_ *ask = set->shared.host;
    uint32_t n = 0;
    int result;

    if (!gw_ld_relaxed_u32(set->asked)) return 0;
    gw_st_relaxed_u32(set->asked, 0);
    gw_fence_sc(); /* cleared before the slots are looked at: who asks after that sets it again */
    for (uint32_t i = 0; i < GW_SOCK_ASKS_; i++, ask++) {
        if (gw_ld_acquire_u32(&ask->state) != GW_SOCK_ASKED_)
            continue; /* acquire: the question is read after it */
        gw_st_relaxed_u32(&ask->state, GW_SOCK_LATER_);
        result = sock_helper_answer(set, ask);
        if (result != ANSWER_LATER) sock_helper_say(ask, result);
        n++;
    }
    if (n) set->news_pending = true;
    return n;
}

/* ---- the thread --------------------------------------------------------------------------------------- */

static bool sock_helper_look(void *arg)
{
    struct gw_sockets *set = arg;
    bool any = answer_all(set) != 0;

    sock_helper_tell(set);
    if (set->datagrams) any = gw_datagram_udp(set) || any;
    if (set->proxy)
        any = gw_socket_proxy_look(set) || any;
    else
        gw_sock_cm_events(set);
    sock_helper_tell(set);
    return any;
}

/* Through the ring, which has more to wait for; without one, or when it has failed, the helper waits by
 * itself. */
static bool wait_by_ring(void *arg, uint64_t ns)
{
    struct gw_sockets *set = arg;

    if (gw_socket_proxy_error(set)) return false;
    gw_socket_proxy_wait(set, ns);
    return true;
}

static void sock_helper_enter(void *arg)
{
    gw_socket_proxy_enter(arg);
}

static void sock_helper_leave(void *arg)
{
    gw_socket_proxy_leave(arg);
}

static int open_channel(struct gw_sockets *set)
{
    int flags;

    set->channel = rdma_create_event_channel();
    if (!set->channel) return gw_error_errno(-ENODEV, "no rdma_cm on this machine (`modprobe rdma_ucm`)");
    flags = fcntl(set->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(set->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return gw_error_errno(-errno, "rdma_cm's event channel");
    set->helper.fd[1] = set->channel->fd;
    return 0;
}

int gw_sock_helper_start(struct gw_sockets *set)
{
    int err = gw_helper_init(&set->helper, set->exec, sock_helper_look, set);

    if (err) return gw_error_errno(err, "sockets");
    if (set->dev) err = open_channel(set);
    if (err) return err;
    if (set->datagrams) err = gw_datagram_watch(set);
    if (err) return err;
    if (set->datagrams) set->helper.fd[2] = set->datagrams->epoll;
    set->helper.busy = set->attr.busy;
    if (set->proxy) {
        set->helper.linger_ns = set->helper.polled ? 0 : LINGER_NS;
        set->helper.wait = wait_by_ring;
        set->helper.enter = sock_helper_enter;
        set->helper.leave = sock_helper_leave;
    }
    return gw_helper_start(&set->helper, "gw-sockets");
}

void gw_sock_helper_stop(struct gw_sockets *set)
{
    gw_helper_stop(&set->helper);
    gw_datagram_unwatch(set);
    for (uint32_t i = 0; set->sock && i < set->attr.count; i++) gw_sock_cm_close(&set->sock[i]);
    if (set->channel) rdma_destroy_event_channel(set->channel);
}
