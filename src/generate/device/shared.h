/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host and the scheduler's kernels share this: sessions, requests, lanes, pages, and what both report.
 *
 * Two kinds of memory. The board, the notices and the list of changes lie in host memory that both sides see.
 * The rest lies in the executor's own memory, and only kernels touch it once the loop runs. All of it begins
 * as zeros: numbers in lists count from 1, so that 0 means none.
 *
 * A request is a *job* from its arrival until its last event is posted. A job waits in the queue, or runs in
 * a *lane*. A lane owns a row of the page table. The turn kernel does all of that between two steps.
 */
#ifndef GW_GENERATE_DEVICE_SHARED_H
#define GW_GENERATE_DEVICE_SHARED_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/loop.h>
#include <gpuwire/verbs_device.h>

#include "src/generate/net/net.h"
#include "src/generate/source/source.h"
#include "src/generate/step/step.h"
#include "src/generate/wire/wire.h"

#define GEN_MAX_SESSIONS 0x10000u
#define GEN_PRIORITIES   8u /* 1 is served first; higher numbers count as 8 */
#define GEN_PRIORITY     2u /* of a request that names none */

/* ---- sessions ---- */

enum gen_session_state {
    GEN_SESSION_FREE = 0,   /* the kernel does not touch it */
    GEN_SESSION_OPEN = 1,   /* the kernel takes its requests; its receives were posted before */
    GEN_SESSION_CLOSING = 2 /* the kernel lets go of it: its requests end without an event */
};

/* Receives of a session with `slots` slots. The host posts them before it opens the session, with the id that
 * gen_id makes of the session's number and new word. The kernel posts another one for each it takes. */
GW_FN uint32_t gen_receives(uint32_t slots)
{
    return slots + 1;
}

/*
 * A completion's id names the session, the session's client (by the word that opened it), and how many events
 * the session had with this one. The host may reset a session and open it again while the kernel still holds
 * completions of the former client; their ids tell.
 */
GW_FN uint64_t gen_id(uint32_t session, uint32_t word, uint32_t events)
{
    return (uint64_t)events << 32 | (word >> 2 & 0xffff) << 16 | session;
}
GW_FN uint32_t gen_id_session(uint64_t id)
{
    return (uint32_t)id & 0xffff;
}
GW_FN uint32_t gen_id_events(uint64_t id)
{
    return (uint32_t)(id >> 32);
}
/* Does it name a completion of the client that the word opened? */
GW_FN bool gen_id_is(uint64_t id, uint32_t word)
{
    return ((uint32_t)id >> 16) == (word >> 2 & 0xffff);
}

/*
 * What the host says of a session. It fills the fields, then release-stores `word` or `ask`, then puts the
 * session's number into the list of changes and bumps gen_board.changes (gen_device_tell does both). It gives
 * a session a new word only when `seen` has the last one.
 */
struct gen_notice {
    uint32_t word;  /* generation << 2 | enum gen_session_state */
    uint32_t seen;  /* kernel: the last word that it has acted on, 0 at first */
    uint32_t slots; /* gen_args.slots at most */
    uint32_t ring;  /* events of each slot's ring in the client's memory */
    uint32_t event_rkey;
    uint32_t ask;   /* host: bumped to ask whether the client lives */
    uint32_t heard; /* kernel: the last `ask` that it has acted on */
    /* kernel: requests that came and events that left since the session was opened */
    uint32_t activity;
    uint64_t event_addr, event_stride; /* of slot 0; from one slot's ring to the next */
    uint32_t lost;                     /* kernel: the word of a session that it has broken with */
    uint32_t reserved[3];
};
static_assert(sizeof(struct gen_notice) == 64, "a notice is one cache line");

/* The kernel's own record of a session. The host fills the first part before the loop starts. */
struct gen_session {
    struct gw_qp_handle *qp;
    const uint8_t *in;     /* slot 0; the next one is gen_args.in_stride further */
    struct gen_event *out; /* gen_args.depth events that are under way */
    uint64_t out_addr;     /* of `out`, as the NIC names it */
    uint32_t out_lkey;

    uint32_t word; /* the notice's word that it has acted on */
    uint32_t open, slots, ring, event_rkey;
    uint64_t event_addr, event_stride;
    uint32_t heard, activity;
    uint32_t posted; /* events since it was opened */
    uint32_t unrung; /* 1: events were posted, and the doorbell was not yet rung for them */
    uint32_t acked;  /* how many of them the client's NIC has acknowledged, as far as completions have told */
    uint32_t jobs;   /* its first job + 1 */
    /* Slots whose request found no free job: they are told when there is room. */
    uint32_t full[GEN_MAX_SLOTS / 32], fulls;
    /* Jobs whose event waits for room in the send queue, in their order: first and last, + 1. */
    uint32_t first_held, last_held;
    /* Neighbours among the sessions that have such jobs, + 1; since when it makes no progress. */
    uint32_t stall_next, stall_prev;
    uint64_t stalled;
    /* What it was given so far, in tokens, by priority; the queue's. */
    uint64_t given[GEN_PRIORITIES + 1];
};

