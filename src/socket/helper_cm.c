/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's dealings with rdma_cm: all ids on one channel, every step an event. The peer's private data is
 * rsockets' (rsocket.h); the queue pairs are ours, so ids have none, and the states are set as rdma_cm says.
 */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/socket/proxy.h"
#include "src/socket/datagram.h"
#include "src/verbs/cm.h"

#define RESOLVE_MS 2000

static const struct gw_connect_opts defaults;

static int make_id(struct gw_sockets *set, struct sock *k)
{
    if (k->id) return 0;
    return rdma_create_id(set->channel, &k->id, k, RDMA_PS_TCP) ? -errno : 0;
}

int gw_sock_cm_reuse(struct gw_sockets *set, struct sock *k, int on)
{
    int err = make_id(set, k);

    if (err) return err;
    return rdma_set_option(k->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) ? -errno : 0;
}

static void keep_addr(struct gw_sock_addr_ *to, const struct sockaddr *from)
{
    to->len = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    memcpy(to->bytes, from, to->len);
}

/* An address of the socket's own family. */
static int given_addr(const struct sock *k, const struct gw_sock_addr_ *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (from->len > sizeof(from->bytes)) return -EINVAL;
    memcpy(to, from->bytes, from->len);
    return to->ss_family == k->info->opt[GW_SOCK_OPT_DOMAIN_] ? 0 : -EAFNOSUPPORT;
}

void gw_sock_cm_close(struct sock *k)
{
    if (!k->id) return;
    rdma_disconnect(k->id); /* fails on what is not connected, and that is well */
    rdma_destroy_id(k->id);
    k->id = NULL;
}

/* ---- what kernels ask --------------------------------------------------------------------------------- */

int gw_sock_cm_bind(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    struct sockaddr_storage sa;
    int err = k->bound ? -EINVAL : given_addr(k, addr, &sa);

    if (!err) err = make_id(set, k);
    if (err) return err;
    if (rdma_bind_addr(k->id, (struct sockaddr *)&sa)) return errno == ENODEV ? -EADDRNOTAVAIL : -errno;
    k->bound = true;
    keep_addr(&k->info->local, rdma_get_local_addr(k->id));
    return 0;
}

int gw_sock_cm_listen(struct gw_sockets *set, struct sock *k, int backlog)
{
    struct gw_sock_addr_ any = gw_sock_any(k->info->opt[GW_SOCK_OPT_DOMAIN_]);
    int err = 0;

    if (k->step == SOCK_LISTENING) {
        k->backlog = (uint32_t)backlog;
        return 0;
    }
    if (k->step != SOCK_OPENED) return -EINVAL;
    if (!k->bound) err = gw_sock_cm_bind(set, k, &any);
    if (!err && rdma_listen(k->id, backlog)) err = -errno;
    if (err) return err;
    k->backlog = (uint32_t)backlog;
    k->step = SOCK_LISTENING;
    gw_sock_publish(set, k, GW_SOCK_LISTENING_);
    return 0;
}

int gw_sock_cm_listen_too(struct sock *k, int backlog)
{
    k->backlog = (uint32_t)backlog;
    return k->id && rdma_listen(k->id, backlog) ? -errno : 0;
}

int gw_sock_cm_connect(struct gw_sockets *set, struct sock *k, const struct gw_sock_addr_ *addr)
{
    struct sockaddr_storage sa;
    int err = given_addr(k, addr, &sa);

    if (!err) err = make_id(set, k);
    if (!err && (k->bound ? rdma_resolve_addr(k->id, NULL, (struct sockaddr *)&sa, RESOLVE_MS)
                          : gw_cm_resolve(set->dev, k->id, (struct sockaddr *)&sa, RESOLVE_MS)))
        err = errno == ENODEV ? -ENETUNREACH : -errno;
    if (err) return err;
    k->step = SOCK_RESOLVING;
    gw_sock_publish(set, k, GW_SOCK_CONNECTING_);
    return 0;
}

/* ---- connecting --------------------------------------------------------------------------------------- */

