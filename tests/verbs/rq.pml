/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How receives are published (include/gpuwire/detail/verbs/rq.h), for spin, which tries every interleaving. sq_model.sh runs it;
 * sq.pml, the model of the send queue, says how such a model is to be read. How a queue is reserved is modelled there
 * (gw_reserve_), and is one step here.
 *
 * Found, if it could happen: a receive that the NIC never sees, sees before it is written, or takes from an earlier round;
 * a record that goes back or past the queue; and a deadlock.
 *
 * Memory. What the NIC reads (receives, record) is buffered: a store becomes visible at any time later and in any order,
 * unless a fence or a release of its thread stands between. Words of the handle are sequentially consistent here.
 */
#ifndef POSTERS
#define POSTERS 3
#endif
#ifndef OPS
#define OPS 2 /* of each poster */
#endif
#ifndef MOST
#define MOST 2 /* receives of a reservation */
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef Q
#define Q 2
#endif
#define NOTHING 255

/* The handle. */
byte resv;          /* rq_resv */
byte counted, asks; /* the fields of rq_word … */
bit hole;
byte said[Q];

/* Memory that the NIC reads. */
byte wqe[Q];
byte record;

/* Each poster's stores that are under way. */
byte wqe_at[POSTERS], wqe_n[POSTERS]; /* receives [at, at + n) */
byte record_to[POSTERS];              /* NOTHING: none */

byte taken; /* by the NIC, and completed: rq_ci */
byte done;  /* posters */

inline see_wqe(p)
{
    wqe[wqe_at[p] % Q] = wqe_at[p];
    wqe_at[p]++;
    wqe_n[p]--
}

inline see_record(p)
{
    record = record_to[p];
    record_to[p] = NOTHING
}

inline arrive(p) /* everything stored so far is visible before anything that is stored later */
{
    do
    :: wqe_n[p] > 0 -> see_wqe(p)
    :: record_to[p] != NOTHING -> see_record(p)
    :: else -> break
    od
}

inline gw_fence() /* gw_fence_acq_rel */
{
#if BROKEN != 1
    d_step { arrive(p) }
#else
    skip
#endif
}

/* seen = gw_cas_release(rq_word, the word as it was seen, what leaves the record's count and a hole); ours: it did */
inline gw_cas_release_(count, leave)
{
    atomic {
#if BROKEN != 2
        arrive(p);
#endif
        if
        :: BROKEN == 3 || (counted == seen_c && asks == seen_a && hole == seen_h) ->
            counted = count; asks = 0; hole = leave;
            ours = 1
        :: else -> seen_c = counted; seen_a = asks; seen_h = hole; ours = 0
        fi
    }
}

inline gw_rq_hear_() /* moves upto */
{
    atomic { /* at once: what is ready stays so, and the last look decides */
        from = upto;
        do
        :: upto - from < Q && said[upto % Q] ->
            from_said = said[upto % Q];
#if BROKEN != 5
            said[upto % Q] = 0;
#endif
            upto = upto + from_said
        :: else -> break
        od;
        from_said = 0
    }
}

inline gw_rq_write_more_()
{
    do
    :: true ->
        atomic {                                             /* word = gw_add_acquire(rq_word, stay) + stay */
            counted = upto; asks = asks - seen_a + 1; hole = hole - seen_h;
            seen_c = counted; seen_a = asks; seen_h = hole
        };
        gw_rq_hear_();                                       /* end = gw_rq_hear_(qp, from) */
        leave_h = (BROKEN != 4 && resv != upto);
        if
        :: upto != from ->
            gw_fence();
            record_to[p] = upto                              /* gw_dbrec_store_ */
        :: else
        fi;
        gw_cas_release_(upto, leave_h);
        if
        :: ours -> break
        :: else
        fi
    od
}

inline gw_rq_publish_()
{
    gw_fence();
    if
    :: claimed ->
        record_to[p] = at + n;                               /* gw_dbrec_store_ */
        upto = at + n;
        seen_c = at; seen_a = 1; seen_h = 0;
        gw_cas_release_(upto, 0);
        more = !ours
    :: else ->
        said[at % Q] = n;
        atomic {                                             /* word = gw_add_acq_rel(rq_word, ASK) */
            more = (asks == 0);
            asks++;
            seen_c = counted; seen_a = asks; seen_h = hole;
            upto = counted
        }
    fi;
    if
    :: more -> gw_rq_write_more_()
    :: else
    fi
}

proctype poster(byte p)
{
    byte ops, n, at, from, from_said, upto, seen_c, seen_a;
    bit seen_h, leave_h, claimed, more, ours;

    do
    :: ops < OPS ->
        if
        :: n = 1
        :: n = MOST
        fi;
        atomic { resv + n - taken <= Q -> at = resv; resv = resv + n }; /* gw_rq_reserve_, until there is room */
        atomic {                                             /* gw_rq_claim_ */
            claimed = (counted == at && asks == 0 && !hole);
            if
            :: claimed -> asks = 1
            :: else
            fi;
            wqe_at[p] = at;                                  /* writes the receives */
            wqe_n[p] = n
        };
        gw_rq_publish_();
        atomic {
            n = 0; at = 0; from = 0; upto = 0; seen_c = 0; seen_a = 0; seen_h = 0; leave_h = 0;
            claimed = 0; more = 0; ours = 0;
            ops++
        }
    :: else -> break
    od;
    done++
}

/* A message comes: the NIC reads the record, and takes one receive. */
proctype nic()
{
    byte p;
end:
    do
    :: atomic {
        if
        :: record != taken
        :: record_to[0] != NOTHING
        :: record_to[1] != NOTHING
#if POSTERS > 2
        :: record_to[2] != NOTHING
#endif
        fi;
        p = 0;
        do /* of what is under way, some has arrived */
        :: p < POSTERS && wqe_n[p] > 0 -> see_wqe(p)
        :: p < POSTERS && record_to[p] != NOTHING -> see_record(p)
        :: p < POSTERS -> p++
        :: p == POSTERS -> break
        od;
        p = 0;
        assert(record >= taken && record - taken <= Q); /* it neither goes back nor past the queue */
        if
        :: record != taken ->
            assert(wqe[taken % Q] == taken); /* this one, written */
            taken++
        :: else
        fi }
    od
}

init
{
    byte i;

    atomic {
        for (i : 0 .. Q - 1) { wqe[i] = NOTHING }
        for (i : 0 .. POSTERS - 1) {
            record_to[i] = NOTHING;
            run poster(i)
        }
        run nic();
        i = 0
    };
    atomic {
        done == POSTERS && timeout ->
        assert(taken == resv && asks == 0)
    }
}
