/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that can go wrong, with every operation by every call and form. Each ends in an error before its
 * deadline. Tickets before the first that failed are good, all from it on are not. Host and kernel read the
 * same first error, with its request. After a reset the queue pairs are connected again, and work.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/verbs/device.h"
#include "tests/verbs/fault_kernels.h"
#include "tests/verbs/link.h"
#include "tests/verbs/pair.h"
#include "tests/verbs/peer_process.h"
#include "tests/verbs/rig.h"

GW_KERNEL_DECLARE(fault_kernel);

#define LIMIT_NS 60000000000u
#define SHORT_NS 50000000u
#define BLOCK    64 /* threads; fewer on CPU threads */

static const struct operation {
    const char *name;
    bool remote, fetches, receives, atomic, masked;
} operations[OPS] = {
    [OP_PUT] = {"put", .remote = true},
    [OP_PUT_IMM] = {"put with immediate", .remote = true, .receives = true},
    [OP_SIGNAL] = {"put with signal", .remote = true},
    [OP_GET] = {"get", .remote = true, .fetches = true},
    [OP_ADD] = {"fetch and add", .remote = true, .fetches = true, .atomic = true},
    [OP_SWAP] = {"compare and swap", .remote = true, .fetches = true, .atomic = true},
    [OP_MASKED_ADD] = {"masked add", .remote = true, .fetches = true, .atomic = true, .masked = true},
    [OP_MASKED_SWAP] = {"masked swap", .remote = true, .fetches = true, .atomic = true, .masked = true},
    [OP_SEND] = {"send", .receives = true},
    [OP_SEND_IMM] = {"send with immediate", .receives = true},
};
static const char *const call_names[CALLS] = {"typed", "struct", "ticket"};
static const char *const form_names[FORMS] = {"thread", "warp", "block"};

/* Which operations a call has in a form. */
static bool exists(uint32_t call, uint32_t form, uint32_t op)
{
    const bool sends = op == OP_SEND || op == OP_SEND_IMM;

    if (call == CALL_TICKET) return !sends;
    if (call == CALL_STRUCT) return form == FORM_THREAD && op != OP_SIGNAL && !operations[op].masked;
    if (form == FORM_WARP) return op == OP_PUT || op == OP_PUT_IMM;
    return form == FORM_THREAD && (op == OP_PUT || op == OP_PUT_IMM || op == OP_GET || op == OP_SEND);
}

enum fault_kind {
    WRONG_RKEY,
    WRONG_LKEY,
    REMOTE_RANGE,
    LOCAL_RANGE,
    WRONG_SIGNAL,
    NO_RECEIVE,
    NO_RECEIVE_EVER, /* … and the NIC tries forever */
    PEER_RESET,
    PEER_ABORTED, /* in the midst, as all below */
    ABORTED,
    LINK_DOWN,
    PEER_KILLED,
    KINDS,
};

static const struct fault {
    const char *name;
    uint32_t status;
    bool request; /* it is one thread's request that is wrong */
    bool midst;
    struct gw_connect_opts connect;
} faults[KINDS] = {
    [WRONG_RKEY] = {"wrong remote key", IBV_WC_REM_ACCESS_ERR, .request = true},
    [WRONG_LKEY] = {"wrong local key", IBV_WC_LOC_PROT_ERR, .request = true},
    [REMOTE_RANGE] = {"out of the remote region", IBV_WC_REM_ACCESS_ERR, .request = true},
    [LOCAL_RANGE] = {"out of the local region", IBV_WC_LOC_PROT_ERR, .request = true},
    [WRONG_SIGNAL] = {"wrong key of the signal", IBV_WC_REM_ACCESS_ERR, .request = true},
    [NO_RECEIVE] = {"no receive", IBV_WC_RNR_RETRY_EXC_ERR, .connect = {.rnr_retry = 1, .min_rnr_timer = 1}},
    [NO_RECEIVE_EVER] = {"no receive, ever", IBV_WC_WR_FLUSH_ERR,
                         .connect = {.rnr_retry = 7, .min_rnr_timer = 1}},
    [PEER_RESET] = {"peer reset", IBV_WC_RETRY_EXC_ERR, .connect = {.timeout = 10, .retry_cnt = 1}},
    [PEER_ABORTED] = {"peer aborted", IBV_WC_RETRY_EXC_ERR, .midst = true,
                      .connect = {.timeout = 12, .retry_cnt = 1}},
    [ABORTED] = {"aborted", IBV_WC_WR_FLUSH_ERR, .midst = true},
    [LINK_DOWN] = {"link down", IBV_WC_RETRY_EXC_ERR, .midst = true,
                   .connect = {.timeout = 12, .retry_cnt = 1}},
    [PEER_KILLED] = {"peer killed", IBV_WC_RETRY_EXC_ERR, .midst = true,
                     .connect = {.timeout = 12, .retry_cnt = 1}},
};