void gw_sock_cm_fail(struct gw_sockets *set, struct sock *k, int err)
{
    gw_sock_cm_close(k);
    if (gw_try_fall_back(set, k)) return;
    k->step = SOCK_FAILED;
    k->info->error = err;
    gw_sock_publish(set, k, GW_SOCK_FAILED_);
}

/* Our side of an answer, or of a question. */
static void helper_cm_fill(const struct gw_sockets *set, const struct sock *k, struct rdma_conn_param *p,
                           uint8_t data[GW_RS_CONN_BYTES])
{
    struct gw_rs_conn mine;

    gw_sock_offer(set, k, &mine);
    gw_rs_conn_pack(&mine, data);
    *p = (struct rdma_conn_param){.private_data = data,
                                  .private_data_len = GW_RS_CONN_BYTES,
                                  .flow_control = 1,
                                  .retry_count = 7,
                                  .rnr_retry_count = 7,
                                  .qp_num = gw_qp_num(k->qp)};
}

static int ask_peer(struct gw_sockets *set, struct sock *k)
{
    uint8_t data[GW_RS_CONN_BYTES];
    struct rdma_conn_param p;

    helper_cm_fill(set, k, &p, data);
    if (rdma_connect(k->id, &p)) return -errno;
    k->step = SOCK_ASKED;
    return 0;
}

/* The peer's private data, and the queue pair towards it. Streams read nothing from afar. */
static int bring_up(struct sock *k, const struct rdma_conn_param *p)
{
    struct gw_cm_terms terms;
    int err = gw_rs_conn_unpack(p->private_data, p->private_data_len, &k->info->peer);

    if (!err) err = gw_cm_terms(k->qp, &defaults, &terms);
    if (err) return err;
    terms.respond = terms.begin = 0;
    k->used = true;
    return gw_cm_bring_up(k->qp, k->id, &defaults, &terms);
}

static void helper_cm_connected(struct gw_sockets *set, struct sock *k)
{
    keep_addr(&k->info->local, rdma_get_local_addr(k->id));
    keep_addr(&k->info->remote, rdma_get_peer_addr(k->id));
    gw_try_settle(k);
    k->step = SOCK_CONNECTED;
    gw_sock_publish(set, k, GW_SOCK_CONNECTED_);
}

static void helper_cm_answered(struct gw_sockets *set, struct sock *k, const struct rdma_conn_param *p)
{
    int err = bring_up(k, p);

    if (err) rdma_reject(k->id, NULL, 0);
    if (!err && rdma_establish(k->id)) err = gw_cm_gave_up(-errno);
    if (err)
        gw_sock_cm_fail(set, k, err);
    else
        helper_cm_connected(set, k);
}

/* ---- accepting ---------------------------------------------------------------------------------------- */

static int accept_peer(struct gw_sockets *set, struct sock *k, const struct rdma_conn_param *theirs)
{
    uint8_t data[GW_RS_CONN_BYTES];
    struct rdma_conn_param p;
    int err = gw_cm_same_device(set->dev, k->id);

    if (!err) err = bring_up(k, theirs);
    if (err) return err;
    helper_cm_fill(set, k, &p, data);
    return rdma_accept(k->id, &p) ? gw_cm_gave_up(-errno) : 0;
}

/* A peer asks. It is refused when there is no socket for it, or when it does not speak this. */
static void helper_cm_request(struct gw_sockets *set, struct sock *l, struct rdma_cm_id *id,
                              const struct rdma_conn_param *p)
{
    struct sock *k = l->waiting < l->backlog ? gw_sock_take_free(set) : NULL;

    if (!k) {
        rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
        return;
    }
    k->id = id;
    id->context = k;
    k->listener = l;
    gw_sock_inherit(k, l);
    k->step = SOCK_ACCEPTING;
    l->waiting++;
    if (!accept_peer(set, k, p)) return;
    rdma_reject(id, NULL, 0);
    l->waiting--;
    gw_sock_release(set, k);
}

