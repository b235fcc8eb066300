/* SPDX-License-Identifier: Apache-2.0 */
/* The side that waits: it does what the client asks for, for one client. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

GW_KERNEL_DECLARE(perf_recv_kernel);
GW_KERNEL_DECLARE(perf_post_kernel);
GW_KERNEL_DECLARE(perf_lat_kernel);

#define LIMIT_NS UINT64_C(30000000000)
#define POSTS    64

struct server {
    const struct perf_opts *o;
    struct perf_control *control;
    struct gw_listener *listener;
    struct perf_side side;
    bool open, running;
    int stop_fd;
    uint32_t peer_qpn;        /* datagrams: the client's queue pair */
    uint64_t *before, *after; /* receives that had come, of each queue pair */
};

static bool takes_receives(const struct server *s)
{
    return s->side.shape.op == PERF_SEND || s->side.shape.op == PERF_PUT_IMM;
}

/* One connection for each queue pair, which says the pair's number; all other clients are turned away. */
static int accept_qp(struct server *s, uint64_t deadline, uint32_t *got)
{
    struct gw_offer mine = {.region = {s->side.mr->addr, s->side.mr->length, s->side.mr->rkey}};
    const struct perf_shape *p = &s->side.shape;
    struct gw_connect_opts opts = {.mtu = p->mtu, .timeout = (uint8_t)p->timeout};
    struct gw_request *r;
    uint64_t slice = gw_deadline(200000000);
    uint32_t i;
    int err = gw_cm_next(s->listener, s->stop_fd, slice < deadline ? slice : deadline, &r);

    if (err == -EPROTO) return 0;
    if (err == -ETIMEDOUT && perf_control_gone(s->control))
        return gw_error(-ECONNRESET, "the other side has ended the connection");
    if (err == -ETIMEDOUT && gw_clock_ns() < deadline) return 0;
    if (err == -ETIMEDOUT) return gw_error(err, "the client does not connect its queue pairs");
    if (err) return err;
    memcpy(&i, gw_cm_offer(r)->data, sizeof(i));
    if (gw_cm_offer(r)->data_len != sizeof(i) || i >= p->qps || s->side.link[i] ||
        !perf_control_is_peer(s->control, r)) {
        gw_cm_refuse(r, "busy with another client");
        return 0;
    }
    err = gw_cm_accept(r, s->side.qp[i], &opts, &mine, s->stop_fd, deadline, &s->side.link[i]);
    *got += !err;
    return err;
}

static int perf_server_begin(struct server *s, struct perf_msg *m)
{
    const char *wrong = s->open ? "a second measurement" : perf_shape_wrong(&m->shape);
    struct perf_opts o = *s->o;
    uint64_t deadline;
    uint32_t got = 0;
    int err;

    if (wrong) return gw_error(-EPROTO, "the client asks for something senseless: %s", wrong);
    o.threads = 1;
    o.by = PERF_BY_THREAD;
    o.shared = false;
    o.qps = m->shape.qps;
    o.blocks = o.qps; /* each queue pair has one user here, */
    o.depth =
        m->shape.both ? m->shape.depth : POSTS; /* who may answer, but posts no streams unless both do */
    err = perf_side_open(&s->side, &o, &m->shape);
    if (err) return err;
    s->open = true;
    s->before = calloc(m->shape.qps, sizeof(*s->before));
    s->after = calloc(m->shape.qps, sizeof(*s->after));
    if (!s->before || !s->after) return gw_error_errno(-ENOMEM, "counters");
    if (m->shape.op == PERF_DATAGRAM) {
        s->peer_qpn = m->ep.qpn;
        got = m->shape.qps; /* nothing to connect */
        err = perf_side_aim(&s->side, &m->ep);
        if (err) return err;
        gw_qp_endpoint(s->side.qp[0], &m->ep);
    }
    m->word = PERF_OK;
    m->post_mode = s->side.info.post_mode;
    m->buffers = s->side.buffers;
    snprintf(m->text, sizeof(m->text), "%s", gw_exec_name(s->side.exec));
    err = perf_control_send(s->control, m);
    deadline = gw_deadline(LIMIT_NS); /* for all of them: strangers who ask in that time do not delay it */
    while (!err && got < m->shape.qps) err = accept_qp(s, deadline, &got);
    return err;
}

/* The client is told to begin when every queue pair has receives: else it would begin with being put off. */
static int wait_for_receives(struct server *s, const struct perf_lists *l)
{
    uint64_t end = gw_deadline(LIMIT_NS);
    int err = 0;

    for (uint32_t q = 0; !err && q < s->side.shape.qps;) {
        err = gw_copy_out(s->side.exec, &s->after[q], l->posted + q, sizeof(s->after[q]));
        if (s->after[q] > s->before[q])
            q++;
        else if (gw_clock_ns() > end)
            err = gw_error(-ETIMEDOUT, "no receives can be posted");
        else
            gw_pause(100);
    }
    return err;
}

