/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: each block has its own clients and its own connections to all memcacheds, and goes round: what
 * memcached answers, what clients send, the questions, the histograms while memcached answers, and what time
 * has brought. Included by kernels.c for the CPU and by kernels.cu for the GPU.
 */
#include "apps/faceverify/kernels_answers.h"
#include "apps/faceverify/kernels_requests.h"

#define FACE_TICK_NS  100000000u /* the host's stop word, clients that stall, counts */
#define FACE_LOOK_NS  1000000u   /* answers that are late */
#define FACE_SLICE_NS 20000000u  /* longest sleep of a CPU thread */
#define FACE_DRAIN_NS 200000000u

/* A set's listener, at `addr`. Its number; or an error. */
GW_DEV int one_listen(const struct face_args *a, struct gw_net *net, const struct sockaddr_storage *addr)
{
    uint64_t until = gw_clock_ns() + GW_SOCK_HELPER_NS;
    int s = gw_sock_open_thread(net, addr->ss_family, SOCK_STREAM, 0, until), err = s, one = 1,
        rdma = (int)a->rdma;

    if (err >= 0 && rdma)
        err = gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma));
    if (err >= 0) err = gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (err >= 0 && a->nets > 1 && !rdma)
        err = gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (err >= 0) err = gw_sock_setsockopt_thread(net, s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (err >= 0) err = gw_sock_bind_thread(net, s, (const struct sockaddr *)addr, a->addr_len, until);
    if (err >= 0) err = gw_sock_listen_thread(net, s, 1024, until);
    return err < 0 ? err : s;
}

/* One block: makes the listeners of all sets that have clients, at one port. */
GW_KERNEL(face_listen_kernel, struct face_args, a)
{
    struct gw_net *net = a->clients ? a->clients : a->net[0];
    uint32_t i, doors = a->clients ? 1 : a->nets;
    int err = a->listener[0] = one_listen(a, net, &a->addr);

    if (err >= 0) err = gw_sock_name_thread(net, err, (struct sockaddr *)a->name, a->name_len);
    for (i = 1; i < doors && err >= 0; i++) err = a->listener[i] = one_listen(a, a->net[i], a->name);
    *a->err = err < 0 ? err : 0;
}

/* ---- clients that come --------------------------------------------------------------------------------- */

/* Is it this block's turn to accept? Blocks with no more than their share do. Each set has one at least. */
GW_DEV bool one_may_accept(const struct face_view *v)
{
    uint32_t open = gw_ld_relaxed_u32_gpu(v->open);

    return v->b->conns < (open + v->sharers) / v->sharers;
}

/* A client too many hears so. */
GW_DEV void one_refuse(struct face_view *v, int fd)
{
    struct face_reply r;

    memset(&r, 0, sizeof(r));
    r.magic = FACE_REPLY_MAGIC;
    r.version = FACE_WIRE_VERSION;
    r.verdict = FACE_BUSY;
    v->b->counts.verdicts[FACE_BUSY]++;
    gw_sock_send_thread(v->clients, fd, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL, 0);
    gw_sock_close_thread(v->clients, fd, gw_clock_ns() + FACE_GOODBYE_NS);
}

GW_DEV void one_accept(struct face_view *v)
{
    uint32_t i = 0;
    int fd;

    while (one_may_accept(v)) {
        fd = gw_sock_accept_thread(v->clients, v->listener, NULL, NULL, 0);
        if (fd < 0) return;
        while (i < v->a->conns && v->conn[i].state != FACE_CONN_FREE) i++;
        if (i == v->a->conns || gw_add_relaxed_u32_gpu(v->open, 1) >= v->a->conns_max) {
            if (i < v->a->conns) gw_add_relaxed_u32_gpu(v->open, 0u - 1);
            one_refuse(v, fd);
            return;
        }
        v->conn[i].fd = fd;
        v->conn[i].state = FACE_CONN_OPEN;
        v->conn[i].waits = 0;
        v->conn[i].since_ns = v->now;
        v->conn_fds[i].fd = fd;
        one_conn_next(v, i);
        v->b->conns++;
        v->b->counts.clients++;
    }
}

/* ---- what time has brought ----------------------------------------------------------------------------- */

/* Clients that say nothing, or nothing more. */
GW_DEV void one_look_at_clients(struct face_view *v)
{
    const struct face_conn *c;
    uint64_t limit;
    uint32_t i;

    for (i = 0; i < v->a->conns; i++) {
        c = &v->conn[i];
        if (c->state == FACE_CONN_FREE || (c->state != FACE_CONN_DRAIN && (c->waits || c->have == c->want)))
            continue;
        limit = c->state == FACE_CONN_DRAIN ? FACE_DRAIN_NS : c->have ? v->a->stall_ns : v->a->idle_ns;
        if (v->now - c->since_ns > limit) one_conn_lose(v, i);
    }
}

/* Answers that are late, and connections that are to be made. */
GW_DEV void one_look_at_links(struct face_view *v)
{
    uint32_t l, s;

    v->b->look_ns = v->now;
    v->b->unsettled = 0;
    for (s = 0; s < FACE_SLOTS; s++)
        if (v->b->used & 1u << s && v->now >= v->slot[s].until_ns) one_link_fail(v, v->slot[s].server);
    for (l = 0; l < v->a->ring.servers; l++) {
        if (v->link[l].state == MC_CONNECTING &&
            mc_link_connected(v->net, &v->link[l], &v->a->host[l],
                              v->link_fds[l].fd < 0 ? 0 : v->link_fds[l].revents, v->now))
            one_link_fail(v, l);
        if (v->link[l].state == MC_DOWN && v->now >= v->link[l].retry_ns)
            mc_link_open(v->net, &v->link[l], &v->a->host[l], v->now);
        v->link_fds[l].fd = v->link[l].fd;
        v->link_fds[l].events = v->link[l].state == MC_CONNECTING ? POLLOUT : POLLIN;
        v->link_fds[l].revents = 0;
        if (v->link[l].state != MC_UP) v->b->unsettled = 1;
    }
}

