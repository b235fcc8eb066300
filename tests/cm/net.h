/* SPDX-License-Identifier: Apache-2.0 */
/* Two connection managers with two NICs each, in one thread, on virtual time, joined by a network that may
 * lose messages. */
#ifndef TESTS_CM_NET_H
#define TESTS_CM_NET_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/cm/core.h"
#include "tests/rnd.h"

enum { NET_ENDS = 2, NET_SECOND = 8 /* NIC i + 8 is end i's other one */, NET_QUEUE = 256, NET_PORT = 7000 };
#define NET_DELAY UINT64_C(100000)

struct end {
    struct net *net;
    unsigned index;
    struct cm cm;
    struct cm_file file;
    uint32_t claims;
    uint64_t sent;
    struct rnd secrets;
    bool no_random;
    unsigned warnings;
    char warning[320]; /* the last one */
};

struct flying {
    unsigned to;
    uint64_t at;
    uint8_t to_gid[16], mad[ROCE_MAD_LEN];
    struct cm_origin from;
};

struct net {
    struct rnd rnd;
    uint64_t now;
    uint32_t loss;      /* per 10,000 */
    bool cut, one_host; /* one_host: the kernel says which slot a message comes from */
    struct end ends[NET_ENDS];
    struct flying queue[NET_QUEUE];
    uint32_t head, tail;
};

static void net_gid(unsigned i, uint8_t gid[16])
{
    memset(gid, 0, 16);
    gid[10] = gid[11] = 0xff;
    gid[12] = 192;
    gid[14] = 2;
    gid[15] = (uint8_t)(1 + i);
}

static void net_send(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                     const uint8_t mad[ROCE_MAD_LEN])
{
    struct end *e = ctx;
    struct net *n = e->net;
    struct flying *f = &n->queue[n->tail % NET_QUEUE];
    unsigned to = (dgid[15] - 1u) % NET_SECOND;

    e->sent++;
    if (n->cut || rnd_below(&n->rnd, 10000) < n->loss || to >= NET_ENDS) return;
    assert_true(n->tail - n->head < NET_QUEUE);
    f->to = to;
    f->at = n->now + NET_DELAY;
    memcpy(f->to_gid, dgid, 16);
    memcpy(f->from.gid, nic->gid, 16);
    f->from.slot = n->one_host ? nic->slot : SN_NO_SLOT;
    memcpy(f->mad, mad, ROCE_MAD_LEN);
    n->tail++;
}

static int net_claim(void *ctx, const struct cm_nic *nic, uint16_t ps, uint16_t port)
{
    struct end *e = ctx;

    (void)ps;
    if (port == 99 || (port == 98 && nic->index == 1)) return -EADDRINUSE; /* another process has it */
    return (int)e->claims++;
}

static void net_release(void *ctx, int claim)
{
    (void)claim;
    ((struct end *)ctx)->claims--;
}

static uint64_t net_now(void *ctx)
{
    return ((struct end *)ctx)->net->now;
}

static void net_wake(void *ctx)
{
    (void)ctx;
}

/* Neighbours of the second NICs are reached from there. */
static bool net_source(void *ctx, const uint8_t dgid[16], uint8_t gid[16])
{
    if (dgid[15] <= NET_SECOND) return false;
    net_gid(((struct end *)ctx)->index + NET_SECOND, gid);
    return true;
}

/* As the rest of it, by its seed. */
static int net_random(void *ctx, void *to, size_t len)
{
    struct end *e = ctx;

    if (e->no_random) return -EIO;
    rnd_bytes(&e->secrets, to, len);
    return 0;
}

static void net_warn(void *ctx, const char *line)
{
    struct end *e = ctx;

    e->warnings++;
    snprintf(e->warning, sizeof(e->warning), "%s", line);
}

static void net_nics(struct end *e)
{
    for (unsigned k = 0; k < 2; k++) {
        struct cm_nic *nic = &e->cm.nics[k];

        net_gid(e->index + k * NET_SECOND, nic->gid);
        nic->slot = (uint8_t)(40 + e->index + 10 * k);
        nic->mtu = 5;
        nic->guid = 0x100 + e->index + 0x10 * k;
        nic->index = k;
    }
    e->cm.nic_count = 2;
}

static void net_up(struct net *n, uint64_t seed, uint32_t loss)
{
    memset(n, 0, sizeof(*n));
    n->rnd.state = seed * 2 + 1;
    n->now = 1000;
    n->loss = loss;
    for (unsigned i = 0; i < NET_ENDS; i++) {
        struct end *e = &n->ends[i];
        const struct cm_env env = {e,        net_send,   net_claim,  net_release, net_now,
                                   net_wake, net_source, net_random, net_warn};

        e->net = n;
        e->index = i;
        e->secrets.state = seed * 4 + i;
        cm_init(&e->cm, &env);
        pthread_mutex_lock(&e->cm.lock); /* until net_down: the test is the one thread */
        net_nics(e);
        cm_file_init(&e->file, -1, -1);
    }
}

