/* SPDX-License-Identifier: Apache-2.0 */
/* The side that listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/cm.h"

struct gw_listener {
    struct gw_device *dev;
    struct rdma_event_channel *ch;
    struct rdma_cm_id *id;
};

struct gw_request {
    struct gw_link *link;
    struct gw_offer offer;
    struct rdma_conn_param theirs; /* without its private data */
    uint32_t mtu;
    char peer[INET6_ADDRSTRLEN];
};

/* The device's own. A link-local one would need to be told which link: any address then; gw_cm_next looks at
 * the device. */
static int cm_listen_own(const struct gw_device *dev, struct sockaddr_storage *to)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    const int first = dev->roce && memcmp(dev->info.gid, v4, 12) ? AF_INET6 : AF_INET,
              second = first == AF_INET ? AF_INET6 : AF_INET;

    memset(to, 0, sizeof(*to));
    to->ss_family = AF_INET6;
    if (dev->roce && dev->info.gid[0] == 0xfe) return 0;
    if (gw_own_address(dev, first, to) || gw_own_address(dev, second, to)) return 0;
    return gw_error(-EADDRNOTAVAIL, "%s: it has no address to listen at%s", dev->info.name, gw_cm_lacks(dev));
}

static int cm_listen_resolve(const struct gw_device *dev, const char *address, struct sockaddr_storage *to)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE}, *list;
    int err;

    if (!address) return cm_listen_own(dev, to);
    memset(to, 0, sizeof(*to));
    err = getaddrinfo(address, NULL, &hints, &list);
    if (err) return gw_error(-ENOENT, "%s: %s", address, gai_strerror(err));
    memcpy(to, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return 0;
}

static int bind_and_listen(struct gw_listener *l, const char *address, uint16_t port)
{
    struct sockaddr_storage sa;
    char text[INET6_ADDRSTRLEN];
    int err = cm_listen_resolve(l->dev, address, &sa);

    if (err) return err;
    gw_cm_address((struct sockaddr *)&sa, text, sizeof(text));
    ((struct sockaddr_in *)&sa)->sin_port = htons(port); /* at the same place in both families */
    if (rdma_create_id(l->ch, &l->id, NULL, RDMA_PS_TCP)) return gw_error_errno(-errno, "rdma_cm");
    if (rdma_bind_addr(l->id, (struct sockaddr *)&sa)) {
        err = -errno;
        if (err == -ENODEV || err == -EADDRNOTAVAIL)
            return gw_error(-EADDRNOTAVAIL, "cannot listen at %s: it is no RDMA device's address", text);
        return gw_error_errno(err, "cannot listen at %s, port %u", text, port);
    }
    if (l->id->verbs) err = gw_cm_same_device(l->dev, l->id);
    if (err) return err;
    return rdma_listen(l->id, 128) ? gw_error_errno(-errno, "cannot listen at %s, port %u", text, port) : 0;
}

int gw_cm_listen(struct gw_device *dev, const char *address, uint16_t port, struct gw_listener **out)
{
    struct gw_listener *l = calloc(1, sizeof(*l));
    int err = -ENODEV;

    *out = NULL;
    if (!l) return gw_error_errno(-ENOMEM, "listener");
    l->dev = dev;
    l->ch = gw_cm_channel();
    if (l->ch) err = bind_and_listen(l, address, port);
    if (err)
        gw_cm_unlisten(l);
    else
        *out = l;
    return err;
}

uint16_t gw_cm_port(const struct gw_listener *l)
{
    return ntohs(rdma_get_src_port(l->id));
}

/* Requests that came in that time are ids of their own. */
static void turn_away_all(struct gw_listener *l)
{
    struct rdma_cm_event *ev;

    while (!gw_cm_event(l->ch, -1, 0, &ev)) {
        struct rdma_cm_id *id = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? ev->id : NULL;

        rdma_ack_cm_event(ev);
        if (!id) continue;
        rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
    }
}

void gw_cm_unlisten(struct gw_listener *l)
{
    if (!l) return;
    if (l->ch && l->id) turn_away_all(l);
    if (l->id) rdma_destroy_id(l->id);
    if (l->ch) rdma_destroy_event_channel(l->ch);
    free(l);
}

static void free_request(struct gw_request *r)
{
    if (r->link) gw_cm_close(r->link);
    free(r);
}

void gw_cm_refuse(struct gw_request *r, const char *why)
{
    uint8_t data[GW_CM_REFUSE_BYTES];

    gw_cm_pack_refusal(why, data);
    rdma_reject(r->link->id, data, sizeof(data));
    r->link->ended = true;
    free_request(r);
}

