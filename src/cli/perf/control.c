/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation beside the measured traffic: messages on a queue pair of their own, which CPU threads use.
 * An arriving message is a peer's word: perf_control_receive checks its form, the callers its numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

#define ANSWER_S 30
#define ASK_NS   UINT64_C(3000000000) /* who waits without a limit asks after the other side so often */
#define RECEIVES 4

struct perf_control {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    struct gw_link *link;
    struct perf_msg *box; /* one to send, then those to receive into */
    bool deaf;
    char peer[INET6_ADDRSTRLEN]; /* the accepted client's address */
};

#define GREETING "perf" /* and the version of the conversation, in its last byte */

static const struct gw_offer hello = {.data_len = 8, .data = {'p', 'e', 'r', 'f', 0, 0, 0, PERF_VERSION}};

/* 0: the peer is a gpuwire perf that means the same by its messages; else what to tell it, and people. */
static const char *perf_control_stranger(const struct gw_offer *theirs)
{
    if (theirs->data_len != hello.data_len || memcmp(theirs->data, GREETING, strlen(GREETING)))
        return "this is gpuwire perf; use it at both ends";
    return memcmp(theirs->data, hello.data, hello.data_len)
               ? "this is gpuwire perf of another version; use the same at both ends"
               : NULL;
}

static int perf_control_post_receive(struct perf_control *c, uint64_t i)
{
    return gw_recv(gw_qp_handle(c->qp), (uint64_t)(uintptr_t)&c->box[1 + i], c->mr->lkey, sizeof(*c->box), i);
}

static int perf_control_post_receives(struct perf_control *c)
{
    int err = 0;

    for (uint64_t i = 0; !err && i < RECEIVES; i++) err = perf_control_post_receive(c, i);
    return err;
}

static int perf_control_make(struct perf_control *c, const char *device)
{
    struct gw_cq_attr ca = {.cqe = 32, .flags = GW_CQ_SLEEP, .qps = 1};
    struct gw_qp_attr qa = {.max_send_wr = 4, .max_recv_wr = RECEIVES};
    int err = gw_device_open(device, NULL, &c->dev);

    if (!err) err = gw_pd_create(c->dev, &c->pd);
    if (!err) err = gw_cq_create(c->dev, &ca, &c->send_cq);
    if (!err) err = gw_cq_create(c->dev, &ca, &c->recv_cq);
    qa.send_cq = c->send_cq;
    qa.recv_cq = c->recv_cq;
    if (!err) err = gw_qp_create(c->pd, &qa, &c->qp);
    if (err) return err;
    c->box = aligned_alloc(4096, 4096);
    if (!c->box) return gw_error_errno(-ENOMEM, "control connection");
    _Static_assert((1 + RECEIVES) * sizeof(*c->box) <= 4096, "the messages fit");
    memset(c->box, 0, 4096);
    err = gw_mr_register(c->pd, c->box, 4096, GW_MR_LOCAL_WRITE, &c->mr);
    return err ? err : perf_control_post_receives(c);
}

int perf_control_open(const char *device, bool deaf, struct perf_control **out)
{
    struct perf_control *c = calloc(1, sizeof(*c));
    int err = c ? perf_control_make(c, device) : gw_error_errno(-ENOMEM, "control connection");

    if (err) {
        perf_control_close(c);
        return err;
    }
    c->deaf = deaf;
    *out = c;
    return 0;
}

struct gw_device *perf_control_device(struct perf_control *c)
{
    return c->dev;
}

/* On a machine that is busy the other side's NIC may be slow to answer. */
static const struct gw_connect_opts patient = {.timeout = 17};

int perf_control_connect(struct perf_control *c, const char *host, uint16_t port)
{
    struct gw_offer theirs;
    int err = gw_cm_connect(c->qp, host, port, &patient, &hello, c->deaf ? -1 : gw_interrupt_fd(),
                            gw_deadline(ANSWER_S * UINT64_C(1000000000)), &theirs, &c->link);

    if (err) return err;
    return perf_control_stranger(&theirs)
               ? gw_error(-EPROTO,
                          "%s, port %u: a gpuwire program listens there, but no gpuwire perf of this version",
                          host, port)
               : 0;
}

int perf_control_accept(struct perf_control *c, const char *command, struct gw_request *r)
{
    const char *wrong = perf_control_stranger(gw_cm_offer(r));
    int err;

    if (wrong) {
        gw_cm_refuse(r, wrong);
        return gw_error(-EPROTO, "something else than gpuwire perf of this version asked for a connection");
    }
    snprintf(c->peer, sizeof(c->peer), "%s", gw_cm_peer(r)); /* which ends with the request */
    err = gw_cm_accept(r, c->qp, &patient, &hello, c->deaf ? -1 : gw_interrupt_fd(),
                       gw_deadline(ANSWER_S * UINT64_C(1000000000)), &c->link);
    if (err != -ECONNRESET && err != -ECONNREFUSED && err != -EHOSTUNREACH && err != -ETIMEDOUT) return err;
    fprintf(stderr, "gpuwire %s: the client at %s left before it was connected; waiting for the next\n",
            command, c->peer);
    err = gw_qp_reset(c->qp, GW_RESET_QUIET, 0);
    if (!err) err = perf_control_post_receives(c);
    return err ? err : -EPROTO;
}

