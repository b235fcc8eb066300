/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_cm's ids: their events with a deadline, and the queue pair's states as they tell them. The queue pairs
 * are ours (their memory comes from our arenas), so ids have none: rdma_cm carries the number, and we modify.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "src/verbs/cm.h"

struct rdma_event_channel *gw_cm_channel(void)
{
    struct rdma_event_channel *ch = rdma_create_event_channel();
    int flags;

    if (!ch) {
        if (errno == EACCES || errno == EPERM)
            gw_error_errno(-errno, "rdma_cm: give the user read and write for /dev/infiniband/rdma_cm");
        else
            gw_error_errno(-errno, "no rdma_cm on this machine (`modprobe rdma_ucm`; in a container pass "
                                   "/dev/infiniband/rdma_cm in)");
        return NULL;
    }
    flags = fcntl(ch->fd, F_GETFL);
    if (flags >= 0 && !fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK)) return ch;
    gw_error_errno(-errno, "rdma_cm's event channel");
    rdma_destroy_event_channel(ch);
    return NULL;
}

int gw_cm_event(struct rdma_event_channel *ch, int stop_fd, uint64_t deadline_ns, struct rdma_cm_event **ev)
{
    int fds[2] = {ch->fd, stop_fd};

    for (;;) {
        int64_t woken;

        if (!rdma_get_cm_event(ch, ev)) return 0;
        if (errno != EAGAIN && errno != EINTR) return gw_error_errno(-errno, "rdma_cm");
        woken = gw_wait_fds(fds, 2, deadline_ns);
        if (woken > 0 && woken & 2) return -ECANCELED;
        if (woken < 0 && woken != -EINTR) return (int)woken;
        if (!woken) return rdma_get_cm_event(ch, ev) ? -ETIMEDOUT : 0;
    }
}

const char *gw_cm_lacks(const struct gw_device *dev)
{
    struct sockaddr_storage own;

    if (dev->roce || gw_own_address(dev, AF_INET, &own) || gw_own_address(dev, AF_INET6, &own)) return "";
    return ": rdma_cm needs an IPoIB interface on this InfiniBand port, with an address (`modprobe "
           "ib_ipoib`, "
           "`ip addr add`)";
}

static bool cm_event_is_any(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) return !((const struct sockaddr_in *)sa)->sin_addr.s_addr;
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

int gw_cm_resolve(const struct gw_device *dev, struct rdma_cm_id *id, struct sockaddr *to, int ms)
{
    struct sockaddr_storage own;

    if (cm_event_is_any(to) || !gw_own_address(dev, to->sa_family, &own))
        return rdma_resolve_addr(id, NULL, to, ms);
    if (!rdma_resolve_addr(id, (struct sockaddr *)&own, to, ms)) return 0;
    if (errno != EADDRNOTAVAIL && errno != ENODEV) return -1;
    /* It is of another network namespace: then the kernel chooses, and gw_cm_same_device looks. */
    return rdma_resolve_addr(id, NULL, to, ms);
}

int gw_cm_same_device(const struct gw_device *dev, const struct rdma_cm_id *id)
{
    const char *name = id->verbs ? ibv_get_device_name(id->verbs->device) : "no device";

    if (!strcmp(name, dev->info.name) && id->port_num == dev->info.port) return 0;
    return gw_error(-EXDEV,
                    "the way to that address is through %s port %u, and the queue pair is on %s port %u%s",
                    name, id->port_num, dev->info.name, dev->info.port, gw_cm_lacks(dev));
}

void gw_cm_address(const struct sockaddr *sa, char *text, size_t size)
{
    const void *at = sa->sa_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr
                                               : (const void *)&((const struct sockaddr_in *)sa)->sin_addr;

    if ((sa->sa_family != AF_INET && sa->sa_family != AF_INET6) ||
        !inet_ntop(sa->sa_family, at, text, (socklen_t)size))
        snprintf(text, size, "an unknown address");
}

enum { REJECT_COMM_ID = 6, REJECT_SERVICE_ID = 8, REJECT_CONSUMER = 28 }; /* IBA 12.6.7.2 */

static int cm_event_refused(const struct rdma_cm_event *ev, const char *who)
{
    char why[GW_CM_REFUSE_BYTES];

    if (ev->status == REJECT_SERVICE_ID)
        return gw_error(-ECONNREFUSED, "%s: no program listens on that port", who);
    if (ev->status == REJECT_COMM_ID) /* it knows of no such connection any more */
        return gw_error(-ECONNRESET, "%s gave up while connecting", who);
    if (ev->status != REJECT_CONSUMER)
        return gw_error(-ECONNREFUSED, "%s refused the connection (reason %d of the connection manager)", who,
                        ev->status);
    gw_cm_unpack_refusal(ev->param.conn.private_data, ev->param.conn.private_data_len, why, sizeof(why));
    return gw_error(-ECONNREFUSED, "%s refused the connection%s%s", who, *why ? ": " : "", why);
}