static int start_receiving(struct server *s)
{
    struct perf_lists l = perf_side_lists(&s->side);
    struct perf_recv_args a = {
        .qp = l.qp,
        .cq = l.recv_cq,
        .qps = s->side.shape.qps,
        .op = s->side.shape.op,
        .here = perf_side_place(&s->side, s->side.shape.size),
        .stop = s->side.control.dev,
        .posted = l.posted,
        .got = l.got,
        .err = l.err,
    };
    int err = gw_copy_out(s->side.exec, s->before, l.got, a.qps * sizeof(*s->before));

    if (!err)
        err = gw_launch(s->side.exec, &perf_recv_kernel, 1,
                        gw_exec_kind(s->side.exec) == GW_EXEC_GPU ? 32 : 1, &a);
    return err ? err : wait_for_receives(s, &l);
}

static int start_answering(struct server *s, const struct perf_msg *m)
{
    struct perf_lat_args a = perf_side_lat(&s->side, m->size, s->peer_qpn);

    a.answer = 1;
    a.target = m->inbox.addr;
    a.signal_target = m->inbox.addr + m->inbox.length - sizeof(uint64_t);
    a.rkey = m->inbox.rkey;
    return gw_launch(s->side.exec, &perf_lat_kernel, 1, 1, &a);
}

/* As the client does, towards it. It ends by itself, or when it is told to. */
static int start_posting(struct server *s, const struct perf_msg *m)
{
    const struct perf_shape *p = &s->side.shape;
    struct perf_lists l = perf_side_lists(&s->side);
    struct perf_post_args a = {.qp = l.qp,
                               .qps = p->qps,
                               .by = PERF_BY_THREAD,
                               .op = p->op,
                               .size = (uint32_t)m->size,
                               .batch = p->batch,
                               .count = m->count,
                               .limit_ns = m->count ? 0 : m->limit_ns,
                               .patience_ns = PERF_PATIENCE_NS,
                               .here = perf_side_place(&s->side, m->size),
                               .there = perf_side_place(&s->side, m->size),
                               .stop = s->side.control.dev,
                               .out = l.out,
                               .sends = l.sends,
                               .done = l.done};

    a.there.base = m->inbox.addr;
    a.there.key = m->inbox.rkey;
    return gw_launch(s->side.exec, &perf_post_kernel, p->qps, 1, &a);
}

static int perf_server_step(struct server *s, struct perf_msg *m)
{
    const struct perf_shape *p = &s->side.shape;
    bool lat = p->test == PERF_TEST_LAT, passive = p->op == PERF_GET || p->op >= PERF_FETCH_ADD;
    const char *wrong = !s->open || s->running ? "not now" : perf_step_wrong(p, m);
    struct perf_place at;
    int err = 0;

    if (wrong) return gw_error(-EPROTO, "the client's step is senseless: %s", wrong);
    at = perf_side_place(&s->side, p->op == PERF_SEND ? p->size : m->size);
    if (p->verify || lat)
        err = perf_fill(&s->side, &at, (struct perf_content){.seed = p->op == PERF_GET ? m->seed : 0});
    perf_tell_stop(&s->side, 0);
    if (!err && lat && !passive)
        err = start_answering(s, m);
    else if (!err && !lat && takes_receives(s))
        err = start_receiving(s);
    else if (!err && p->both)
        err = start_posting(s, m);
    s->running = !err;
    m->word = PERF_OK;
    return err ? err : perf_control_send(s->control, m);
}

static int count_receives(struct server *s, uint64_t *ops)
{
    struct perf_lists l = perf_side_lists(&s->side);
    int32_t failed = 0;
    int err = gw_copy_out(s->side.exec, s->after, l.got, s->side.shape.qps * sizeof(*s->after));

    if (!err) err = gw_copy_out(s->side.exec, &failed, l.err, sizeof(failed));
    if (!err && failed) err = perf_side_fault(&s->side, failed);
    for (uint32_t q = 0; !err && q < s->side.shape.qps; q++) *ops += s->after[q] - s->before[q];
    return err;
}

/* That the client's operations are complete says nothing yet about when this side sees its own
 * completions. */
static int wait_for_arrivals(struct server *s, uint64_t expected)
{
    uint64_t end = gw_deadline(PERF_PATIENCE_NS), got = 0;
    int err = count_receives(s, &got);

    while (!err && got < expected && gw_clock_ns() < end) {
        gw_pause(100);
        got = 0;
        err = count_receives(s, &got);
    }
    return err;
}

