/* SPDX-License-Identifier: Apache-2.0 */
/* The side that connects, and connections that stand. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/cm.h"

struct attempt {
    struct gw_qp *qp;
    struct gw_link *link;
    const struct gw_connect_opts *o;
    struct gw_cm_terms terms;
    struct sockaddr_storage to;
    char who[INET6_ADDRSTRLEN + 16];
    int stop_fd;
    uint64_t deadline_ns;
};

static int cm_connect_resolve(struct attempt *a, const char *host, uint16_t port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    char text[INET6_ADDRSTRLEN];
    int err = getaddrinfo(host, NULL, &hints, &list);

    if (err) return gw_error(-ENOENT, "%s: %s", host, gai_strerror(err));
    memcpy(&a->to, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    ((struct sockaddr_in *)&a->to)->sin_port = htons(port); /* at the same place in both families */
    gw_cm_address((struct sockaddr *)&a->to, text, sizeof(text));
    snprintf(a->who, sizeof(a->who), strchr(text, ':') ? "[%s]:%u" : "%s:%u", text, port);
    return 0;
}

/* Waits for the event that the last step leads to; it is to be acknowledged. */
static int expect(struct attempt *a, enum rdma_cm_event_type want, struct rdma_cm_event **ev)
{
    int err = gw_cm_event(a->link->ch, a->stop_fd, a->deadline_ns, ev);

    if (err == -ETIMEDOUT) return gw_error(err, "%s: no answer before the deadline", a->who);
    if (err || (*ev)->event == want) return err;
    err = gw_cm_failure(*ev, a->who);
    rdma_ack_cm_event(*ev);
    return err;
}

static int cm_connect_step(struct attempt *a, int failed, enum rdma_cm_event_type want)
{
    struct rdma_cm_event *ev;
    int err = failed ? gw_error_errno(-errno, "%s: no RDMA device has a way there%s", a->who,
                                      gw_cm_lacks(a->qp->dev))
                     : expect(a, want, &ev);

    if (!err) rdma_ack_cm_event(ev);
    return err;
}

/* rdma_cm wants to know in milliseconds how long it may look; it must not look longer than we wait. */
static int patience(const struct attempt *a)
{
    uint64_t now = gw_clock_ns(), left = a->deadline_ns > now ? (a->deadline_ns - now) / 1000000 : 0;

    return left < 1 ? 1 : left > 60000 ? 60000 : (int)left;
}

static int find_way(struct attempt *a)
{
    struct rdma_cm_id *id = a->link->id;
    int err = cm_connect_step(a, gw_cm_resolve(a->qp->dev, id, (struct sockaddr *)&a->to, patience(a)),
                              RDMA_CM_EVENT_ADDR_RESOLVED);

    if (!err) err = gw_cm_same_device(a->qp->dev, id);
    if (!err) err = cm_connect_step(a, rdma_resolve_route(id, patience(a)), RDMA_CM_EVENT_ROUTE_RESOLVED);
    return err;
}

static int cm_connect_ask(struct attempt *a, const struct gw_offer *mine)
{
    uint8_t data[GW_CM_OFFER_BYTES];
    struct rdma_conn_param p = {
        .private_data = data,
        .private_data_len = sizeof(data),
        .responder_resources = a->terms.respond,
        .initiator_depth = a->terms.begin,
        .flow_control = 1,
        .retry_count = a->o->retry_cnt ? a->o->retry_cnt : 7,
        .rnr_retry_count = a->o->rnr_retry ? a->o->rnr_retry : 7,
        .qp_num = gw_qp_num(a->qp),
    };

    gw_cm_pack(mine, a->terms.mtu, data);
    return rdma_connect(a->link->id, &p) ? gw_error_errno(-errno, "%s: cannot connect", a->who) : 0;
}

static int cm_connect_take_answer(struct attempt *a, struct gw_offer *theirs)
{
    struct rdma_cm_event *ev;
    struct gw_offer offer;
    uint32_t mtu = 0;
    int err = expect(a, RDMA_CM_EVENT_CONNECT_RESPONSE, &ev);

    if (err) return err;
    err = gw_cm_unpack(ev->param.conn.private_data, ev->param.conn.private_data_len, &offer, &mtu);
    if (!err) gw_cm_agree(&a->terms, &ev->param.conn, mtu);
    rdma_ack_cm_event(ev);
    if (!err) err = gw_cm_bring_up(a->qp, a->link->id, a->o, &a->terms);
    if (err) {
        rdma_reject(a->link->id, NULL, 0);
        return err;
    }
    if (rdma_establish(a->link->id))
        return gw_error_errno(gw_cm_gave_up(-errno), "%s: cannot confirm the connection", a->who);
    if (theirs) *theirs = offer;
    return 0;
}

int gw_cm_connect(struct gw_qp *qp, const char *host, uint16_t port, const struct gw_connect_opts *opts,
                  const struct gw_offer *mine, int stop_fd, uint64_t deadline_ns, struct gw_offer *theirs,
                  struct gw_link **out)
{
    static const struct gw_connect_opts defaults;
    static const struct gw_offer none;
    struct attempt a = {
        .qp = qp, .o = opts ? opts : &defaults, .stop_fd = stop_fd, .deadline_ns = deadline_ns};
    int err = mine && mine->data_len > GW_CM_DATA ? gw_error(-EINVAL, "too much data for a connection")
                                                  : gw_cm_terms(qp, a.o, &a.terms);

    *out = NULL;
    if (!err) err = cm_connect_resolve(&a, host, port);
    if (err) return err;
    a.link = calloc(1, sizeof(*a.link));
    if (!a.link) return gw_error_errno(-ENOMEM, "connection");
    a.link->ch = gw_cm_channel();
    if (!a.link->ch)
        err = -ENODEV;
    else if (rdma_create_id(a.link->ch, &a.link->id, NULL, RDMA_PS_TCP))
        err = gw_error_errno(-errno, "rdma_cm");
    if (!err) err = find_way(&a);
    if (!err) err = cm_connect_ask(&a, mine ? mine : &none);
    if (!err) err = cm_connect_take_answer(&a, theirs);
    if (err)
        gw_cm_close(a.link);
    else
        *out = a.link;
    return err;
}

int gw_cm_ended(struct gw_link *link, int stop_fd, uint64_t deadline_ns)
{
    struct rdma_cm_event *ev;

    while (!link->ended) {
        int err = gw_cm_event(link->ch, stop_fd, deadline_ns, &ev);

        if (err == -ETIMEDOUT) return 0;
        if (err) return err;
        link->ended = ev->event == RDMA_CM_EVENT_DISCONNECTED || ev->event == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
                      ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
        rdma_ack_cm_event(ev);
    }
    return 1;
}

void gw_cm_close(struct gw_link *link)
{
    if (!link) return;
    if (link->id) {
        rdma_disconnect(link->id); /* fails on what never was connected, and that is well */
        rdma_destroy_id(link->id);
    }
    if (link->ch) rdma_destroy_event_channel(link->ch);
    free(link);
}