bool perf_control_is_peer(const struct perf_control *c, const struct gw_request *r)
{
    return !strcmp(c->peer, gw_cm_peer(r));
}

bool perf_control_gone(struct perf_control *c)
{
    return gw_cm_ended(c->link, -1, 0) == 1;
}

int perf_control_send(struct perf_control *c, struct perf_msg *m)
{
    struct ibv_wc wc;
    int err;

    m->magic = PERF_MAGIC;
    c->box[0] = *m;
    err = gw_send(gw_qp_handle(c->qp), (uint64_t)(uintptr_t)c->box, c->mr->lkey, sizeof(*m), GW_SIGNALED, 0);
    if (err) return gw_error(err, "the other side is gone");
    if (gw_wait_cq(gw_cq_handle(c->send_cq), 1, &wc, gw_deadline(ANSWER_S * UINT64_C(1000000000)), NULL,
                   -1) != 1 ||
        wc.status)
        return gw_error(-ECONNRESET, "the other side does not take messages any more");
    return 0;
}

static int perf_control_take(struct perf_control *c, const struct ibv_wc *wc, struct perf_msg *m)
{
    if (wc->status) return gw_error(-ECONNRESET, "the control connection: %s", ibv_wc_status_str(wc->status));
    if (!perf_msg_take(m, &c->box[1 + wc->wr_id], wc->byte_len))
        return gw_error(-EPROTO, "the other side sends nonsense");
    return perf_control_post_receive(c, wc->wr_id);
}

/* A peer that was killed, or whose host is gone, says nothing. A write of no bytes is answered by its NIC,
 * and fails where there is none any more. */
static int ask_nic(struct perf_control *c, int stop_fd)
{
    struct gw_qp_handle *qp = gw_qp_handle(c->qp);
    uint64_t box = (uint64_t)(uintptr_t)c->box;
    struct ibv_wc wc;
    int got;

    if (gw_post_op(qp, gw_put_op(box, c->mr->lkey, 0, 0, 0), GW_SIGNALED, 0))
        return gw_error(-ECONNRESET, "the other side is gone");
    got = gw_wait_cq(gw_cq_handle(c->send_cq), 1, &wc, gw_deadline(ANSWER_S * UINT64_C(1000000000)), NULL,
                     stop_fd);
    if (got == -ECANCELED || (got == 1 && !wc.status)) return got < 0 ? got : 0;
    return gw_error(-ECONNRESET, "the other side is gone without a word");
}

int perf_control_receive(struct perf_control *c, uint64_t limit_ns, struct perf_msg *m)
{
    uint64_t end = limit_ns ? gw_deadline(limit_ns) : GW_NEVER, ask = gw_deadline(ASK_NS);
    int stop_fd = limit_ns || c->deaf ? -1 : gw_interrupt_fd();
    struct ibv_wc wc;

    for (;;) {
        uint64_t slice = gw_deadline(200000000);
        int gone,
            got = gw_wait_cq(gw_cq_handle(c->recv_cq), 1, &wc, slice < end ? slice : end, NULL, stop_fd);

        if (got == 1) return perf_control_take(c, &wc, m);
        if (got != -ETIMEDOUT) return got;
        if (gw_clock_ns() >= end) return gw_error(-ETIMEDOUT, "the other side does not answer");
        gone = gw_cm_ended(c->link, -1, 0);
        /* What it said before it left comes first. */
        if (gone == 1 && gw_poll_cq(gw_cq_handle(c->recv_cq), 1, &wc) == 1)
            return perf_control_take(c, &wc, m);
        if (gone) return gw_error(-ECONNRESET, "the other side has ended the connection");
        if (limit_ns || gw_clock_ns() < ask) continue;
        got = ask_nic(c, stop_fd);
        if (got && gw_poll_cq(gw_cq_handle(c->recv_cq), 1, &wc) == 1 && !wc.status)
            return perf_control_take(c, &wc, m);
        if (got) return got;
        ask = gw_deadline(ASK_NS);
    }
}

int perf_control_ask(struct perf_control *c, struct perf_msg *m)
{
    int err = perf_control_send(c, m);

    if (!err) err = perf_control_receive(c, ANSWER_S * UINT64_C(1000000000), m);
    if (err || m->word == PERF_OK) return err;
    return gw_error(-EREMOTEIO, "the other side: %s",
                    m->word == PERF_ERROR ? m->text : "something else than an answer");
}

void perf_control_close(struct perf_control *c)
{
    if (!c) return;
    gw_cm_close(c->link);
    gw_qp_destroy(c->qp);
    gw_cq_destroy(c->send_cq);
    gw_cq_destroy(c->recv_cq);
    gw_mr_free(c->mr);
    gw_pd_destroy(c->pd);
    gw_device_close(c->dev);
    free(c->box);
    free(c);
}
