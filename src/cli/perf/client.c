/* SPDX-License-Identifier: Apache-2.0 */
/* The side that measures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

GW_KERNEL_DECLARE(perf_lat_kernel);

#define LIMIT_NS UINT64_C(30000000000)

struct client {
    const struct perf_opts *o;
    struct perf_control *control;
    struct perf_side side;
    bool open;
    struct gw_region peer;
    uint32_t peer_qpn; /* datagrams: the other side's queue pair */
    struct perf_msg msg;
    uint64_t seed;
};

static struct perf_place perf_client_there(const struct client *c, uint64_t size)
{
    struct perf_place p = perf_side_place(&c->side, size); /* both sides' spans are alike */

    p.base = c->peer.addr;
    p.key = c->peer.rkey;
    return p;
}

static int connect_qp(struct client *c, uint32_t i)
{
    const struct perf_opts *o = c->o;
    struct gw_connect_opts opts = {.mtu = (uint32_t)o->mtu, .timeout = (uint8_t)o->timeout};
    struct gw_offer mine = {.data_len = sizeof(i)}, theirs;
    int err;

    memcpy(mine.data, &i, sizeof(i));
    err = gw_cm_connect(c->side.qp[i], o->host, (uint16_t)o->port, &opts, &mine, -1, gw_deadline(LIMIT_NS),
                        &theirs, &c->side.link[i]);
    if (err) return err;
    c->peer = theirs.region;
    if (theirs.region.length >= c->side.span * c->side.shape.qps) return 0;
    return gw_error(-EPROTO, "the other side offers too little memory");
}

static bool sleeps_on_a_gpu(const struct client *c)
{
    return c->o->events && gw_exec_kind(c->side.exec) == GW_EXEC_GPU;
}

static int perf_client_set_up(struct client *c)
{
    struct perf_shape shape;
    int err = perf_shape_of(c->o, &shape);

    if (!err) err = perf_control_open(c->o->device, false, &c->control);
    if (!err) err = perf_control_connect(c->control, c->o->host, (uint16_t)c->o->port);
    if (!err) err = perf_side_open(&c->side, c->o, &shape);
    c->open = !err;
    if (!err && sleeps_on_a_gpu(c))
        err = gw_error(-EINVAL, "-e: kernels run on a GPU, which does not sleep; use --exec cpu");
    c->msg = (struct perf_msg){.word = PERF_HELLO, .shape = shape};
    if (!err && shape.op == PERF_DATAGRAM) gw_qp_endpoint(c->side.qp[0], &c->msg.ep);
    if (!err) err = perf_control_ask(c->control, &c->msg);
    if (!err && shape.op == PERF_DATAGRAM) {
        c->peer_qpn = c->msg.ep.qpn;
        return perf_side_aim(&c->side, &c->msg.ep);
    }
    for (uint32_t i = 0; !err && i < shape.qps; i++) err = connect_qp(c, i);
    return err;
}

/* count: what the other side is to post from each queue pair, where both do. */
static int begin_step(struct client *c, uint64_t size, uint64_t count)
{
    struct perf_msg m = {.word = PERF_STEP, .size = size, .seed = ++c->seed, .count = count};
    uint32_t stride = perf_side_place(&c->side, c->side.shape.size).stride;

    m.limit_ns = c->o->seconds * 1000000000u;
    m.inbox = (struct gw_region){c->side.mr->addr + stride, stride, c->side.mr->rkey};
    if (c->o->both) m.inbox = (struct gw_region){c->side.mr->addr, c->side.mr->length, c->side.mr->rkey};
    return perf_control_ask(c->control, &m);
}

/* used: slots that the other side is to look at; 0: it is not to. ops: how many it is to wait for. */
static int end_step(struct client *c, uint64_t size, uint64_t used, uint64_t ops, struct perf_row *row,
                    uint64_t *taken)
{
    struct perf_msg m = {.word = PERF_STOP, .size = size, .count = used, .ops = ops, .seed = c->seed};
    int err = perf_control_ask(c->control, &m);

    row->checked += err ? 0 : m.checked;
    row->wrong += err ? 0 : m.wrong;
    *taken = m.ops;
    if (!err && c->o->both) {
        row->ops += m.ops;
        if (m.ns > row->ns) row->ns = m.ns; /* the slower direction's */
    }
    return err;
}

