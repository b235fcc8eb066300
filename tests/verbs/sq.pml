/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a send queue is reserved, published and rung for (include/gpuwire/detail/verbs/reserve.h, detail/verbs/ring.h; LOCKED=1: detail/verbs/lock.h), for
 * spin, which tries every interleaving. sq_model.sh runs it. An inline has the name of the function that it stands for, and each comment at
 * the right margin the line of that function.
 *
 * Found, if it could happen: a WQE that the NIC never executes (lost), executes twice, before it is written, or takes
 * from an earlier round or life of the queue (stale or overwritten), a record that goes back or past the queue, a
 * taken-back reservation that leaves a hole, a refusal though there was room (EXACT=1), a counter that wraps where the
 * algorithm cannot tell; a ring that arrives behind a newer one, or counts what the record does not; and a deadlock.
 *
 * Deaths (DIES=1). The first poster may stop for ever at any step of its way. Nothing then rings for what it has left behind,
 * and reservations that wait for it to take its own back wait. What the NIC gets is right all the same. (Where posters
 * take turns the others wait for who died with the lock, in the code for so long only.)
 *
 * Lives. When all posters are done, the host resets the queue pair (gw_qp_reset), and they post once more. The NIC may not
 * have got to what was posted before, and rings may be under way.
 *
 * Memory. What goes to the NIC (WQEs, record, ring) is buffered: a store becomes visible at any time later and in any
 * order, unless gw_fence_release stands between. So store buffering and the reordering of stores are covered, and
 * leaving out a fence is found (BROKEN=1, 2). So is what a slot says when its WQEs are deferred, until the next atomic
 * operation of the poster that releases: to ask, or to have a ringer look again (BROKEN=9). Other words of the handle and
 * the slots are sequentially consistent here, each
 * access by itself: missing acquire or release among posters, and loads that are reordered, are not covered; for
 * those there are ThreadSanitizer and the comments there.
 *
 * Turns (LOCKED=1). Nobody reads what others have stored but behind the lock, whose release is what makes a poster's stores
 * visible then; all else about memory is as above.
 *
 * Programs (PROGRAM). What each post is like is taken from the environment instead of tried out here: so that everything
 * that several posts of each poster can be is tried in many small runs, where one would be too large.
 *
 * Sizes. The NIC sees an index modulo 2 Q (in the code 2^16), the word modulo WRAP (2^28), so that both wrap.
 */
#ifndef POSTERS
#define POSTERS 2
#endif
#ifndef OPS
#define OPS 3 /* of the first poster */
#endif
#ifndef OTHERS
#define OTHERS 1 /* of each other one */
#endif
#ifndef MOST
#define MOST 2 /* WQEBBs of a reservation */
#endif
#ifndef DEFER
#define DEFER 1 /* some ring later */
#endif
#ifndef LIVES
#define LIVES 1
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef DIES
#define DIES 0
#endif
#ifndef EXACT
#define EXACT 0 /* 1: reserves with gw_reserve_, as calls that name their requests do on CPU threads */
#endif
#ifndef LOCKED
#define LOCKED 0 /* 1: posters take turns */
#endif
#ifndef Q
#define Q 2 /* WQEBBs of the queue */
#endif
#define WRAP (4 * Q) /* more than Q + POSTERS * MOST, a power of two */

#define START (WRAP - 2) /* where every count begins: they wrap soon */
#define LIFE  64         /* more than any index: tells a WQE of one life from that of another */

#define NOTHING 255

/* The handle. */
byte resv; /* sq_resv */
byte rung, asks; /* the fields of sq_word … */
bit again, hole;
byte slot_at[Q], slot_ready[Q]; /* the slots' second word: of which index, how many are ready */
byte slot_of[Q]; /* whose store of it may still be under way; NOTHING: it has arrived */
byte all_rung; /* sq_rung */
bit lock; /* sq_lock */

/* Memory that the NIC reads. */
byte wqe[Q];
byte record;
byte arrived; /* the register: the last ring's index */
bit rang;     /* the NIC has not looked since */

/* Each poster's stores that are under way. */
byte wqe_at[POSTERS], wqe_n[POSTERS]; /* WQEs [at, at + n) */
byte record_to[POSTERS];              /* NOTHING: none */
byte ring_to[POSTERS];

#ifdef PROGRAM
byte program; /* two bits for each post: of two WQEBBs, and rung for later */
#endif
byte taken; /* by the NIC; and completed, sq_ci: a view that lags behind is a poster's own */
byte done;  /* posters */
byte life;
bit alive = 1;            /* the first poster */

