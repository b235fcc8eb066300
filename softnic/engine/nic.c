/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC itself: making it, its lock, and the order in which one call of sn_nic_progress does its work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

enum { BUDGET = 256, WINDOW_PACKETS = 64, WINDOW_BYTES = 128 << 10, AGAIN_LIMIT = 4, ERRS_AT_ONCE = 32 };

/*
 * COPY_LOOKS: looks for the end of a copy before the NIC waits for it, as nothing else will come. Every
 * WIRE_LOOKS of them it looks at the wire. COPY_ROUNDS: after this number of rounds in which something came,
 * timers have their turn, and so have the threads that wait for the lock.
 */
enum { COPY_LOOKS = 1 << 12, WIRE_LOOKS = 64, COPY_ROUNDS = 64 };

/* Threads of a busy host are often not run for this long. */
#define PROBE_NS 1000000u

/* How soon to offer frames again that the wire, or a peer, had no room for. */
#define BLOCKED_NS 20000u

/* ---- making and ending --------------------------------------------------------------------------------- */

static void engine_nic_set_defaults(struct sn_nic_config *c)
{
    if (!c->max_mtu) c->max_mtu = ROCE_MAX_MTU;
    if (!c->window_packets) c->window_packets = WINDOW_PACKETS;
    if (!c->window_bytes) c->window_bytes = WINDOW_BYTES;
    if (!c->budget) c->budget = BUDGET;
    if (!c->probe_ns) c->probe_ns = PROBE_NS;
    if (!c->gids) c->gids = c->gids_own = 1;
    if (!c->pkeys) c->pkey[0] = ROCE_DEFAULT_PKEY;
    if (!c->pkeys) c->pkeys = 1;
    c->rndv_min = sn_rndv_min(c->rndv_min);
}

static int alloc_ring(struct sn_ring *ring)
{
    ring->data = malloc(SN_TX_FRAMES * sizeof(*ring->data));
    return ring->data ? 0 : -ENOMEM;
}

static int alloc_parts(struct sn_nic *nic)
{
    nic->qps = calloc(1u << 16, sizeof(*nic->qps));
    nic->cqs = calloc(SN_MAX_CQ, sizeof(*nic->cqs));
    nic->srqs = calloc(1u << 16, sizeof(*nic->srqs));
    if (!nic->qps || !nic->cqs || !nic->srqs || alloc_ring(&nic->tx) || alloc_ring(&nic->loop))
        return -ENOMEM;
    if (!nic->cfg.hostile) return 0;
    nic->late = calloc(SN_LATE_CQES, sizeof(*nic->late));
    nic->held = calloc(SN_PLACE_PIECES, sizeof(*nic->held));
    nic->held_bytes = malloc(SN_PLACE_BYTES);
    nic->behind = calloc(SN_PIECES_BEHIND, sizeof(struct sn_piece_behind *));
    return nic->late && nic->held && nic->held_bytes && nic->behind ? 0 : -ENOMEM;
}

static void free_nic(struct sn_nic *nic)
{
    sn_sq_free_rooms(nic);
    free(nic->qps);
    free(nic->cqs);
    free(nic->srqs);
    free(nic->mrs);
    free(nic->heap);
    free(nic->tx.data);
    free(nic->loop.data);
    free(nic->late);
    free(nic->held);
    free(nic->held_bytes);
    while (nic->behind_count) free(nic->behind[--nic->behind_count]);
    free(nic->behind);
    pthread_mutex_destroy(&nic->lock);
    free(nic);
}

