/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic: every kind of request over many queue pairs at once, with every byte checked.
 *
 * A plain verbs program, for any RDMA device. Two processes connect over TCP and then, round by round, make
 * queue pairs, send each other what their scripts say, take everything down again and start again. A script
 * is a pure function of a seed: request k of a link is the same for its sender and its receiver. So the
 * receiver knows length, contents and order of everything that comes, and need not be told.
 */
#ifndef GW_TESTS_TRAFFIC_H
#define GW_TESTS_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
    SLOTS = 6, /* places at the target that a link's WRITEs go to, in turn */
    SLOT_BYTES = 128 << 10,
    FIXED_BYTES = 256 << 10, /* what READs read: never changes */
    RECEIVES = 16,
    RECEIVE_BYTES = 32 << 10,
    GRH_BYTES = 40,
    WINDOW = 8, /* requests of a link under way */
    PIECES = 3,
    INLINE_BYTES = 60,
    QKEY = 0x11111111,
    LINK_BITS = 16, /* of a wr_id: which link */
};

/* ---- script.c ------------------------------------------------------------------------------------------ */

enum op_kind { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_ADD, OP_CAS, OP_KINDS };
extern const char *const op_names[OP_KINDS];

/* SRQ: RC that receives from a shared queue. XRC: a queue pair for each direction, all receive from one
 * queue. */
enum link_type { LINK_RC, LINK_SRQ, LINK_XRC, LINK_UC, LINK_UD, LINK_TYPES };
extern const char *const link_names[LINK_TYPES];

/* One direction of one link in one round. */
struct script {
    uint64_t seed;
    uint32_t round, link;
    bool from_server;
    enum link_type type;
    uint32_t mtu; /* bytes: the longest datagram */
};

struct op {
    enum op_kind kind;
    uint32_t len, imm;
    uint64_t offset; /* READ: where in the fixed bytes */
    uint64_t key;    /* of the contents; ADD: what is added; CAS: what is put there */
    unsigned pieces;
    bool inl, signaled, fence, solicited, miss; /* miss: a CAS that does not find what it compares with */
};

void op_make(const struct script *s, uint64_t k, struct op *op);
static inline bool op_uses_slot(const struct op *op)
{
    return op->kind == OP_WRITE || op->kind == OP_WRITE_IMM;
}
static inline bool op_is_received(const struct op *op)
{
    return op->kind == OP_SEND || op->kind == OP_SEND_IMM || op->kind == OP_WRITE_IMM;
}
static inline bool link_is_reliable(enum link_type t)
{
    return t != LINK_UC && t != LINK_UD;
}

uint64_t mix(uint64_t a, uint64_t b);

/* Bytes at … at + len of the endless sequence that belongs to a key. check: the first that differs, or -1. */
void pattern_fill(void *buf, size_t len, uint64_t key, uint64_t at);
int64_t pattern_check(const void *buf, size_t len, uint64_t key, uint64_t at);

/* ---- one side ------------------------------------------------------------------------------------------ */

struct options {
    const char *host; /* NULL: listen */
    int port;
    const char *device;
    int gid_index;
    bool no_fences; /* of this side's requests */
    struct plan {   /* the client's; the server is told */
        uint64_t seed;
        uint32_t links, types; /* types: a mask */
        uint32_t seconds, round_ms;
    } plan;
};

enum phase {
    PHASE_SERVE,
    PHASE_SEND,
    PHASE_CLOSE
}; /* answer the peer; send; send on until the last one is signaled */

/* The part of a link that the peer has to know. */
struct link_info {
    uint32_t qpn, psn, rkey, mtu;
    uint32_t receiver, xrc_srq; /* the queue pair that receives: XRC's is another one */
    uint64_t target;
    union ibv_gid gid;
};

/* The words at the target, for one link. */
struct target {
    uint8_t slot[SLOTS][SLOT_BYTES];
    uint8_t fixed[FIXED_BYTES];
    uint64_t add, cas;
    /* slots that were looked at, since the beginning: the peer READs it when it has none left */
    uint64_t freed;
};

struct pending {
    struct op op;
    uint64_t expect; /* ADD, CAS: what the word held before */
};

struct outgoing {
    struct script script;
    uint64_t next, done; /* requests: the next to be posted, the oldest not complete */
    uint64_t slots_used, slots_freed;
    uint64_t add, cas; /* what the peer's words hold after all that was posted */
    bool peeking;
    struct pending window[WINDOW];
    uint8_t (*buf)[SLOT_BYTES];
    uint64_t peek, results[WINDOW];
};

struct incoming {
    struct script script;
    uint64_t next; /* of an unreliable link: after the last one that came */
    uint64_t slots_seen, received;
    uint8_t (*buf)[GRH_BYTES + RECEIVE_BYTES];
};

struct link {
    uint32_t index;
    enum link_type type;
    struct ibv_qp *qp, *receiver; /* one and the same but for XRC */
    struct ibv_ah *ah;
    struct link_info mine, peer;
    struct target *target;
    struct outgoing out;
    struct incoming in;
};

/* Where every buffer of a link lies. */
struct area {
    struct target target;
    uint8_t out[WINDOW][SLOT_BYTES];
    uint64_t peek, results[WINDOW];
    uint8_t in[RECEIVES][GRH_BYTES + RECEIVE_BYTES];
};

struct side {
    struct options opt;
    bool server;
    int control;
    struct ibv_context *ctx;
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_xrcd *xrcd;
    struct ibv_srq *srq, *xrc_srq;
    struct ibv_mr *mr;
    struct area *areas;
    struct link *links;
    uint32_t round;
    bool events; /* this round waits for events instead of polling */
    uint64_t count[OP_KINDS], bytes, received, out_of_order, waits;
};

/* All return 0, or -1 after one line on stderr. */
int control_open(struct side *s);
int control_exchange(struct side *s, const void *mine, void *peers,
                     size_t bytes); /* serves the peer at the same time */
int device_open(struct side *s);
void device_close(struct side *s);
int round_begin(struct side *s);
int round_end(struct side *s); /* takes everything down */
int receive_post(struct side *s, struct link *l, unsigned slot);
int initiate(struct side *s, struct link *l, bool close,
             bool *did); /* posts what there is room for; close: up to a signaled one */
int finish_sends(struct side *s, bool *did);
int take_receives(struct side *s, bool *did);
int check_trailing(struct link *l, uint64_t end);    /* what no receive announced */
bool has_all_received(struct link *l, uint64_t end); /* what the peer's requests before `end` announce */
int progress(struct side *s, enum phase phase, bool *did);
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ms(void);

#endif