static int perf_server_look(struct server *s, const struct perf_msg *m, struct perf_row *row)
{
    const struct perf_shape *p = &s->side.shape;
    const struct perf_written written = {.what = {m->seed, p->op == PERF_SEND},
                                         .size = m->size,
                                         .used = m->count,
                                         .first = p->op == PERF_SEND ? s->before : NULL};
    struct perf_place at = perf_side_place(&s->side, p->op == PERF_SEND ? p->size : m->size);

    if (p->op == PERF_GET) return 0; /* the client has it */
    if (p->op >= PERF_FETCH_ADD) return perf_check_target(&s->side, &at, p->op, m->count, m->seed, row);
    return perf_check(&s->side, &at, &written, row);
}

/* The bytes that the answering kernel has checked while it ran. */
static int looked_at(struct server *s, struct perf_row *row)
{
    struct perf_out out;
    int err = gw_copy_out(s->side.exec, &out, perf_side_lists(&s->side).out, sizeof(out));

    if (!err && out.err) return perf_side_fault(&s->side, out.err);
    row->checked += err ? 0 : out.checked;
    row->wrong += err ? 0 : out.wrong;
    return err;
}

static int sum_ours(struct server *s, struct perf_msg *m)
{
    struct perf_row ours = {0};
    int err = perf_sum(s->side.exec, perf_side_lists(&s->side).out, s->side.shape.qps, &ours);

    m->ops = ours.ops;
    m->ns = ours.ns;
    return err ? perf_side_fault(&s->side, err) : 0;
}

static int perf_server_stop(struct server *s, struct perf_msg *m)
{
    bool counts = takes_receives(s) && s->side.shape.test != PERF_TEST_LAT;
    struct perf_row row = {0};
    const char *wrong = !s->running ? "nothing runs" : perf_stop_wrong(&s->side.shape, m);
    int err = 0, ended;

    if (wrong) return gw_error(-EPROTO, "the client's stop is senseless: %s", wrong);
    if (counts) err = wait_for_arrivals(s, m->ops);
    /* Both ways: ours ends by itself, soon after the client's, unless that one was cut short. */
    if (s->side.shape.both && m->ops) (void)perf_side_sync(&s->side, PERF_PATIENCE_NS);
    perf_tell_stop(&s->side, 1);
    ended = perf_side_sync(&s->side, LIMIT_NS);
    if (!err) err = ended;
    s->running = false;
    m->ops = 0;
    if (!err && s->side.shape.both) err = sum_ours(s, m);
    if (!err && counts) err = count_receives(s, &m->ops);
    if (!err && s->side.shape.verify && s->side.shape.test == PERF_TEST_LAT)
        err = looked_at(s, &row);
    else if (!err && s->side.shape.verify && m->count)
        err = perf_server_look(s, m, &row);
    m->checked = row.checked;
    m->wrong = row.wrong;
    m->word = PERF_OK;
    return err ? err : perf_control_send(s->control, m);
}

/* Until the client has had enough. */
static int converse(struct server *s)
{
    struct perf_msg m;
    int err;

    while (!(err = perf_control_receive(s->control, 0, &m))) {
        if (m.word == PERF_BYE) return 0;
        err = m.word == PERF_HELLO  ? perf_server_begin(s, &m)
              : m.word == PERF_STEP ? perf_server_step(s, &m)
              : m.word == PERF_STOP ? perf_server_stop(s, &m)
                                    : gw_error(-EPROTO, "the client says something senseless");
        if (!err) continue;
        m.word = PERF_ERROR;
        snprintf(m.text, sizeof(m.text), "%s", gw_last_error());
        perf_control_send(s->control, &m);
        return err == -EPROTO ? gw_error(err, "%s", m.text) : err;
    }
    return err;
}

static int wait_for_client(struct server *s)
{
    struct gw_request *r;
    int err;

    do {
        err = gw_cm_next(s->listener, s->stop_fd, GW_NEVER, &r);
        if (!err) err = perf_control_accept(s->control, perf_command(s->o), r);
    } while (err == -EPROTO); /* the next client may stay */
    return err;
}

int perf_serve(const struct perf_opts *o, int stop_fd, perf_told *told, void *arg)
{
    struct server s = {.o = o, .stop_fd = stop_fd};
    int err = perf_control_open(o->device, o->loopback, &s.control);

    if (!err)
        err = gw_cm_listen(perf_control_device(s.control), NULL, o->loopback ? 0 : (uint16_t)o->port,
                           &s.listener);
    if (told) told(arg, err ? 0 : gw_cm_port(s.listener), err ? NULL : perf_control_device(s.control));
    if (!err) err = wait_for_client(&s);
    if (!err) err = converse(&s);
    if (s.running) {
        perf_tell_stop(&s.side, 1);
        perf_side_sync(&s.side, LIMIT_NS);
    }
    if (s.open) perf_side_close(&s.side);
    free(s.before);
    free(s.after);
    gw_cm_unlisten(s.listener);
    perf_control_close(s.control);
    return err;
}