int sn_nic_create(const struct sn_nic_config *config, struct sn_nic **out)
{
    struct sn_nic *nic;
    int err;

    if (!config->wire || !config->wire->send || !config->wire->recv || config->max_mtu > ROCE_MAX_MTU)
        return -EINVAL;
    err = sn_guard_install();
    if (err) return err;
    nic = calloc(1, sizeof(*nic));
    if (!nic) return -ENOMEM;
    nic->cfg = *config;
    engine_nic_set_defaults(&nic->cfg);
    nic->rnd = config->seed;
    nic->settle = sn_direct_settle;
    pthread_mutex_init(&nic->lock, NULL);
    sn_list_init(&nic->all_qps);
    sn_list_init(&nic->run);
    sn_list_init(&nic->parked);
    sn_list_init(&nic->copy_waits);
    sn_list_init(&nic->errs);
    sn_list_init(&nic->uars);
    err = alloc_parts(nic);
    if (err) {
        free_nic(nic);
        return err;
    }
    *out = nic;
    return 0;
}

int sn_nic_destroy(struct sn_nic *nic)
{
    bool busy;

    sn_nic_lock(nic);
    busy = nic->objects != 0;
    GW_CHECK(sn_nic_check(nic));
    sn_nic_unlock(nic);
    if (busy) return -EBUSY;
    free_nic(nic);
    return 0;
}

/* ---- progress ------------------------------------------------------------------------------------------ */

static enum sn_step engine_nic_step(struct sn_qp *qp)
{
    enum sn_step did;

    if (qp->state == IBV_QPS_ERR) return sn_qp_flush_step(qp) ? SN_DID : SN_IDLE;
    if (!sn_owner_stays(qp)) return SN_DID;
    if (!sn_qp_reliable(qp)) {
        did = sn_unreliable_step(qp);
    } else {
        /* Answers first: the peer waits for them, and they are what its window opens by. */
        did = sn_responder_step(qp);
        if (did == SN_IDLE) return sn_requester_step(qp);
    }
    qp->nic->tx_urgent = true;
    return did;
}

/* An earlier step of this turn may have woken it. */
static void park(struct sn_qp *qp)
{
    sn_list_del(&qp->run_link);
    sn_list_add(&qp->nic->parked, &qp->run_link);
}

/* A queue pair that still finds no room keeps its place. */
static void queue_copy_waiter(struct sn_qp *qp)
{
    if (!qp->copy_waits)
        sn_list_del(&qp->copy_wait_link);
    else if (sn_list_empty(&qp->copy_wait_link))
        sn_list_add(&qp->nic->copy_waits, &qp->copy_wait_link);
}

/* Perhaps there is room now for what these wait to send: one look at each in every call. */
static void try_parked(struct sn_nic *nic)
{
    while (!sn_list_empty(&nic->parked)) sn_qp_wake(sn_entry(nic->parked.next, struct sn_qp, run_link));
}

/* One turn of every queue pair that has work. false: none could do anything. */
static bool run_qps(struct sn_nic *nic)
{
    struct sn_link turn, *it;
    bool any = false;

    GW_ASSERT_HELD(&nic->lock);
    /* Queue pairs that wake during the turn wait for the next one. */
    sn_list_init(&turn);
    while (!sn_list_empty(&nic->run)) {
        it = nic->run.next;
        sn_list_del(it);
        sn_list_add(&turn, it);
    }
    while (!sn_list_empty(&turn)) {
        struct sn_qp *qp = sn_entry(turn.next, struct sn_qp, run_link);
        enum sn_step did = SN_DID;

        sn_list_del(&qp->run_link);
        qp->copy_waits = false;
        for (int i = 0; i < SN_QUANTUM && did == SN_DID && nic->budget;) {
            uint32_t joined = nic->direct.joined;

            did = engine_nic_step(qp);
            if (did == SN_DID) nic->budget--;
            /* No room for frames: there will be when the wire, or this NIC itself, has taken some. */
            if (did != SN_IDLE && !qp->parked && !qp->copy_waits) any = true;
            /* Requests that join a batch of direct accesses do not count: these are bounded. */
            i += nic->direct.joined == joined;
        }
        if (qp->parked)
            park(qp);
        else if (did != SN_IDLE && !qp->copy_waits)
            sn_qp_wake(qp);
        queue_copy_waiter(qp);
        sn_sq_rest(qp);
    }
    return sn_direct_go(nic) || any;
}

