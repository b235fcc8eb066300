/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h: four NICs, random queue pairs, random work, an unkind network, and a model that knows every byte.
 *
 * Each node has two copies of its memory: what is there (mem, which the NIC touches) and what should be there
 * once all work is done (exp). Posting applies a work request to exp at once, in program order; completions
 * compare. Slices of memory are handed out so that no two queue pairs ever use the same bytes, but for the
 * words that atomics share. After a slice was compared it may be overwritten in both copies: what touches it
 * later is executed twice.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "tests/sim/rig.h"

enum {
    SIM_OPS = 48, /* work requests of one queue pair */
    SIM_SGES = 6,
    SIM_WORDS = 3, /* of each node, shared by all atomics; they lie at the start of its memory */
    SIM_WORDS_BYTES = 64,
    SIM_COPIES = 4 << 20,
    SIM_RECVS = 32,
    SIM_LOOSE = 2,  /* ends of unreliable queue pairs: of each two one is the other's peer */
    SIM_GUESTS = 2, /* connections to shared receive queues */
    SIM_SRQS = 2,
    SIM_SRQ_WQES = 8,
    SIM_GUEST_SENDS = 20, /* requests of each at most, and one more */
};

struct slice {
    uint32_t off, len;
};

struct op {
    uint8_t opcode, flags;
    bool signaled, inl, fence;
    bool flushed; /* came back undone, or so it says */
    bool fresh;   /* remote is not used yet */
    uint16_t index, wqebbs;
    uint32_t len;
    uint32_t imm_be;
    struct slice local[SIM_SGES];
    uint32_t locals;
    struct slice remote;
    bool superseded;              /* a later WRITE of the same queue pair goes to the same place */
    bool keep_local, keep_remote; /* used by a later one: not to be scribbled on */
    int message;                  /* its number among those that take a receive, or -1 */
    const uint8_t *copy;          /* of a SEND's payload */
    /* atomics */
    uint32_t word;
    uint64_t operand, compare, swap_mask, compare_mask, orig;
    uint64_t posted, completed; /* steps of the simulation */
    uint64_t before;            /* a hash of remote, while its doorbell is held back */
};

struct end {
    struct rig_qp q;
    uint32_t index, peer; /* peer: another end, or this one */
    bool sig_all, scatters;
    uint32_t max_bb, sig_cap, sig_out;
    uint32_t kinds; /* which of the kinds of work it does: a mask */
    uint32_t max_len;

    struct op ops[SIM_OPS];
    uint32_t goal, posted, retired;
    uint32_t rung;       /* ops that the doorbell was rung for */
    uint32_t seen;       /* ops whose WRITE the peer has verified */
    uint32_t sq_used;    /* WQEBBs */
    uint64_t hold_until; /* the doorbell is held back until then; 0: not */
    bool may_hold;
    uint32_t messages; /* sent */
    uint16_t message_op[SIM_OPS];

    uint32_t recv_cap, recv_max_sge, recv_len, recv_posted, recv_done, recv_ahead;
    uint32_t slot_off, slot_len;
    struct {
        struct slice sge[SIM_SGES];
        uint32_t sges;
    } slot[SIM_RECVS];

    struct rig_link link;
    bool broken, flushing;
    uint64_t break_at, err_at; /* when the connection breaks; when this end goes to ERR; 0: no more */

    int last_write, last_read; /* ops whose slices may be used again, or -1 */
    uint64_t next;             /* when the application does something */
    uint32_t idle;             /* turns in which there was nothing to do */
};

enum cq_mode { CQ_POLLED, CQ_EVENTS, CQ_MIXED };

struct simcq {
    struct rig_cq c;
    enum cq_mode mode;
    uint64_t next;
    uint32_t arms, events, idle;
};

/* One end of a UC connection, or of two UD queue pairs. */
struct loose {
    struct rig_qp q;
    struct rig_cq cq;
    struct sn_mr *mr;
    enum ibv_qp_type type;
    uint32_t index, goal, sent, completed, posted, received, idle;
    uint64_t next;
};

/* A guest's message to a shared receive queue. */
struct sim_message {
    uint32_t number, len, imm_be;
    uint8_t opcode;
    bool ends; /* it says that the window was written to */
};

enum sim_window_state {
    SIM_WINDOW_FREE,
    SIM_WINDOW_BINDING,
    SIM_WINDOW_OPEN,
    SIM_WINDOW_WRITTEN, /* or about to be */
    SIM_WINDOW_USED,    /* still bound */
    SIM_WINDOW_CLOSING,
};