/* An id of its own, on a channel of its own: its events concern no other id. */
static int adopt(struct gw_request *r, struct rdma_cm_id *id)
{
    r->link = calloc(1, sizeof(*r->link));
    if (!r->link) {
        rdma_destroy_id(id);
        return gw_error_errno(-ENOMEM, "connection request");
    }
    r->link->id = id;
    r->link->ch = gw_cm_channel();
    if (!r->link->ch) return -EMFILE;
    return rdma_migrate_id(id, r->link->ch) ? gw_error_errno(-errno, "rdma_cm") : 0;
}

static int cm_listen_request_of(struct gw_listener *l, struct rdma_cm_event *ev, struct gw_request **out)
{
    struct gw_request *r = calloc(1, sizeof(*r));
    struct rdma_cm_id *id = ev->id;
    int bad, err;

    if (!r) {
        rdma_ack_cm_event(ev);
        rdma_destroy_id(id);
        return gw_error_errno(-ENOMEM, "connection request");
    }
    r->theirs = ev->param.conn;
    bad = gw_cm_unpack(ev->param.conn.private_data, ev->param.conn.private_data_len, &r->offer, &r->mtu);
    r->theirs.private_data = NULL;
    rdma_ack_cm_event(ev); /* its data is gone from here on, and the id may be moved */
    err = adopt(r, id);
    if (!err && !bad) bad = gw_cm_same_device(l->dev, id);
    if (!err && bad) {
        gw_cm_refuse(r, gw_last_error());
        return bad;
    }
    if (err) {
        free_request(r);
        return err;
    }
    gw_cm_address(rdma_get_peer_addr(id), r->peer, sizeof(r->peer));
    *out = r;
    return 0;
}

int gw_cm_next(struct gw_listener *l, int stop_fd, uint64_t deadline_ns, struct gw_request **out)
{
    struct rdma_cm_event *ev;
    int err;

    *out = NULL;
    while (!(err = gw_cm_event(l->ch, stop_fd, deadline_ns, &ev))) {
        if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) return cm_listen_request_of(l, ev, out);
        if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            rdma_ack_cm_event(ev);
            return gw_error(-ENODEV, "%s has been removed", l->dev->info.name);
        }
        rdma_ack_cm_event(ev); /* of a request that was given up before it was taken */
    }
    return err == -ETIMEDOUT ? gw_error(err, "no peer asked for a connection before the deadline") : err;
}

const struct gw_offer *gw_cm_offer(const struct gw_request *r)
{
    return &r->offer;
}

const char *gw_cm_peer(const struct gw_request *r)
{
    return r->peer;
}

static int confirmed(struct gw_request *r, int stop_fd, uint64_t deadline_ns)
{
    struct rdma_cm_event *ev;
    int err = gw_cm_event(r->link->ch, stop_fd, deadline_ns, &ev);

    if (err == -ETIMEDOUT)
        return gw_error(err, "%s asked for a connection and did not confirm it before the deadline", r->peer);
    if (err) return err;
    if (ev->event != RDMA_CM_EVENT_ESTABLISHED) err = gw_cm_failure(ev, r->peer);
    rdma_ack_cm_event(ev);
    return err;
}

int gw_cm_accept(struct gw_request *r, struct gw_qp *qp, const struct gw_connect_opts *opts,
                 const struct gw_offer *mine, int stop_fd, uint64_t deadline_ns, struct gw_link **out)
{
    static const struct gw_offer none;
    const struct gw_connect_opts defaults = {0}, *o = opts ? opts : &defaults;
    struct rdma_conn_param p = {
        .flow_control = 1, .rnr_retry_count = o->rnr_retry ? o->rnr_retry : 7, .qp_num = gw_qp_num(qp)};
    uint8_t data[GW_CM_OFFER_BYTES];
    struct gw_cm_terms t;
    int err = mine && mine->data_len > GW_CM_DATA ? gw_error(-EINVAL, "too much data for a connection")
                                                  : gw_cm_terms(qp, o, &t);

    *out = NULL;
    if (!err) err = gw_cm_same_device(qp->dev, r->link->id);
    if (!err) {
        gw_cm_agree(&t, &r->theirs, r->mtu);
        gw_cm_pack(mine ? mine : &none, t.mtu, data);
        p.private_data = data;
        p.private_data_len = sizeof(data);
        p.responder_resources = t.respond;
        p.initiator_depth = t.begin;
        err = gw_cm_bring_up(qp, r->link->id, o, &t);
    }
    if (err) {
        gw_cm_refuse(r, "it cannot set its queue pair up");
        return err;
    }
    if (rdma_accept(r->link->id, &p))
        err = gw_error_errno(gw_cm_gave_up(-errno), "%s: cannot accept", r->peer);
    if (!err) err = confirmed(r, stop_fd, deadline_ns);
    if (!err) {
        *out = r->link;
        r->link = NULL;
    }
    free_request(r);
    return err;
}