/* ---- a stream ------------------------------------------------------------------------------------------ */

static int perf_client_look(struct client *c, const struct perf_place *at, uint64_t size, uint64_t used,
                            struct perf_row *row)
{
    const struct perf_written got = {.what.seed = c->seed, .size = size, .used = used};

    if (c->o->op == PERF_GET) return perf_check(&c->side, at, &got, row);
    return c->o->op >= PERF_FETCH_ADD ? perf_check_fetched(&c->side, at, c->o->op, used, row) : 0;
}

/* One run of `count` operations by each poster, looked at when all have slots of their own. */
static int one_run(struct client *c, uint64_t size, uint64_t count, bool verify, struct perf_row *row)
{
    struct perf_lists l = perf_side_lists(&c->side);
    struct perf_post_args a = {.qp = l.qp,
                               .qps = c->side.shape.qps,
                               .size = (uint32_t)size,
                               .count = count,
                               .out = l.out,
                               .sends = l.sends,
                               .done = l.done,
                               .stop = c->side.control.dev,
                               .here = perf_side_place(&c->side, size),
                               .there = perf_client_there(c, size)};
    uint64_t before = row->ops, used = verify ? count * perf_posters(c->o) / a.qps : 0, taken;
    struct perf_content what = {c->o->op == PERF_GET ? 0 : c->seed + 1, c->o->op == PERF_SEND};
    int err = verify ? perf_fill(&c->side, &a.here, what) : 0, run;

    a.swap = verify ? c->seed + 1 : 0;
    if (!err) err = begin_step(c, size, c->o->both ? count * (perf_posters(c->o) / a.qps) : 0);
    if (err) return err;
    run = perf_run(c->side.exec, c->o, &a, c->side.control.host, row);
    row->cut_short = gw_interrupted();
    if (run || row->cut_short) used = 0;
    if (run) run = perf_side_fault(&c->side, run);
    err = run ? run
              : end_step(c, size, used, row->cut_short && c->o->both ? 0 : row->ops - before, row, &taken);
    if (!err && (c->o->op == PERF_SEND || c->o->op == PERF_PUT_IMM) && taken != row->ops - before)
        err = gw_error(-EIO, "%llu operations completed here, and %llu arrived there",
                       (unsigned long long)(row->ops - before), (unsigned long long)taken);
    return !err && used ? perf_client_look(c, &a.here, size, used, row) : err;
}

static int perf_client_stream(struct client *c, uint64_t size, struct perf_row *row)
{
    uint64_t posters = perf_posters(c->o) / c->o->qps, left = (c->o->iters + posters - 1) / posters;
    /* Sends take the receiver's slots, which are of the largest size. */
    uint64_t at_once =
                 perf_side_place(&c->side, c->o->op == PERF_SEND ? c->side.shape.size : size).slots / posters,
             n;
    int err = 0;

    if (!c->o->verify) return one_run(c, size, left, false, row);
    while (!err && !row->cut_short && (c->o->iters ? left : row->ns < c->o->seconds * 1000000000u)) {
        n = c->o->iters && left < at_once ? left : at_once;
        err = one_run(c, size, n, true, row);
        left -= n;
    }
    return err;
}

/* ---- ping-pong ----------------------------------------------------------------------------------------- */

static int perf_client_collect(struct client *c, const struct perf_lists *l, struct perf_row *row)
{
    struct perf_out out;
    int err = gw_copy_out(c->side.exec, &out, l->out, sizeof(out));

    if (err) return err;
    if (out.err) return perf_side_fault(&c->side, out.err);
    row->ops = out.ops;
    row->checked += out.checked;
    row->wrong += out.wrong;
    row->ns = out.stop - out.start;
    row->samples = out.ops < PERF_SAMPLES ? out.ops : PERF_SAMPLES;
    row->sample = calloc(row->samples + 1, sizeof(*row->sample));
    if (!row->sample) return gw_error_errno(-ENOMEM, "samples");
    return gw_copy_out(c->side.exec, row->sample, l->ns, row->samples * sizeof(*row->sample));
}