/* A part of the host's memory that a guest may write to for a while. */
struct sim_window {
    struct rig_cq cq; /* of the binds */
    struct sn_mr *mr, *mw;
    enum sim_window_state state;
    bool type2;
    uint32_t key, off, len, number;
    uint64_t start;
};

struct sim_guest {
    struct rig_qp from, to;
    struct rig_cq cq; /* of what it sends */
    struct sn_mr *mr;
    struct sim_window window; /* RC */
    uint32_t index, goal, posted, completed;
    struct sim_message message[SIM_SRQS][SIM_GUEST_SENDS + 1];
    uint32_t sent[SIM_SRQS], received[SIM_SRQS];
};

struct sim_srq {
    struct sn_srq *srq;
    struct sn_mr *mr;
    struct rig_cq cq;
    uint32_t record[2] __attribute__((aligned(8)));
    uint32_t index, head, tail, posted, limit;
    uint32_t addressed; /* messages that were sent to it */
    bool is_posted[SIM_SRQ_WQES];
    uint32_t back[SIM_SRQ_WQES], backs; /* entries that completed and are not linked again */
};

struct sim_host {
    struct rig_node *node;
    struct sn_xrcd *xrcd; /* NULL: RC */
    uint32_t guests, srqs, idle;
    struct sim_guest guest[SIM_GUESTS];
    struct sim_srq srq[SIM_SRQS];
    uint64_t next;
};

struct sim {
    struct rig rig;
    uint64_t seed, step;
    uint32_t ends, cqs;
    struct end end[RIG_QPS];
    struct simcq cq[RIG_CQS];
    uint32_t looses, loose_done, loose_lost;
    struct loose loose[SIM_LOOSE];
    struct sim_host host;
    uint32_t guests_done, windows_done, limits_seen;
    uint32_t used[NET_NODES]; /* of the arena */
    uint32_t copies;
    uint64_t word_start[NET_NODES][SIM_WORDS];
    bool word_unknown[NET_NODES][SIM_WORDS];
    uint64_t think; /* ns between what an application does, at most */
    uint32_t ops_done, messages_done, atomics_done, events_seen, holds, breaks, flushed;
    bool draining;
};

extern uint8_t sim_exp[NET_NODES][RIG_ARENA];
extern uint8_t sim_copy[SIM_COPIES];

static inline uint8_t *sim_mem(struct sim *s, const struct end *e, uint32_t off)
{
    return s->rig.node[e->q.node->index].mem + off;
}
static inline uint8_t *sim_want(const struct end *e, uint32_t off)
{
    return sim_exp[e->q.node->index] + off;
}
static inline struct end *sim_peer(struct sim *s, const struct end *e)
{
    return &s->end[e->peer];
}

/* A turn from now; later, the longer there has been nothing to do. */
uint64_t sim_next_turn(struct sim *s, uint32_t *idle, bool did);

/* world.c */
bool sim_build(struct sim *s, uint64_t seed);
void sim_tear_down(struct sim *s);
bool sim_alloc(struct sim *s, uint32_t node, uint32_t len, uint32_t align, uint32_t *off);

/* post.c */
void sim_app(struct sim *s, struct end *e); /* one turn of the application that owns the queue pair */
/* In ERR: something that comes back as flushed once everything before it is done, if nothing else would tell.
 */
void sim_post_marker(struct sim *s, struct end *e);
bool sim_all_posted(const struct sim *s);

/* check.c */
void sim_poll(struct sim *s, struct simcq *cq);
void sim_scribble(struct sim *s, const struct end *e, struct slice at);
void sim_retire(struct sim *s, struct end *e, struct op *op); /* it is done: compares its memory */
uint64_t sim_hash(const uint8_t *p, uint32_t n);
void sim_check_end(struct sim *s); /* when all is done */

/* break.c */
bool sim_broken(struct sim *s, struct end *e); /* breaks and mends when it is time; true while it is broken */
void sim_flushed(struct sim *s, struct end *e, const struct gw_mlx5_wc *wc);

/* loose.c */
bool sim_loose_build(struct sim *s);
void sim_loose_tear_down(struct sim *s);
void sim_loose_turn(struct sim *s, struct loose *l);
bool sim_loose_done(const struct sim *s); /* nothing more will be sent */

/* guests.c */
bool sim_guests_build(struct sim *s, uint8_t timeout);
void sim_guests_tear_down(struct sim *s);
void sim_guests_turn(struct sim *s);
bool sim_guests_done(const struct sim *s);
void sim_guests_check_end(struct sim *s);

/* main.c */
void sim_say(const struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