/* ---- memory -------------------------------------------------------------------------------------------------
 *
 * A store becomes visible at once, or when the NIC or, of the record, another ringer happens to look, or at its
 * thread's fence: nobody else reads what it stores to, so no other moment can be told from these. For the same reason
 * a store stands in one step with what its thread does before.
 */

inline see_wqe(p)
{
    wqe[wqe_at[p] % Q] = wqe_at[p] + LIFE * life;
    wqe_at[p]++;
    wqe_n[p]--
}

inline see_last_wqe(p)
{
    wqe_n[p]--;
    wqe[(wqe_at[p] + wqe_n[p]) % Q] = wqe_at[p] + wqe_n[p] + LIFE * life
}

inline see_record(p)
{
    record = record_to[p];
    record_to[p] = NOTHING
}

inline see_ring(p)
{
    assert((ring_to[p] + 2 * Q - arrived) % (2 * Q) <= Q); /* not back */
    arrived = ring_to[p];
    ring_to[p] = NOTHING;
    rang = 1
}

inline gw_fence_release() /* everything stored so far is visible before anything that is stored later */
{
    d_step {
        do
        :: ring_to[p] != NOTHING -> see_ring(p)
        :: BROKEN != 1 && wqe_n[p] > 0 -> see_wqe(p)
        :: BROKEN != 2 && record_to[p] != NOTHING -> see_record(p)
        :: else -> break
        od
    }
}

/* ---- the sq_word -------------------------------------------------------------------------------------------- */

inline leave_word(r, a, d, h) /* what CAS would leave there: no atomic of its own */
{
    rung = r; asks = a; again = d; hole = h
}

inline release_slots() /* what an operation that releases does */
{
    from = 0;
    do
    :: from < Q && slot_of[from] == p -> slot_of[from] = NOTHING; from++
    :: from < Q && slot_of[from] != p -> from++
    :: from == Q -> break
    od;
    from = 0
}

/* ---- detail/verbs/reserve.h, detail/verbs/ring.h --------------------------------------------------------------------------------------------- */

inline gw_sq_reserve_(n) /* sets got, at */
{
    atomic { at = resv; resv = resv + n; got = 1 };          /* at = gw_add_relaxed(sq_resv, n) */
    do
    :: at + n - seen <= Q -> break                           /* while (at + n - *seen > wqebbs) */
    :: else ->
        seen = taken;                                        /* *seen = gw_ld_acquire(sq_ci) */
        if
        :: at + n - seen <= Q -> break
        :: else ->
            atomic {                                         /* gw_cas_relaxed(sq_resv, at + n, at) */
                if
                :: resv == at + n -> resv = at; got = 0; break
                :: else
                fi
            }
#if BROKEN == 3
            /* As if a reservation from below could be taken back at any time. */
            atomic { resv = resv - n; got = 0; break }
#endif
        fi
    od
}

inline look_whether_full(n) /* no step of the algorithm */
{
    was_full = was_full || resv + n - taken > Q
}

inline gw_reserve_(n) /* sets got, at; was_full: it was so when something was looked at */
{
    do
    :: true ->
#if BROKEN == 8
        atomic { seen = taken; look_whether_full(n) };
        atomic { at = resv; look_whether_full(n) };
#else
        at = resv;                                           /* at = gw_ld_acquire(resv) */
        atomic { seen = taken; look_whether_full(n) };       /* ci = gw_ld_acquire(done) */
#endif
        if
        :: at + n > seen + Q -> got = 0; assert(was_full); break
        :: else ->
            atomic {                                         /* gw_cas_relaxed(resv, at, at + n) */
                if
                :: resv == at -> resv = at + n; got = 1; break
                :: else
                fi
            }
        fi
    od;
    was_full = 0
}

inline write_and_gw_sq_claim_(n) /* sets claimed */
{
    atomic {                                                 /* gw_cas_relaxed(sq_word, idle, idle + ASK) */
        wqe_at[p] = at;                                      /* writes the WQEs */
        wqe_n[p] = n;
        if
        :: at == last || (BROKEN == 10 && last > 0) /* what is in front is ours, too, from run on */
        :: else -> run_at = at
        fi;
        last = at + n;
        claimed = (!defer && rung == run_at % WRAP && asks == 0 && !again && !hole);
        if
        :: claimed -> asks = 1
        :: else
        fi
    }
}

/* Behind the record. */
inline gw_sq_register_(next)
{
    gw_fence_release();
    ring_to[p] = (next) % (2 * Q)                            /* gw_mmio_st64 */
}