/* ---- what the host tells, and what the kernel reports ---- */

/* Words that are stored whole: the other side reads them at any time. */
struct gen_board {
    uint32_t changes; /* host: entries of the list of changes so far, modulo 2^32 */
    uint32_t taken;   /* kernel: how many of them it has read: their places are free again */
    uint32_t closing; /* host: 1: what waits and comes ends GEN_CLOSING; 2: what runs, too */
    uint32_t broken;  /* kernel: bumped when it has broken with a session, whose notice says so */
    struct gen_source_stats stats; /* kernel */
};

/* ---- requests ---- */

enum gen_job_state {
    GEN_JOB_FREE = 0,
    GEN_JOB_FRESH,   /* its tokens are not yet copied from the slot */
    GEN_JOB_WAITING, /* in the queue */
    GEN_JOB_HELD,    /* it would be in the queue, but an event of it must go first */
    GEN_JOB_RUNNING, /* in a lane */
    GEN_JOB_OVER,    /* its last event waits for room in the send queue */
};

/* One request. Its tokens are gen_args.token[job * context] and on: the prompt, then what was made. */
struct gen_job {
    uint32_t state;
    uint32_t session, slot;
    uint32_t lane;              /* RUNNING */
    uint64_t id;                /* the client's */
    uint64_t arrived, admitted; /* admitted: 0: not yet */
    uint64_t token_at;          /* when its last token was posted; at first when it arrived */
    uint64_t salt, seed, first_ns, each_ns;
    uint32_t prompt, made, max_tokens, min_tokens;
    uint32_t priority, flags, tops, stops, biases;
    float temperature, top_p, min_p, repetition, presence, frequency;
    uint32_t top_k;
    uint32_t stop[GEN_MAX_STOPS];
    uint32_t cached;               /* tokens of the prompt whose pages were there */
    uint32_t lacks;                /* pages that must be left before it gets a lane; 0: not known */
    uint32_t events;               /* that were posted */
    uint32_t order;                /* jobs before it, modulo 2^32 */
    uint32_t charged;              /* what its client was charged for it */
    uint64_t rank;                 /* the queue's order */
    uint32_t at;                   /* WAITING: its place in the heap */
    uint32_t next, prev;           /* neighbours in the session's list, + 1; FREE: the next free one */
    uint32_t held_next, held_prev; /* neighbours among the session's held jobs, + 1 */
    uint32_t held;                 /* 1: `event` waits for room in the send queue */
    uint32_t verdict;              /* the status that a watch has found for it, and `detail`; 0: none */
    uint32_t detail;
    uint32_t result;        /* of posting its event: enum gen_posted */
    struct gen_event event; /* the latest */
};

enum gen_posted { GEN_POSTED = 0, GEN_NO_ROOM, GEN_BROKEN };

/* What the queue sorts. */
struct gen_key {
    uint64_t rank, deadline;
    uint32_t order, job;
};

/* ---- lanes and pages ---- */

struct gen_lane {
    uint32_t job;      /* + 1; 0: free */
    uint32_t next;     /* free: the next free one, + 1 */
    uint32_t at;       /* its place among the running ones */
    uint32_t computed; /* tokens whose keys and values are in the cache */
    uint32_t pages;    /* in its row of the page table */
    uint32_t indexed;  /* pages that can be shared, the first ones; GEN_NO_LANE: none ever */
    uint32_t waits;    /* 1: another lane computes its next page */
    uint32_t counted;  /* tokens that its row of gen_args.count has; 0: that must be made */
    uint64_t ahead;    /* the hash of its next page, which is not in the index; 0: it will not be either */
};

/*
 * A page of the cache. It is held by lanes, or it is *kept*: no lane holds it, but its tokens may come again;
 * or it is free. Pages that can be found have the tokens that they hold, and the page before them. Both are
 * compared when a page is looked for: equal hashes alone mean nothing. A page is given away before the page
 * before it: so `before` never names a page that has become another one's.
 */
struct gen_page {
    uint32_t refs;
    uint32_t found;      /* 1: it is in the index */
    uint32_t before;     /* the page before it, + 1; 0: it is the first of a prompt */
    uint32_t chain;      /* the next one of its bucket, + 1; free: the next free one */
    uint32_t next, prev; /* kept: its neighbours, + 1, the one that was held last at the end */
    uint64_t hash;       /* of salt and all tokens up to its end */
    uint64_t salt;
    uint32_t token[GEN_PAGE];
};

/* What the sampling kernel has taken for a wanted row. */
struct gen_sample {
    uint32_t token;
    float logprob;
    uint32_t tops;
    uint32_t failed; /* 1: the logits are no numbers */
    struct gen_top top[GEN_MAX_TOPS];
};