static void net_down(struct net *n)
{
    for (unsigned i = 0; i < NET_ENDS; i++) {
        n->cut = true;
        cm_file_end(&n->ends[i].cm, &n->ends[i].file);
        cm_end(&n->ends[i].cm);
        assert_int_equal(n->ends[i].file.event_count, 0);
        assert_int_equal(n->ends[i].claims, 0);
    }
}

/* Delivers, and lets time pass where nothing is on its way; for that time at most. */
static void net_run(struct net *n, uint64_t ns)
{
    uint64_t until = n->now + ns;

    while (n->now < until) {
        uint64_t next = until;

        for (unsigned i = 0; i < NET_ENDS; i++) {
            uint64_t due = cm_tick(&n->ends[i].cm);
            if (due < next) next = due;
        }
        if (n->head != n->tail && n->queue[n->head % NET_QUEUE].at < next)
            next = n->queue[n->head % NET_QUEUE].at;
        if (next > n->now) n->now = next;
        while (n->head != n->tail && n->queue[n->head % NET_QUEUE].at <= n->now) {
            struct flying f = n->queue[n->head++ % NET_QUEUE];
            cm_input(&n->ends[f.to].cm, f.to_gid, &f.from, f.mad);
        }
    }
}

/* Runs until end i has an event, and takes it. */
static struct rdma_ucm_event_resp net_event(struct net *n, unsigned i, uint32_t type)
{
    struct rdma_ucm_event_resp r;

    memset(&r, 0, sizeof(r));
    for (int tries = 0; tries < 200000 && !n->ends[i].file.event_count; tries++) net_run(n, 1000000);
    assert_true(cm_event_take(&n->ends[i].file, &r));
    if (r.event != type) fail_msg("end %u: event %u, not %u", i, r.event, type);
    return r;
}

static inline void net_quiet(struct net *n, unsigned i)
{
    assert_int_equal(n->ends[i].file.event_count, 0);
}

static struct cm_addr net_addr(unsigned i, uint16_t port)
{
    struct cm_addr a = {.family = 2, .port = port};

    net_gid(i, a.gid);
    return a;
}

static struct cm_id *net_id(struct net *n, unsigned i, uint16_t ps, uint64_t uid)
{
    const struct rdma_ucm_create_id cmd = {.ps = ps, .uid = uid};
    uint32_t handle = 0;

    assert_int_equal(cm_create(&n->ends[i].cm, &n->ends[i].file, &cmd, &handle), 0);
    return cm_id_find(&n->ends[i].cm, &n->ends[i].file, handle);
}

static struct cm_id *net_listener(struct net *n, unsigned i, uint16_t ps)
{
    struct cm_id *id = net_id(n, i, ps, 500);
    struct cm_addr a = net_addr(i, NET_PORT);

    assert_int_equal(cm_bind(id, &a), 0);
    assert_int_equal(cm_listen(id, 4), 0);
    return id;
}

static struct cm_id *net_resolved(struct net *n, unsigned from, unsigned to, uint16_t ps, uint16_t port)
{
    struct cm_id *id = net_id(n, from, ps, 600);
    struct cm_addr none = {0}, a = net_addr(to, port);

    assert_int_equal(cm_resolve_addr(id, &none, &a), 0);
    net_event(n, from, CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(cm_resolve_route(id), 0);
    net_event(n, from, CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static struct rdma_ucm_conn_param net_param(uint32_t qpn, const char *text)
{
    struct rdma_ucm_conn_param p = {.qp_num = qpn, .valid = 1, .retry_count = 7, .rnr_retry_count = 6};

    p.responder_resources = 3;
    p.initiator_depth = 5;
    p.private_data_len = (uint8_t)strlen(text);
    memcpy(p.private_data, text, p.private_data_len);
    return p;
}

static int net_connect(struct cm_id *id, uint32_t qpn, const char *text)
{
    struct rdma_ucm_connect cmd = {.conn_param = net_param(qpn, text), .ece = {0x15b3, 7}};

    return cm_connect(id, &cmd);
}

static int net_accept(struct cm_id *id, uint64_t uid, uint32_t qpn, const char *text)
{
    struct rdma_ucm_accept cmd = {.uid = uid, .conn_param = net_param(qpn, text)};

    return cm_accept(id, &cmd);
}

static int net_ready(struct cm_id *id)
{
    struct rdma_ucm_accept cmd = {.uid = 0};

    return cm_accept(id, &cmd);
}

#endif