inline gw_sq_lay_down_fence() /* gw_fence_gpu, or the CAS releases */
{
#if BROKEN != 5
    gw_fence_release()
#else
    skip
#endif
}

inline gw_sq_scan_() /* moves upto */
{
    atomic { /* at once: what is ready stays so, and the last look decides */
        from = upto;
        do
        :: upto - from < Q && slot_at[upto % Q] == upto && (slot_of[upto % Q] == NOTHING || slot_of[upto % Q] == p) ->
            upto = upto + slot_ready[upto % Q]
        :: upto - from < Q && slot_at[upto % Q] == upto && slot_of[upto % Q] != NOTHING && slot_of[upto % Q] != p ->
            if
            :: slot_of[upto % Q] = NOTHING; upto = upto + slot_ready[upto % Q]
            :: break /* it has not arrived */
            fi
        :: else -> break
        od
    }
}

/* *_r, _a, _d, _h: the word as it was seen. Its rung is `upto` where it is not said. */
inline gw_sq_ring_more_()
{
    do
    :: true ->
        atomic {                                             /* word = gw_add_acquire(sq_word, stay) + stay */
            leave_word(upto % WRAP, asks - seen_a + 1, again - seen_d, hole - seen_h);
            seen_a = asks; seen_d = again; seen_h = hole; seen_r = rung
        };
#if BROKEN != 11
        if
        :: seen_d ->
            atomic {                                         /* word = gw_and_acquire(sq_word, ~AGAIN) & ~AGAIN */
                again = 0;
                seen_a = asks; seen_d = 0; seen_h = hole; seen_r = rung
            }
        :: else
        fi;
#endif
        gw_sq_scan_();                                       /* end = gw_sq_scan_(&q, from) */
        leave_h = (resv != upto);                            /* leave = gw_sq_leave_(&q, end) */
        if
        :: upto != from ->
            atomic {
                gw_fence_release();
                record_to[p] = upto % (2 * Q)                /* gw_dbrec_store_ */
            };
            gw_sq_register_(upto)
        :: else
        fi;
        gw_sq_lay_down_fence();
        atomic {                                             /* seen = gw_sq_lay_down_(qp, word, leave) */
            if
            :: BROKEN == 4 || (rung == seen_r && asks == seen_a && again == seen_d && hole == seen_h) ->
                leave_word(upto % WRAP, 0, 0, leave_h);
                break
            :: else -> seen_r = rung; seen_a = asks; seen_d = again; seen_h = hole
            fi
        }
    od
}

inline gw_sq_ring_claimed_(next)
{
    upto = next;
    record_to[p] = (next) % (2 * Q);                         /* gw_dbrec_store_ */
#if BROKEN != 7
    gw_sq_register_(next);
    gw_sq_lay_down_fence();
#endif
    atomic {                                                 /* seen = gw_sq_lay_down_(qp, word, idle(end)) */
        if
        :: rung == run_at % WRAP && asks == 1 && !again && !hole ->
            leave_word((next) % WRAP, 0, 0, 0);
            more = 0
        :: else -> seen_r = rung; seen_a = asks; seen_d = again; seen_h = hole; more = 1
        fi
    };
#if BROKEN == 7
    gw_sq_register_(next);
#endif
    if
    :: more -> gw_sq_ring_more_()
    :: else
    fi
}

inline gw_sq_ask_()
{
    atomic {                                                 /* word = gw_add_acq_rel(sq_word, ASK) */
        more = (asks == 0);
        asks++;
        release_slots();
        seen_r = rung; seen_a = asks; seen_d = again; seen_h = hole
    };
    if
    :: more ->
        upto = resv;                                         /* rung = gw_ld_relaxed(sq_resv) */
        upto = upto - ((upto + WRAP - seen_r) % WRAP);       /* rung -= (rung - (word >> RUNG)) & … */
        gw_sq_ring_more_()
    :: else
    fi
}

inline gw_sq_defer_(n)
{
    gw_fence_release();
    atomic {                                                 /* gw_st_relaxed(slot.end, …) */
        slot_at[at % Q] = at; slot_ready[at % Q] = n;
        slot_of[at % Q] = p
    };
    if
    :: hole -> gw_sq_ask_()                                  /* gw_ld_relaxed(sq_word) & HOLE */
    :: else
    fi
}

inline gw_sq_say_ready_(n)
{
    atomic { slot_at[at % Q] = at; slot_ready[at % Q] = n; slot_of[at % Q] = NOTHING };
    gw_sq_ask_()                                             /* which releases */
}