static uint32_t waiting_to_leave(const struct sn_nic *nic)
{
    return nic->tx.tail - nic->tx.head;
}

/* Until what waits to leave is worth a system call, and the peer's being woken for it. */
static bool take_turns(struct sn_nic *nic)
{
    bool any = false;
    unsigned before;

    do {
        before = nic->budget;
        any |= run_qps(nic);
        /* Budget that was not used: all that have work wait for frames to leave. */
    } while (nic->budget && nic->budget != before && waiting_to_leave(nic) < SN_TX_COMPANY);
    return any;
}

static bool engine_nic_receive(struct sn_nic *nic)
{
    bool any = false;

    while (nic->budget && sn_rx(nic)) any = true;
    return any;
}

/* Receive queues have no doorbell: those of queue pairs in ERR are looked at, so that what is posted comes
 * back. A few at a time, in turn: there may be thousands, and the polling thread waits for this. */
static void look_at_errs(struct sn_nic *nic)
{
    const struct sn_link *last = nic->errs.prev;

    for (int i = 0; i < ERRS_AT_ONCE && !sn_list_empty(&nic->errs); i++) {
        struct sn_link *it = nic->errs.next;
        struct sn_qp *qp = sn_entry(it, struct sn_qp, err_link);

        sn_list_del(it);
        sn_list_add(&nic->errs, it);
        if (sn_rq_waiting(qp)) sn_qp_wake(qp);
        if (it == last) return;
    }
}

static uint64_t next_time(struct sn_nic *nic)
{
    uint64_t next = sn_timer_next(nic);

    if (nic->late_head != nic->late_tail) {
        uint64_t due = nic->late[nic->late_head % SN_LATE_CQES].due;

        if (due < next) next = due;
    }
    if (nic->held_count) {
        uint64_t due = sn_place_next(nic);

        if (due < next) next = due;
    }
    if (nic->sweep_at && nic->sweep_at < next) next = nic->sweep_at;
    if ((nic->tx_blocked || !sn_list_empty(&nic->parked)) && nic->now + BLOCKED_NS < next)
        next = nic->now + BLOCKED_NS;
    if (!nic->tx_blocked && (!sn_list_empty(&nic->run) || !nic->budget)) next = nic->now;
    return next < nic->now ? nic->now : next;
}

/*
 * Copies are under way. Until one has ended there may be something else to do: rings, and now and then, since
 * to ask the wire may be a system call, frames. True: there was; false: there are none under way.
 */
static bool attend(struct sn_nic *nic)
{
    uint64_t rings = nic->count.doorbells;

    for (unsigned look = 1; nic->direct.peer && look < COPY_LOOKS; look++) {
        if (sn_direct_go(nic)) {
            /* The peer hears at once of placed bytes. */
            take_turns(nic);
            sn_tx_push(nic);
            try_parked(nic);
            if (nic->direct.peer) nic->wire_dry = false;
            return true;
        }
        sn_doorbells(nic);
        if (nic->count.doorbells != rings) return true;
        if (look % WIRE_LOOKS) continue;
        nic->wire_dry = false;
        if (sn_rx(nic)) return true;
    }
    return sn_direct_drain(nic);
}

static uint64_t engine_nic_progress(struct sn_nic *nic)
{
    bool again = true;
    unsigned rounds = COPY_ROUNDS;

    if (nic->failed) return SN_NEVER;
    nic->budget = nic->cfg.budget;
    nic->wire_dry = false;
    try_parked(nic);
    sn_doorbells(nic);
    sn_watch_records(nic);
    sn_timers_expire(nic);
    look_at_errs(nic);
    if (nic->late) sn_cq_release_late(nic, false);
    if (nic->held_count) sn_place_due(nic);
    while (again && nic->budget) {
        again = engine_nic_receive(nic);
        if (take_turns(nic)) again = true;
        sn_tx_push(nic);
        if (nic->tx_blocked) break;
        if (rounds && attend(nic)) {
            rounds--;
            again = true;
        }
    }
    /* The next holder of the lock is to find nothing under way. */
    sn_direct_drain(nic);
    return next_time(nic);
}