static int perf_client_ping_pong(struct client *c, uint64_t size, struct perf_row *row)
{
    struct perf_lists l = perf_side_lists(&c->side);
    struct perf_place at = perf_side_place(&c->side, c->side.shape.size);
    bool asks = c->o->op == PERF_GET || c->o->op >= PERF_FETCH_ADD;
    struct perf_lat_args a = perf_side_lat(&c->side, size, c->peer_qpn);
    uint64_t taken;
    int err = perf_fill(&c->side, &at, (struct perf_content){0});

    a.count = c->o->iters;
    a.limit_ns = c->o->seconds * 1000000000u;
    a.target = c->peer.addr + (asks ? 0 : at.stride);
    a.signal_target = c->peer.addr + 2 * (uint64_t)at.stride - sizeof(uint64_t);
    a.rkey = c->peer.rkey;
    if (!err) err = begin_step(c, size, 0);
    perf_tell_stop(&c->side, 0);
    if (!err) err = gw_launch(c->side.exec, &perf_lat_kernel, 1, 1, &a);
    if (!err) err = perf_side_sync(&c->side, 0);
    row->cut_short = gw_interrupted();
    if (!err) err = perf_client_collect(c, &l, row);
    return err ? err : end_step(c, size, 0, 0, row, &taken);
}

/* ---- all sizes ----------------------------------------------------------------------------------------- */

static int perf_client_measure(struct client *c, struct perf_printer *p)
{
    static const uint64_t from = 2;
    bool wrong = false;
    int err = 0;

    for (uint64_t size = c->o->all ? from : c->o->size; !err && size <= c->o->size && !gw_interrupted();
         size *= 2) {
        struct perf_row row = {.size = size};

        err = c->o->test == PERF_TEST_LAT ? perf_client_ping_pong(c, size, &row)
                                          : perf_client_stream(c, size, &row);
        if (!err && row.ops) perf_print_row(p, &row);
        wrong |= row.wrong;
        free(row.sample);
    }
    if (!err && wrong) err = gw_error(-EBADMSG, "wrong bytes arrived");
    return err;
}

int perf_client(const struct perf_opts *o)
{
    static const char *const where[] = {"?", "host memory", "mapped host memory", "GPU memory"};
    static const char *const mode[] = {"?", "direct", "proxy-doorbell", "proxy-post"};
    struct client c = {.o = o};
    struct perf_printer *p = NULL;
    int err = perf_client_set_up(&c);

    if (!err) {
        struct perf_about about = {.device = c.side.info.name,
                                   .board = c.side.info.soft ? "software NIC" : c.side.info.board,
                                   .exec = gw_exec_name(c.side.exec),
                                   .peer = o->loopback ? "this process" : o->host,
                                   .peer_exec = c.msg.text,
                                   .buffers = where[c.side.buffers],
                                   .peer_buffers = where[c.msg.buffers < 4 ? c.msg.buffers : 0],
                                   .posting = mode[c.side.info.post_mode],
                                   .posting_why = c.side.info.post_why[0] ? c.side.info.post_why : NULL,
                                   .peer_posting = mode[c.msg.post_mode < 4 ? c.msg.post_mode : 0],
                                   .mtu = c.side.info.mtu};

        err = perf_print_open(o, &about, &p);
    }
    if (!err) err = perf_client_measure(&c, p);
    if (p) perf_print_close(p);
    if (c.open) {
        char why[400];

        snprintf(why, sizeof(why), "%s", gw_last_error()); /* before what comes of it */
        c.msg.word = PERF_BYE;
        if (err != -ECONNRESET && !perf_control_gone(c.control)) perf_control_send(c.control, &c.msg);
        perf_side_close(&c.side);
        if (err) gw_error(err, "%s", why);
    }
    perf_control_close(c.control);
    return err;
}