/* Copies what the block has counted to where the host looks. */
GW_DEV void one_tell(const struct face_view *v)
{
    const uint64_t *from = (const uint64_t *)&v->b->counts;
    uint64_t *to = (uint64_t *)&v->a->counts[gw_block_idx()];
    uint32_t i;

    for (i = 0; i < sizeof(v->b->counts) / sizeof(*from); i++) gw_st_relaxed_u64(&to[i], from[i]);
}

/* false: the host wants it to end. */
GW_DEV bool one_look_round(struct face_view *v)
{
    bool on = true;

    if (v->fds[0].revents) one_accept(v);
    if (v->b->unsettled || v->now - v->b->look_ns >= FACE_LOOK_NS) one_look_at_links(v);
    if (v->b->full) one_retry(v);
    if (v->now - v->b->tick_ns >= FACE_TICK_NS) {
        v->b->tick_ns = v->now;
        on = !gw_ld_relaxed_u32(v->a->stop);
        one_look_at_clients(v);
        one_tell(v);
    }
    v->fds[0].fd = one_may_accept(v) ? v->listener : -1;
    return on;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Until when a CPU thread may sleep. */
GW_DEV uint64_t one_patience(const struct face_view *v)
{
    uint64_t until = v->now + FACE_SLICE_NS;
    uint32_t i;

    for (i = 0; i < FACE_SLOTS; i++)
        if (v->b->used & 1u << i && v->slot[i].until_ns < until) until = v->slot[i].until_ns;
    for (i = 0; i < v->a->ring.servers; i++)
        if (v->link[i].state == MC_DOWN && v->link[i].retry_ns < until) until = v->link[i].retry_ns;
    return until;
}

/* Does a look at entry i of fds make sense in this round? Each look of a GPU's thread crosses PCIe. So it
 * looks rarely at what seldom has news: the listener, and memcacheds that owe nothing. */
GW_DEV bool face_worth_a_look(const struct face_view *v, uint32_t i)
{
    if (v->fds[i].fd < 0 || !v->fds[i].events) return false;
    if (v->round % 32 == 0 || i > v->a->ring.servers) return true;
    return i && (v->link[i - 1].owed || v->link[i - 1].state != MC_UP);
}

/* Finds out who has something to say. On a GPU each thread looks at its own sockets. CPU threads sleep until
 * there is something. */
GW_DEV void face_wait(struct face_view *v)
{
    uint32_t all = 1 + v->a->ring.servers + v->a->conns, i;

    gw_syncthreads();
    if (!GW_ON_GPU && gw_thread_idx() == 0) gw_sock_poll_thread(v->net, v->fds, all, one_patience(v));
    for (i = gw_thread_idx(); GW_ON_GPU && i < all; i += gw_block_dim()) {
        v->fds[i].revents = 0;
        if (!face_worth_a_look(v, i)) continue;
        gw_sock_poll_thread(i && i <= v->a->ring.servers ? v->net : v->clients, &v->fds[i], 1, 0);
    }
    gw_syncthreads();
    v->now = gw_clock_ns();
    v->round++;
}

GW_DEV void one_flush(struct face_view *v)
{
    uint32_t l;

    for (l = 0; l < v->a->ring.servers; l++)
        if (mc_link_flush(v->net, &v->link[l])) one_link_fail(v, l);
}

GW_DEV void one_prepare(struct face_view *v)
{
    uint32_t i;

    v->fds[0].events = POLLIN;
    v->fds[0].fd = v->listener;
    v->b->unsettled = 1;
    for (i = 0; i < v->a->ring.servers; i++) v->link[i].fd = v->link_fds[i].fd = -1;
    for (i = 0; i < v->a->conns; i++) v->conn_fds[i].fd = -1;
}

GW_DEV void one_end(struct face_view *v)
{
    uint32_t i;

    for (i = 0; i < FACE_SLOTS; i++)
        if (v->b->used & 1u << i) one_slot_reply(v, i, 0, FACE_UNAVAILABLE);
    for (i = 0; i < v->a->conns; i++) one_conn_close(v, i, FACE_GOODBYE_NS / 10);
    for (i = 0; i < v->a->ring.servers; i++)
        if (v->link[i].fd >= 0) gw_sock_close_thread(v->net, v->link[i].fd, 0);
    one_tell(v);
}

/* All blocks: the server, until the host says stop. */
GW_KERNEL(face_serve_kernel, struct face_args, a)
{
    GW_SHARED(struct face_desk, desk);
    struct face_view v;

    face_view_make(&v, a);
    face_desk_prepare(desk);
    if (gw_thread_idx() == 0) one_prepare(&v);
    while (gw_group_first(GW_BLOCK, gw_thread_idx() == 0 ? one_look_round(&v) : 0)) {
        if (gw_thread_idx() == 0) one_flush(&v); /* those that found a slot only now */
        face_histograms(&v, desk);
        face_wait(&v);
        face_answers(&v, desk);
        face_requests(&v);
        if (gw_thread_idx() == 0) one_flush(&v);
        face_histograms(&v, desk);
    }
    if (gw_thread_idx() == 0) one_end(&v);
}