/*
 * `running` says whether the holder of the lock is inside engine_nic_progress(), and so will look at `again`
 * when it leaves. Otherwise it is a call that takes microseconds, and we wait for it. Both and the try- lock
 * are sequentially consistent: with our store of `again` before our try and the holder's release of the lock
 * before its look at `again`, one of the two sees the other. Weaker orders would let a doorbell go unseen.
 */
static bool engine_nic_enter(struct sn_nic *nic)
{
    if (pthread_mutex_trylock(&nic->lock) == 0) return true;
    __atomic_store_n(&nic->again, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (pthread_mutex_trylock(&nic->lock) == 0) return true;
    if (__atomic_load_n(&nic->running, __ATOMIC_SEQ_CST)) return false;
    pthread_mutex_lock(&nic->lock);
    return true;
}

static uint64_t posted(struct sn_nic *nic)
{
    bool again = true, expected = nic->sweep_at != 0;

    if (nic->failed) return SN_NEVER;
    nic->budget = nic->cfg.budget;
    try_parked(nic);
    sn_doorbells(nic);
    /* Once more after a push: unacknowledged requests are complete when they have left. And what goes to a
     * queue pair of this NIC is executed here too. */
    while (again && nic->budget) {
        again = sn_rx_looped(nic);
        if (run_qps(nic)) again = true;
        if (sn_direct_drain(nic)) again = true;
        if (nic->tx_urgent || waiting_to_leave(nic) >= SN_TX_COMPANY) sn_tx_push(nic);
        if (nic->tx_blocked) break;
    }
    /* Rings that others hid are left to the next thread: it should come soon. Once told, it knows when. */
    return nic->sweep_at && !expected ? nic->now : next_time(nic);
}

/* Not each time, and without a counter of its own: what the NIC does must not change. */
GW_CHECKS void sometimes_check(const struct sn_nic *nic)
{
    enum { EVERY = 16, SMALL = 64 };

    if (nic->qp_count <= SMALL && (nic->count.rx_packets + nic->count.cqes) % EVERY == 0) sn_nic_check(nic);
}

static uint64_t go(struct sn_nic *nic, uint64_t now, uint64_t (*work)(struct sn_nic *))
{
    uint64_t next = SN_CONTENDED;

    for (int i = 0; i < AGAIN_LIMIT; i++) {
        if (!engine_nic_enter(nic)) return next;
        __atomic_store_n(&nic->running, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&nic->again, 0, __ATOMIC_SEQ_CST);
        /* Threads read the clock before they get in: a later one may have been here already. */
        if (now > nic->now) nic->now = now;
        next = work(nic);
        GW_ASSERT(!nic->direct.peer); /* all copies have ended */
        GW_CHECK(sometimes_check(nic));
        __atomic_store_n(&nic->running, 0, __ATOMIC_SEQ_CST);
        sn_nic_unlock(nic);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&nic->again, __ATOMIC_SEQ_CST)) return next;
        work = engine_nic_progress; /* for a caller that came in between */
    }
    return now; /* callers come all the time: the next one looks */
}

uint64_t sn_nic_progress(struct sn_nic *nic, uint64_t now)
{
    return go(nic, now, engine_nic_progress);
}

uint64_t sn_nic_posted(struct sn_nic *nic, uint64_t now)
{
    /* Before the try for the lock: if that fails, its holder looks, and finds it. */
    if (nic->cfg.deaf) __atomic_store_n(&nic->heard, 1, __ATOMIC_SEQ_CST);
    return go(nic, now, posted);
}

void sn_nic_fail(struct sn_nic *nic)
{
    sn_nic_lock(nic);
    sn_direct_drain(nic);
    nic->failed = true;
    sn_nic_unlock(nic);
}

bool sn_nic_deaf(const struct sn_nic *nic)
{
    return nic->cfg.deaf;
}
