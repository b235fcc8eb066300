/* SPDX-License-Identifier: Apache-2.0 */
/* The server's kernels. kernels.c includes this for CPU threads and kernels.cu for GPUs, each after its
 * mm_tile. */
#include "connection.h"

/* How often an idle block looks whether to stop; how long it leaves a new connection to blocks that have
 * fewer; how often a connection asks for a buffer, and whether its job is computed; how often limits are
 * checked. */
#define MM_SLICE_NS  200000000u
#define MM_LEAVE_NS  2000000u
#define MM_RETRY_NS  1000000u
#define MM_ASK_NS    (GW_ON_GPU ? 20000u : 200000u)
#define MM_SURVEY_NS 100000000u
#define MM_REST_NS   100000u
/* How often it looks at the host's word, which is across the bus for a GPU. */
#define MM_STOP_NS (GW_ON_GPU ? 1000000u : 1000u)

/* ---- listening ---------------------------------------------------------------------------------------- */

GW_DEV int mm_listen_on(const struct mm_server_args *a, struct gw_net *net, struct sockaddr_storage *addr)
{
    uint64_t deadline = gw_clock_ns() + GW_SOCK_HELPER_NS;
    int one = 1, rdma = (int)a->rdma, err = 0,
        s = gw_sock_open(net, addr->ss_family, SOCK_STREAM, 0, deadline);
    socklen_t len = sizeof(*addr);

    if (s < 0) return s;
    if (rdma != GW_RDMA_OFF) err = gw_sock_setsockopt(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma));
    if (!err) err = gw_sock_setsockopt(net, s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (!err && a->nets > 1) err = gw_sock_setsockopt(net, s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    /* Connections have it from their listener: the end of an answer does not wait for more. */
    if (!err) err = gw_sock_setsockopt(net, s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!err) err = gw_sock_bind(net, s, (const struct sockaddr *)addr, a->addr_len, deadline);
    if (!err) err = gw_sock_listen(net, s, 1024, deadline);
    if (!err) err = gw_sock_name(net, s, (struct sockaddr *)addr, &len);
    return err ? err : s;
}

/* One block: each set listens. The first one may choose the port; the others share it. */
GW_KERNEL(mm_listen, struct mm_server_args, a)
{
    GW_SHARED(struct sockaddr_storage, addr);
    int s = 0;

    if (gw_thread_idx() == 0) *addr = a->addr;
    for (uint32_t i = 0; i < a->nets && s >= 0; i++) {
        gw_syncthreads();
        s = mm_listen_on(a, a->net[i], addr);
        if (gw_thread_idx() == 0) a->listener[i] = s;
    }
    if (gw_thread_idx()) return;
    /* IPv4 and IPv6 have the port at the same place. */
    *a->port = gw_be16(((const struct sockaddr_in *)addr)->sin_port);
    *a->result = s < 0 ? s : 0;
}

/* ---- accepting ---------------------------------------------------------------------------------------- */

/* How many blocks serve this block's set. */
GW_DEV uint32_t mm_blocks_of(const struct mm_server_args *a, uint32_t which)
{
    return (a->io_blocks - which + a->nets - 1) / a->nets;
}

/* Has this block no more connections than the others, and room for another? */
GW_DEV bool mm_may_accept(const struct mm_block *b)
{
    uint32_t active = gw_thread_idx() == 0 ? gw_ld_relaxed_u32_gpu(&b->a->active[b->which]) : 0;

    active = (uint32_t)gw_group_first(GW_BLOCK, active);
    return b->count <= active / mm_blocks_of(b->a, b->which);
}

/* No: there is none, or another block was faster. */
GW_DEV bool mm_accept(struct mm_block *b)
{
    int s = gw_sock_accept(b->net, b->a->listener[b->which], NULL, NULL, 0);
    struct mm_conn *c = &b->conns[b->count];

    if (s < 0) return false;
    mm_count(&b->a->counts->accepted);
    if (gw_thread_idx() == 0) {
        gw_add_relaxed_u32_gpu(&b->a->active[b->which], 1);
        memset(c, 0, sizeof(*c));
        c->s = s;
        c->job = MM_NONE;
        c->since = gw_clock_ns() - b->busy;
    }
    b->count++;
    gw_syncthreads();
    return true;
}

/* ---- serving ------------------------------------------------------------------------------------------ */

/* What a connection waits for; *pause becomes how long the block may wait at most. */
GW_DEV short mm_events(const struct mm_conn *c, uint64_t *pause)
{
    uint64_t most = c->state == MM_COMPUTE ? MM_ASK_NS : c->state == MM_ROOM ? MM_RETRY_NS : MM_SLICE_NS;

    if (most < *pause) *pause = most;
    if (c->state == MM_ANSWER) return POLLOUT;
    return c->state == MM_COMPUTE || c->state == MM_ROOM ? 0 : POLLIN;
}

/* A GPU's block without connections rests between its looks for a new one. Each look goes across the bus,
 * which others need. */
GW_DEV bool mm_rests(const struct mm_block *b)
{
    bool rests = GW_ON_GPU && !b->count;
    uint64_t until = gw_clock_ns() + MM_REST_NS;

    while (rests && gw_thread_idx() == 0 && gw_clock_ns() < until) gw_pause(16);
    gw_syncthreads();
    return rests;
}

/* Waits until a connection can go on, or there is a new one. Is there one? */
GW_DEV bool mm_watch(struct mm_block *b)
{
    uint32_t room = b->count < b->a->per_block, last = b->count;
    uint64_t pause = mm_rests(b) ? 0 : MM_SLICE_NS, part = pause;
    bool fewest = mm_may_accept(b);
    int got;
    short revents;

    for (uint32_t i = gw_thread_idx(); i < b->count; i += gw_block_dim()) {
        b->fds[i].fd = b->conns[i].s;
        b->fds[i].events = mm_events(&b->conns[i], &part);
    }
    for (uint32_t i = 0; i < b->count; i++) (void)mm_events(&b->conns[i], &pause);
    if (gw_thread_idx() == 0) {
        b->fds[last].fd = b->a->listener[b->which];
        b->fds[last].events = POLLIN;
        b->fds[last].revents = 0;
    }
    got = 0;
    if (!room || !fewest)
        got = gw_sock_poll(b->net, b->fds, b->count, gw_clock_ns() + (room ? MM_LEAVE_NS : pause));
    if (room && !got) got = gw_sock_poll(b->net, b->fds, b->count + 1, gw_clock_ns() + pause);
    gw_syncthreads(); /* all see what poll has found */
    revents = b->fds[last].revents;
    return room && revents;
}

/* Goes round the connections once. Those with news take their steps; when `all`, so do the others. */
GW_DEV void mm_round(struct mm_block *b, int all)
{
    for (uint32_t i = 0; i < b->count;) {
        struct mm_conn *c = &b->conns[i];
        short revents = b->fds[i].revents;
        int ours = c->state == MM_COMPUTE || c->state == MM_ROOM;

        if ((!revents && !ours && !all) || mm_attend(b, c)) {
            i++;
            continue;
        }
        /* The last one takes its place, with its news. */
        b->count--;
        if (gw_thread_idx() == 0) {
            b->conns[i] = b->conns[b->count];
            b->fds[i] = b->fds[b->count];
        }
        gw_syncthreads();
    }
}

GW_DEV void mm_serve_connections(struct mm_block *b)
{
    uint64_t surveyed = gw_clock_ns(), asked = 0, now;
    bool fresh, all;

    for (;;) {
        now = gw_group_first(GW_BLOCK, gw_clock_ns());
        if (now - asked >= MM_STOP_NS && mm_stopped(b->a)) break;
        if (now - asked >= MM_STOP_NS) asked = now;
        all = now - surveyed > MM_SURVEY_NS;
        if (all) surveyed = now;
        fresh = mm_watch(b);
        mm_round(b, all);
        /* All that wait and are ours: the next round may take long. */
        while (fresh && b->count < b->a->per_block && mm_accept(b)) fresh = mm_may_accept(b);
    }
    while (b->count) {
        struct mm_conn c = b->conns[--b->count];

        mm_end(b, &c);
    }
}

GW_KERNEL(mm_serve, struct mm_server_args, a)
{
    struct mm_block b;
    uint32_t at = gw_block_idx();

    if (at >= a->io_blocks) {
        mm_compute(a);
        return;
    }
    b.a = a;
    b.which = at % a->nets;
    b.net = a->net[b.which];
    b.conns = a->conns + (uint64_t)at * a->per_block;
    b.fds = a->fds + (uint64_t)at * (a->per_block + 1);
    b.count = 0;
    b.busy = 0;
    mm_serve_connections(&b);
}