/* ---- the scheduler's own ---- */

#define GEN_TAKE  64u /* requests whose tokens are copied at once */
#define GEN_WATCH 64u /* jobs besides those that run, which each turn looks at once more */

struct gen_work {
    uint32_t running;            /* lanes */
    uint32_t run[GEN_MAX_LANES]; /* which */
    /* Lanes of the step that has run, whose pages go into the index; whose events are not simply posted. */
    uint32_t fill[GEN_MAX_LANES], fills;
    uint32_t odd[GEN_MAX_LANES], odds;
    uint32_t shorts;                 /* lanes that need one token computed */
    uint32_t grows;                  /* 1: some lane needs a page */
    uint32_t outs;                   /* wanted rows of the step that runs */
    uint32_t out[GEN_MAX_LANES];     /* their lanes */
    uint32_t waiting;                /* keys in the heap */
    uint32_t free_job, fresh_jobs;   /* the first free one, + 1; how many were ever used */
    uint32_t free_lane, fresh_lanes; /* the same */
    uint32_t free_page, fresh_pages; /* the same */
    uint32_t held_pages;             /* by lanes; those that are neither held nor kept are free */
    uint32_t kept_pages, first_kept, last_kept;
    uint32_t take[GEN_TAKE], takes;       /* FRESH jobs */
    uint32_t order;                       /* jobs so far */
    uint32_t watch;                       /* where the next watch begins */
    uint32_t verdicts;                    /* 1: some job has one */
    uint32_t closing, changes;            /* as on the board, when it was last looked at */
    uint32_t first_stalled, last_stalled; /* sessions, + 1: the longest one first */
    uint32_t turn_first;                  /* lane that is served first where not all fit into a step */
    uint32_t leaves;                      /* 1: the loop ends with this turn */
    uint32_t idle;                        /* 1: there is nothing to compute: wait */
    uint64_t looked;                      /* when the board was last looked at */
    uint64_t launched;                    /* when the step began; 0: none runs */
    uint64_t step_ns;                     /* the shortest of the latest steps */
    uint64_t served[GEN_PRIORITIES + 1];  /* `given` of the session that was served last */
    struct gen_source_stats stats, told;  /* told: as they are on the board */
};

/* Everything that the scheduler's kernels get. */
struct gen_args {
    struct gw_loop_ctl *ctl;
    struct gw_cq_handle *cq;   /* of all sessions: receives and events */
    struct gen_board *board;   /* host memory */
    struct gen_notice *notice; /* host memory, one for each session */
    const uint32_t *change;    /* host memory, `change_mask + 1`: numbers of sessions */
    struct gen_session *session;
    struct gen_work *work;
    struct gen_job *job;
    struct gen_key *heap;      /* [requests] */
    uint32_t *token;           /* [requests][context] */
    struct gen_top *bias;      /* [requests][GEN_MAX_BIAS] */
    uint32_t *slot;            /* [sessions][slots]: the slot's job, + 1 */
    struct gen_lane *lane;     /* [lanes] */
    struct gen_page *page;     /* [pages]; fixed lanes: NULL */
    uint32_t *bucket;          /* [bucket_mask + 1]: pages, + 1 */
    uint32_t *count;           /* [lanes][vocab]: GEN_IN_PROMPT, and how often the answer has the token */
    struct gen_sample *sample; /* [lanes] */
    struct gen_step *step;     /* after the network was bound */
    float *logits;             /* [lanes][logit_stride]; the sampling kernel changes them */
    uint64_t in_stride;        /* gen_slot_stride(context) */
    uint64_t secret;           /* of the hash of pages: from getrandom */
    uint32_t logit_stride, vocab;
    uint32_t sessions, slots, depth, requests;
    uint32_t lanes, pages, lane_pages;
    uint32_t context; /* tokens of prompt and answer */
    uint32_t change_mask, bucket_mask;
    uint32_t size[GEN_NET_SIZES], sizes; /* numbers of rows of the variants, ascending */
    uint32_t mixed_rows;                 /* of a step in which some lane makes tokens, at most */
    uint32_t fixed;                      /* 1: lane i has pages i * lane_pages and on, and shares none */
    uint32_t picks;                      /* 1: size i is variant i + 1 of the loop */
    int32_t wake_fd; /* CPU: readable when the loop is to end or the board has changed; GPU: -1 */
};

#define GEN_IN_PROMPT 0x80000000u

/* From one slot to the next, in the generator's memory: a request with the most of everything. */
GW_FN uint64_t gen_slot_stride(uint32_t context)
{
    uint64_t bytes = sizeof(struct gen_request) + 4 * ((uint64_t)context + GEN_MAX_STOPS) +
                     sizeof(struct gen_top) * GEN_MAX_BIAS;
    return (bytes + 63) & ~(uint64_t)63;
}

#endif