inline no_run() /* in the code run = last: the next one's run begins with itself, wherever it is */
{
    atomic { run_at = 0; last = 0 }
}

inline gw_sq_publish_run_(n)
{
    if
    :: defer -> gw_sq_defer_(n)
    :: else ->
        gw_fence_release();                                  /* gw_fence_acq_rel */
        if
        :: claimed -> gw_sq_ring_claimed_(at + n)
        :: else -> gw_sq_say_ready_(n)
        fi;
        no_run()
    fi
}

inline gw_sq_ring_(sure) /* gw_ring: sure */
{
    atomic { seen_r = rung; seen_a = asks };                 /* word = gw_ld_relaxed(sq_word) */
    if
    :: seen_r == resv % WRAP                                 /* gw_ld_relaxed(sq_resv) */
    :: else ->
        more = 1;
        if
        :: seen_a > 0 && !(sure) -> more = 0
        :: seen_a > 0 && (sure) ->
#if BROKEN != 9
            atomic {                                         /* gw_or_acq_rel(sq_word, AGAIN) */
                again = 1;
                release_slots();
                more = (asks == 0)
            }
#else
            more = 0
#endif
        :: else
        fi;
        if
        :: more -> gw_sq_ask_()
        :: else
        fi
    fi
}

/* ---- detail/verbs/lock.h ------------------------------------------------------------------------------------------- */

inline gw_sq_lock_()
{
    atomic { !lock -> lock = 1 }                             /* gw_exch_acquire(sq_lock, 1), again and again */
}

inline gw_sq_unlock_()
{
    atomic {                                                 /* gw_st_release(sq_lock, 0) */
#if BROKEN != 12
        gw_fence_release();
#endif
        lock = 0
    }
}

inline gw_sq_room_locked_(n) /* sets got, at; also gw_tx_take_locked_ */
{
    gw_sq_lock_();
    at = resv;                                               /* at = gw_ld_relaxed(resv) */
    seen = taken;                                            /* gw_ld_acquire(done) */
    if
    :: at + n > seen + Q -> gw_sq_unlock_(); got = 0
    :: else -> resv = at + n; got = 1                        /* gw_st_relaxed(resv, at + n) */
    fi
}

inline gw_sq_publish_locked_(next, later)
{
#if BROKEN == 14
    gw_sq_unlock_();
#endif
    if
    :: later
    :: else ->
        atomic {
            gw_fence_release();
            record_to[p] = (next) % (2 * Q)                  /* gw_dbrec_store_ */
        };
        gw_sq_register_(next);
        all_rung = next                                      /* gw_st_relaxed(sq_rung) */
    fi;
#if BROKEN != 14
    gw_sq_unlock_()
#endif
}

inline gw_sq_ring_locked_()
{
    upto = resv;                                             /* next = gw_ld_relaxed(sq_resv) */
    if
    :: all_rung == upto                                      /* gw_ld_relaxed(sq_rung) */
    :: else ->
#if BROKEN != 13
        gw_sq_lock_();
#endif
        upto = resv;
        if
        :: all_rung == upto -> gw_sq_unlock_()
        :: else -> gw_sq_publish_locked_(upto, 0)
        fi
    fi
}

/* ---- either way --------------------------------------------------------------------------------------------- */

inline reserve(n)
{
#if LOCKED
    gw_sq_room_locked_(n)
#elif EXACT
    gw_reserve_(n)
#else
    gw_sq_reserve_(n)
#endif
}

inline write_and_publish(n)
{
#if LOCKED
    atomic {                                                 /* writes the WQEs */
        wqe_at[p] = at;
        wqe_n[p] = n
    };
    gw_sq_publish_locked_(at + n, defer)
#else
    write_and_gw_sq_claim_(n);
    gw_sq_publish_run_(n)
#endif
}

inline ring(sure)
{
#if LOCKED
    gw_sq_ring_locked_()
#else
    gw_sq_ring_(sure)
#endif
}

/* ---- who takes part ----------------------------------------------------------------------------------------- */

proctype poster(byte p)
#if DIES
    provided (alive || _pid != 1) /* init is 0, the first poster 1 */