int gw_cm_failure(const struct rdma_cm_event *ev, const char *who)
{
    switch (ev->event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
        return gw_error(-ENETUNREACH, "%s: no RDMA device has a way there (%s)", who, strerror(-ev->status));
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return gw_error(-EHOSTUNREACH, "%s: no route (%s)", who, strerror(-ev->status));
    case RDMA_CM_EVENT_UNREACHABLE:
        return gw_error(-EHOSTUNREACH,
                        "%s does not answer: is a program listening there, and on an RDMA device?", who);
    case RDMA_CM_EVENT_REJECTED: return cm_event_refused(ev, who);
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return gw_error(-ENODEV, "%s: the RDMA device has been removed", who);
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR: return gw_error(-ECONNRESET, "%s gave up while connecting", who);
    default: return gw_error(-EPROTO, "%s: unexpected %s", who, rdma_event_str(ev->event));
    }
}

static uint32_t cm_event_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int gw_cm_terms(const struct gw_qp *qp, const struct gw_connect_opts *o, struct gw_cm_terms *t)
{
    const struct gw_device *dev = qp->dev;
    uint32_t most = o->rd_atomic ? o->rd_atomic : 16, mtu = 256;

    if (gw_is_ud(qp)) return gw_error(-EINVAL, "queue pair %06x: it is for datagrams", gw_qp_num(qp));
    if (!gw_connect_sane(o))
        return gw_error(-EINVAL, "queue pair %06x: a connection option is out of range", gw_qp_num(qp));
    while (mtu * 2 <= cm_event_smaller(o->mtu ? o->mtu : 4096, dev->info.mtu)) mtu *= 2;
    t->mtu = mtu;
    t->respond = (uint8_t)cm_event_smaller(most, (uint32_t)dev->attr.max_qp_rd_atom);
    t->begin = (uint8_t)cm_event_smaller(most, (uint32_t)dev->attr.max_qp_init_rd_atom);
    return 0;
}

void gw_cm_agree(struct gw_cm_terms *t, const struct rdma_conn_param *theirs, uint32_t mtu)
{
    t->mtu = cm_event_smaller(t->mtu, mtu);
    t->respond = (uint8_t)cm_event_smaller(t->respond, theirs->responder_resources);
    t->begin = (uint8_t)cm_event_smaller(t->begin, theirs->initiator_depth);
}

int gw_cm_gave_up(int err)
{
    return err == -EINVAL ? -ECONNRESET : err;
}

static int cm_event_step(struct gw_qp *qp, struct rdma_cm_id *id, enum ibv_qp_state state,
                         const struct gw_connect_opts *o, const struct gw_cm_terms *t)
{
    const struct gw_settings *s = &qp->dev->settings;
    struct ibv_qp_attr a = {.qp_state = state};
    int mask = 0;

    if (rdma_init_qp_attr(id, &a, &mask)) return gw_cm_gave_up(-errno);
    if (qp->dev->attr.atomic_cap == IBV_ATOMIC_NONE) a.qp_access_flags &= ~(unsigned)IBV_ACCESS_REMOTE_ATOMIC;
    if (state == IBV_QPS_RTR) {
        if (o->traffic_class || s->tc)
            a.ah_attr.grh.traffic_class = o->traffic_class ? o->traffic_class : (uint8_t)s->tc;
        if (o->service_level || s->sl) a.ah_attr.sl = o->service_level ? o->service_level : (uint8_t)s->sl;
        a.path_mtu = gw_mtu_code(t->mtu);
        a.max_dest_rd_atomic = t->respond;
        a.min_rnr_timer = o->min_rnr_timer ? o->min_rnr_timer : 12;
    }
    if (state == IBV_QPS_RTS) {
        a.max_rd_atomic = t->begin;
        if (o->timeout || s->has_timeout) a.timeout = o->timeout ? o->timeout : (uint8_t)s->timeout;
    }
    return qp->ops->qp_modify(qp, &a, mask);
}

int gw_cm_bring_up(struct gw_qp *qp, struct rdma_cm_id *id, const struct gw_connect_opts *o,
                   const struct gw_cm_terms *t)
{
    static const struct {
        enum ibv_qp_state state;
        const char *name;
    } way[] = {{IBV_QPS_INIT, "INIT"}, {IBV_QPS_RTR, "RTR"}, {IBV_QPS_RTS, "RTS"}};

    for (size_t i = 0; i < 3; i++) {
        int err = cm_event_step(qp, id, way[i].state, o, t);

        if (err == -ECONNRESET) return gw_error(err, "the peer gave up while connecting");
        if (err)
            return gw_error_errno(err, "queue pair %06x: cannot go to %s; is it in use?", gw_qp_num(qp),
                                  way[i].name);
    }
    return gw_qp_set_state(qp, GW_QP_READY);
}