/* The peer has confirmed: its socket waits for accept. */
static void helper_cm_ready(struct gw_sockets *set, struct sock *k)
{
    struct sock *l = k->listener;

    helper_cm_connected(set, k);
    k->step = SOCK_READY;
    *l->last = k;
    l->last = &k->next;
    l->ready_rdma++;
    GW_ASSERT(l->ready_rdma <= l->waiting);
    gw_sock_say_ready(set, l);
}

/* ---- events ------------------------------------------------------------------------------------------- */

/* The peer, or the way to it, is gone, or never was there. */
static void helper_cm_gone(struct gw_sockets *set, struct sock *k, const struct rdma_cm_event *ev)
{
    switch (k->step) {
    case SOCK_RESOLVING:
    case SOCK_ASKED: gw_sock_cm_fail(set, k, gw_cm_failure(ev, "peer")); break;
    case SOCK_ACCEPTING:
        GW_ASSERT(k->listener->waiting > k->listener->ready_rdma);
        k->listener->waiting--;
        gw_sock_release(set, k);
        break;
    case SOCK_READY:
    case SOCK_CONNECTED:
        rdma_disconnect(k->id);
        /* Arrived bytes stay; then the kernel sees that its receives are flushed. */
        gw_qp_abort(k->qp);
        break;
    default: break;
    }
}

/* The device is gone. Sockets that the host carries, too, go on without it. */
static void removed(struct gw_sockets *set, struct sock *k, const struct rdma_cm_event *ev)
{
    bool listened = k->step == SOCK_LISTENING;

    if (k->step == SOCK_RESOLVING || k->step == SOCK_ASKED) {
        gw_sock_cm_fail(set, k, -ENETDOWN);
        return;
    }
    if (!listened && k->step != SOCK_OPENED) {
        helper_cm_gone(set, k, ev);
        return;
    }
    gw_sock_cm_close(k);
    if (k->fd >= 0) return;
    gw_sock_close_waiting(set, k);
    k->step = SOCK_FAILED;
    k->info->error = -ENETDOWN;
    gw_sock_publish(set, k, listened ? GW_SOCK_DOWN_ : GW_SOCK_FAILED_);
}

/* k: NULL for what is told of the datagrams' device. */
static void helper_cm_step(struct gw_sockets *set, struct sock *k, const struct rdma_cm_event *ev)
{
    int err = 0;

    if (!k) {
        if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL) gw_datagram_removed(set);
        return;
    }
    switch (ev->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (k->step != SOCK_RESOLVING) return;
        err = gw_cm_same_device(set->dev, k->id);
        if (!err && rdma_resolve_route(k->id, RESOLVE_MS)) err = -errno;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (k->step == SOCK_RESOLVING) err = ask_peer(set, k);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        if (k->step == SOCK_ASKED) helper_cm_answered(set, k, &ev->param.conn);
        return;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (k->step == SOCK_ACCEPTING) helper_cm_ready(set, k);
        return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: removed(set, k, ev); return;
    default: helper_cm_gone(set, k, ev); return;
    }
    if (err) gw_sock_cm_fail(set, k, err == -EXDEV ? -ENETUNREACH : err);
}

void gw_sock_cm_events(struct gw_sockets *set)
{
    uint8_t data[256];
    struct rdma_cm_event *ev, copy;
    struct sock *k;

    while (!rdma_get_cm_event(set->channel, &ev)) {
        copy = *ev;
        if (copy.param.conn.private_data && copy.param.conn.private_data_len)
            copy.param.conn.private_data =
                memcpy(data, copy.param.conn.private_data, copy.param.conn.private_data_len);
        /* Acknowledged before anything is done: an id with an event that is not cannot be destroyed. */
        rdma_ack_cm_event(ev);
        k = copy.event == RDMA_CM_EVENT_CONNECT_REQUEST ? copy.listen_id->context : copy.id->context;
        if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            helper_cm_request(set, k, copy.id, &copy.param.conn);
        else
            helper_cm_step(set, k, &copy);
    }
}