#endif
{
    byte ops, n, at, seen, from, upto, seen_r, seen_a, run_at, last, mine;
    bit seen_d, seen_h, leave_h, got, was_full, defer, claimed, more;

    do
    :: ops < (p -> OTHERS : OPS) ->
        atomic {
#ifdef PROGRAM
            n = 1 + (program >> (2 * (OPS * p + ops)) & 1);
            defer = program >> (2 * (OPS * p + ops) + 1) & 1
#else
            if
            :: n = 1
            :: n = MOST
            fi;
            if
            :: defer = 0
            :: DEFER -> defer = 1
            fi
#endif
        };
        do
        :: true ->
            reserve(n);
            if
            :: got -> break
            :: else -> ring(EXACT || run_at != last); /* full: the room may be waiting for a ring that was deferred */
                atomic { run_at = 0; last = 0; at = 0; upto = 0; from = 0; seen_r = 0; seen_a = 0; seen_d = 0; seen_h = 0; leave_h = 0; more = 0 };
                taken != seen /* not again before something completes: see gw_tx_reserve_ */
            fi
        od;
        write_and_publish(n);
        atomic { /* forgotten, so that states which differ by nothing else are one */
            n = 0; at = 0; from = 0; upto = 0; seen_r = 0; seen_a = 0; seen_d = 0;
            seen_h = 0; leave_h = 0; got = 0; defer = 0; claimed = 0; more = 0;
            ops++
        }
    :: else ->
        ring(1);
        atomic { ops = 0; seen = 0; run_at = 0; last = 0; more = 0; upto = 0; from = 0; seen_r = 0; seen_a = 0; done++ };
        if
        :: mine < LIVES - 1 -> life > mine; mine++
        :: else -> break
        fi
    od
}

/* A ring arrives: the NIC reads the record once, and takes everything that it counts. That is as much as the ring
 * says, or more: so a NIC that goes by the ring's index finds what it needs, too. */
proctype nic()
{
    byte n, p;
end:
    do
    :: atomic {
        if
        :: rang
        :: ring_to[0] != NOTHING -> see_ring(0)
        :: ring_to[1] != NOTHING -> see_ring(1)
#if POSTERS > 2
        :: ring_to[2] != NOTHING -> see_ring(2)
#endif
        fi;
        rang = 0;
        p = 0;
        do /* of what is under way, some has arrived */
        :: p < POSTERS && wqe_n[p] > 0 -> see_wqe(p)
        :: p < POSTERS && wqe_n[p] > 0 -> see_last_wqe(p)
        :: p < POSTERS && record_to[p] != NOTHING -> see_record(p)
        :: p < POSTERS -> p++
        :: p == POSTERS -> break
        od;
        n = (record + 2 * Q - taken % (2 * Q)) % (2 * Q);
        assert(n <= Q); /* the record neither goes back nor past the queue */
        assert((record + 2 * Q - arrived) % (2 * Q) <= Q);
        do
        :: n > 0 ->
            assert(wqe[taken % Q] == taken + LIFE * life); /* this one, written, once */
            taken++;
            n--
        :: else -> break
        od;
        p = 0 }
    od
}

/* The handle as it is at first; the NIC forgets, and reads nothing of what is in its queue. */
inline fresh()
{
    resv = START;
    all_rung = START;
    lock = 0;
    rung = START % WRAP; asks = 0; again = 0; hole = 0;
    taken = START;
    record = START % (2 * Q);
    arrived = START % (2 * Q)
}

inline clear_slots()
{
    for (i : 0 .. Q - 1) {
        slot_at[i] = NOTHING;
        slot_of[i] = NOTHING;
        slot_ready[i] = 0
    }
}

init
{
    byte i;

    atomic {
#ifdef PROGRAM
        c_code { now.program = atoi(getenv("PROGRAM")); };
#endif
        fresh();
        clear_slots();
        for (i : 0 .. Q - 1) { wqe[i] = NOTHING }
        for (i : 0 .. POSTERS - 1) {
            record_to[i] = NOTHING;
            ring_to[i] = NOTHING;
            run poster(i)
        }
        run nic();
        i = 0
    };
    do
    :: life < LIVES - 1 ->
        atomic {                                             /* gw_qp_reset: when no thread posts */
            done == POSTERS ->
            for (i : 0 .. POSTERS - 1) { assert(wqe_n[i] == 0 && record_to[i] == NOTHING && ring_to[i] == NOTHING) }
            fresh();
#if BROKEN != 6
            clear_slots();
#endif
            i = 0;
            done = 0;
            life++
        }
    :: else -> break
    od;
#if DIES
    alive = 0;
    goto over;
#endif
    /* When everybody has left and nothing is under way any more, everything reserved has been executed. */
    atomic {
        done == POSTERS && timeout ->
        assert(taken == resv);
        assert(arrived == resv % (2 * Q));
        assert(asks == 0)
    };
over:
    skip
}