struct scene {
    struct pair p;
    struct peer_process peer;
    struct gw_mem mem; /* the kernel's output */
    struct fault_out out;
    const struct fault *fault;
    uint32_t kind, call, form, op, bad, cases;
    bool one_owner;
};

#define check(s, cond)                                                                                       \
    do {                                                                                                     \
        if (!(cond)) complain(s, __LINE__, #cond);                                                           \
    } while (0)

static void complain(const struct scene *s, int line, const char *what)
{
    const struct fault_out *o = &s->out;
    char text[256];

    gw_fault_text(&o->fault, text, sizeof(text));
    fail_msg(
        "%s by %s%s, %s, %s: line %d: %s (posted %d, all %d, each %d %d %d …, flushed %d, later %d %d; %u "
        "completions; %llu us; fault: %s, wr_id %llu, tickets %llu %llu …; %s)",
        operations[s->op].name, call_names[s->call], s->one_owner ? " of one owner" : "", form_names[s->form],
        s->fault ? s->fault->name : "well", line, what, o->posted, o->all, o->each[0], o->each[1], o->each[2],
        o->flushed, o->later, o->later_all, o->wcs, (unsigned long long)o->took_ns / 1000,
        o->faulted ? text : "none", (unsigned long long)o->fault.wr_id, (unsigned long long)o->ticket[0],
        (unsigned long long)o->ticket[1], gw_last_error());
}

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void to_wrong(const struct scene *s, struct fault_place *w)
{
    const uint32_t len = operations[s->op].atomic ? 8 : FAULT_BYTES;
    const uint64_t end = s->p.base + 2 * s->p.half; /* of the region; an atomic's address stays aligned */

    switch (s->kind) {
    case WRONG_RKEY: w->rkey ^= 0x5500; break;
    case WRONG_LKEY: w->lkey ^= 0x5500; break;
    case REMOTE_RANGE: w->remote = end - len / 16 * 8; break;
    case LOCAL_RANGE: w->local = end - len / 16 * 8; break;
    case WRONG_SIGNAL: w->signal_rkey ^= 0x5500; break;
    default: break;
    }
}

static void launch(struct scene *s, const struct fault *fault, uint64_t limit_ns)
{
    struct pair *p = &s->p;
    const bool away = fault && s->kind == PEER_KILLED;
    struct fault_args a = {
        .qp = gw_qp_handle(p->qp[0]),
        .cq = gw_cq_handle(p->cq[0]),
        .call = s->call,
        .form = s->form,
        .op = s->op,
        .loop = fault && fault->midst,
        .one_owner = s->one_owner,
        .bad = fault && fault->request ? s->bad : FAULT_NOBODY,
        .good = {p->base, p->base + p->half, p->base + p->half + 32768, p->mr->lkey, p->mr->rkey,
                 p->mr->rkey},
        .inbox = p->base + p->half + 49152,
        .limit_ns = limit_ns,
        .out = s->mem.dev,
    };

    if (away) {
        a.good.remote = s->peer.addr;
        a.good.signal = s->peer.addr + 32768;
        a.good.rkey = a.good.signal_rkey = s->peer.rkey;
    } else if (!fault || fault->midst || fault->request) {
        a.peer = gw_qp_handle(p->qp[1]);
        a.peer_cq = gw_cq_handle(p->cq[1]);
    }
    a.wrong = a.good;
    to_wrong(s, &a.wrong);
    memset(&s->out, 0, sizeof(s->out));
    must(gw_copy_in(exec, s->mem.dev, &s->out, sizeof(s->out)), "gw_copy_in");
    must(gw_launch(exec, &fault_kernel, 1, BLOCK, &a), "gw_launch");
}

static void sync_out(struct scene *s)
{
    must(gw_exec_sync(exec, gw_deadline(4 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(exec, &s->out, s->mem.dev, sizeof(s->out)), "gw_copy_out");
}

static void connect(struct scene *s, const struct gw_connect_opts *o)
{
    for (int k = 0; k < 2; k++) must(gw_qp_reset(s->p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
    pair_connect(&s->p, o);
}

/* Nothing is wrong; and so it is known that queue pairs that have failed before work again. */
static void well(struct scene *s)
{
    const struct fault *fault = s->fault;

    s->fault = NULL;
    launch(s, NULL, LIMIT_NS);
    sync_out(s);
    check(s, s->out.faulted == 0);
    check(s, s->out.posted == 0 && s->out.later == 0);
    if (s->call == CALL_TICKET) {
        check(s, s->out.opened == 0 && s->out.all == 0 && s->out.flushed == 0 && s->out.later_all == 0);
        for (uint32_t i = 0; i < s->out.group; i++) check(s, s->out.each[i] == 0);
    } else {
        check(s, s->out.wcs == s->out.group + 2);
        for (uint32_t i = 0; i < s->out.wcs; i++) check(s, s->out.wc[i].status == IBV_WC_SUCCESS);
    }
    s->fault = fault;
}

/* Until the kernel is at work; or has ended, for on a busy machine the short timeouts pass by themselves. */
static void under_way(struct scene *s)
{
    const struct timespec nap = {.tv_nsec = 200000};
    const struct fault_out *o = s->mem.dev;
    uint64_t end = gw_deadline(LIMIT_NS), rounds = 0;

    while (rounds < 3 && gw_clock_ns() < end && gw_exec_sync(exec, 0)) {
        must(gw_copy_out(exec, &rounds, &o->rounds, sizeof(rounds)), "gw_copy_out");
        nanosleep(&nap, NULL);
    }
    check(s, gw_clock_ns() < end);
}

/* Makes it happen. */
static void strike(struct scene *s)
{
    if (s->fault->midst) under_way(s);
    switch (s->kind) {
    case PEER_ABORTED: must(gw_qp_abort(s->p.qp[1]), "gw_qp_abort"); break;
    case ABORTED: must(gw_qp_abort(s->p.qp[0]), "gw_qp_abort"); break;
    case LINK_DOWN: link_set("tx.down=0"); break;
    case PEER_KILLED: peer_process_kill(&s->peer); break;
    default: break;
    }
}

/* ---- what is expected ---------------------------------------------------------------------------------- */

static uint32_t status_of(const struct scene *s)
{
    if (s->kind == WRONG_LKEY) return pair_local_key_status(dev, operations[s->op].fetches);
    return s->fault->status;
}

/* Host and kernel say the same; and of which request it is. */
static void check_fault(struct scene *s, uint64_t wr_id, uint32_t index)
{
    struct gw_fault fault;

    check(s, gw_qp_fault(s->p.qp[0], &fault) == 1 && s->out.faulted == 1);
    check(s, !memcmp(&fault, &s->out.fault, sizeof(fault)));
    check(s, fault.status == status_of(s) && !fault.recv);
    check(s, gw_wc_status_(fault.syndrome) == fault.status);
    if (s->fault->midst) return; /* it is not known which one */
    check(s, fault.wr_id == wr_id);
    check(s, fault.wqe_index == (index & 0xffff));
}

/* before: whether the requests in front of the bad one are known to be well. */
static void check_tickets(struct scene *s)
{
    const uint32_t bbs = s->op == OP_SIGNAL || s->op == OP_MASKED_SWAP ? 2 : 1;
    const uint32_t bad = s->fault->request ? s->bad : 0, second = s->kind == WRONG_SIGNAL;
    struct fault_out *o = &s->out;
    uint64_t at = o->ticket[bad] - bbs; /* where the request begins */

    check(s, o->opened == 0);
    if (s->fault->midst && o->posted == -EIO) return check_fault(s, 0, 0);
    check(s, o->posted == 0 && o->all == -EIO && o->flushed == -EIO);
    for (uint32_t i = 0; i < o->group && !s->fault->midst; i++)
        check(s, o->each[i] == (i < bad && !(s->one_owner && i) ? 0 : -EIO));
    check(s, o->later == -EIO || (o->later == 0 && o->later_all == -EIO));
    /* Of two requests with one ticket, the first is named by what is one less. */
    check_fault(s, s->op == OP_SIGNAL ? at + 1 + second : at + bbs, (uint32_t)at + second);
}

static void check_polled(struct scene *s, uint32_t used)
{
    const uint32_t bad = s->fault->request ? s->bad : 0;
    const struct fault_out *o = &s->out;
    bool failed = false;

    if (s->fault->midst && o->posted == -EIO) return check_fault(s, 0, 0);
    check(s, o->posted == 0);
    check(s, o->wcs >= o->group);
    for (uint32_t i = 0; i < o->wcs; i++) {
        if (!s->fault->midst)
            check(s, o->wc[i].wr_id == i && o->wc[i].status == (i < bad    ? IBV_WC_SUCCESS
                                                                : i == bad ? status_of(s)
                                                                           : IBV_WC_WR_FLUSH_ERR));
        if (failed) check(s, o->wc[i].status == IBV_WC_WR_FLUSH_ERR);
        failed |= o->wc[i].status != IBV_WC_SUCCESS;
    }
    check(s, failed);
    /* ibv_post_send takes more, which is flushed; the typed calls do not. */
    check(s, o->later == (s->call == CALL_STRUCT ? 0 : -EIO));
    check_fault(s, bad, used + bad);
}

/* It was not to be had before the deadline, so the host gives up, and the kernel is told. */
static void check_timeout(struct scene *s)
{
    const struct fault_out *o = &s->out;

    check(s, o->posted == 0 && o->faulted == 0 && o->took_ns < 10 * (uint64_t)SHORT_NS);
    if (s->call == CALL_TICKET)
        check(s, o->all == -ETIMEDOUT && o->each[0] == -ETIMEDOUT && o->flushed == -ETIMEDOUT);
    else
        check(s, o->wcs == 0);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static bool applies(const struct scene *s)
{
    const struct operation *o = &operations[s->op];

    switch (s->kind) {
    case WRONG_RKEY:
    case REMOTE_RANGE: return o->remote;
    case WRONG_SIGNAL: return s->op == OP_SIGNAL;
    case NO_RECEIVE:
    case NO_RECEIVE_EVER: return o->receives;
    default: return true;
    }
}

/* Not everything that there is has every device. */
static bool offered(struct scene *s)
{
    if (!operations[s->op].atomic || s->call != CALL_TICKET) return true;
    connect(s, NULL);
    launch(s, NULL, LIMIT_NS);
    sync_out(s);
    return s->out.posted != -EOPNOTSUPP;
}

static void one(struct scene *s)
{
    uint32_t used = 0;

    s->fault = &faults[s->kind];
    if (s->fault->connect.timeout == 0) {
        /* On a busy machine the short timeouts of the others may pass by themselves. */
        connect(s, &s->fault->connect);
        well(s);
        used = s->out.group + 2;
        s->bad = s->out.group / 2;
    } else if (s->kind == PEER_KILLED) {
        for (int k = 0; k < 2; k++) must(gw_qp_reset(s->p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
        peer_process_meet(&s->peer, s->p.qp[0], &s->fault->connect);
    } else {
        connect(s, &s->fault->connect);
    }
    if (s->kind == PEER_RESET) must(gw_qp_reset(s->p.qp[1], GW_RESET_QUIET, 0), "gw_qp_reset");
    launch(s, s->fault, s->kind == NO_RECEIVE_EVER ? SHORT_NS : LIMIT_NS);
    strike(s);
    sync_out(s);
    if (s->kind == LINK_DOWN) link_set("none");
    if (s->kind == NO_RECEIVE_EVER)
        check_timeout(s);
    else if (s->call == CALL_TICKET)
        check_tickets(s);
    else
        check_polled(s, used);
}

/* Every operation by every call and form. */
static void every(struct scene *s, uint32_t forms)
{
    for (s->call = 0; s->call < CALLS; s->call++)
        for (s->form = 0; s->form < FORMS; s->form++)
            for (s->op = 0; s->op < OPS; s->op++) {
                if (!exists(s->call, s->form, s->op) || !(forms >> s->form & 1) || !applies(s) || !offered(s))
                    continue;
                one(s);
                s->cases++;
            }
    printf("%s%s: %u cases\n", faults[s->kind].name, s->one_owner ? ", one owner" : "", s->cases);
    connect(s, NULL);
    s->call = CALL_TICKET, s->form = FORM_THREAD, s->op = OP_PUT;
    well(s);
}

static void begin(struct scene *s, uint32_t qp_flags)
{
    struct pair_opts o = {.send_wr = 256, .recv_wr = 256, .qp_flags = qp_flags};

    memset(s, 0, sizeof(*s));
    s->one_owner = qp_flags & GW_QP_ONE_POSTER;
    pair_make(&s->p, dev, &o);
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(s->out), &s->mem), "gw_mem_alloc");
}

static void end(struct scene *s)
{
    gw_mem_free(&s->mem);
    pair_free(&s->p);
}

/* Warps and blocks of one thread are that thread. */
static uint32_t all_forms(void)
{
    return test_block_dim(exec, BLOCK) > 1 ? 7 : 1 << FORM_THREAD;
}

static void whole(uint32_t kind, uint32_t qp_flags)
{
    struct scene s;

    begin(&s, qp_flags);
    s.kind = kind;
    every(&s, all_forms());
    end(&s);
}

static void wrong_requests(void **state)
{
    (void)state;
    for (uint32_t kind = WRONG_RKEY; kind <= WRONG_SIGNAL; kind++)
        for (uint32_t owner = 0; owner < 2; owner++) whole(kind, owner ? GW_QP_ONE_POSTER : 0);
}

static void no_receive(void **state)
{
    (void)state;
    whole(NO_RECEIVE, 0);
    whole(NO_RECEIVE_EVER, 0);
}

static void peer_gone(void **state)
{
    (void)state;
    whole(PEER_RESET, 0);
    whole(PEER_ABORTED, 0);
    whole(PEER_ABORTED, GW_QP_ONE_POSTER);
}

static void taken_down(void **state)
{
    (void)state;
    whole(ABORTED, 0);
    whole(ABORTED, GW_QP_ONE_POSTER);
    whole(ABORTED, GW_QP_LOCK_FREE);
}

static void link_down(void **state)
{
    (void)state;
    if (!link_can()) skip();
    whole(LINK_DOWN, 0);
}

static void peer_killed(void **state)
{
    (void)state;
    if (!link_can()) skip(); /* nor can there be another process' NIC at this address */
    whole(PEER_KILLED, 0);
}

/* ---- a NIC that does nothing any more ------------------------------------------------------------------ */

static void nic_gone_one(struct scene *s, struct rig *r)
{
    struct fault_args a = {.qp = r->qp, .cq = r->cqh, .call = s->call, .form = s->form, .op = s->op};
    int32_t posted = 0;

    a.bad = FAULT_NOBODY;
    a.limit_ns = SHORT_NS / 10;
    a.out = s->mem.dev;
    for (uint32_t i = 0; i < 2 * r->o.wqebbs && !posted; i++) {
        must(gw_launch(exec, &fault_kernel, 1, BLOCK, &a), "gw_launch");
        sync_out(s);
        posted = s->out.posted;
        if (posted) break;
        check(s, s->out.took_ns < 10 * (uint64_t)SHORT_NS && s->out.faulted == 0);
        if (s->call == CALL_TICKET)
            check(s, s->out.all == -ETIMEDOUT && s->out.flushed == -ETIMEDOUT);
        else
            check(s, s->out.wcs == 0);
    }
    /* Full, and so it stays. */
    check(s, posted == (s->call == CALL_STRUCT ? -ENOMEM : -EAGAIN));
}

static void nic_gone(void **state)
{
    /* Two WQEBBs for each thread of a block have to have room. */
    const struct rig_opts o = {
        .wqebbs = test_block_dim(exec, BLOCK) > 32 ? 2 * BLOCK : 64, .wqes = 16, .cqes = 128};
    struct scene s = {0};
    struct rig r;

    (void)state;
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(s.out), &s.mem), "gw_mem_alloc");
    for (s.call = 0; s.call < CALLS; s.call++)
        for (s.form = 0; s.form < FORMS; s.form++)
            for (s.op = 0; s.op < OPS; s.op++) {
                if (!exists(s.call, s.form, s.op) || !(all_forms() >> s.form & 1)) continue;
                rig_start(&r, exec, &o);
                rig_die(&r);
                nic_gone_one(&s, &r);
                rig_stop(&r);
                rig_free(&r);
            }
    gw_mem_free(&s.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_requests), cmocka_unit_test(no_receive), cmocka_unit_test(peer_gone),
        cmocka_unit_test(taken_down),     cmocka_unit_test(link_down),  cmocka_unit_test(peer_killed),
        cmocka_unit_test(nic_gone),
    };

    /* A fault key, so that what the process sends to itself goes over the link, which can go down; whatever
     * NIC is asked for. */
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1,loss=0", 1);
    test_exec_opts.lanes = 4;
    test_options(argc, argv);
    peer_process_init(); /* before anything is opened */
    if (test_pattern) cmocka_set_test_filter(test_pattern);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
