/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: the objects behind nic.h. Everything here is under the NIC's lock unless it says otherwise.
 *
 * The parts, each a file with its functions declared below: doorbell.c takes rings; sq.c turns WQEBBs into
 * send requests; requester.c makes packets of them, ack.c takes the answers; responder.c takes requests
 * (its parts: responder.h), respond.c answers them; direct.c (with direct_batch.c, direct_end.c and direct_tell.c),
 * placed.c and offer.c do without packets what peers on the same host allow, self.c tells them so of the NIC's own queue
 * pairs; unreliable.c and ud.c are what is different where nobody answers; rq.c, cq.c and cq_late.c are the
 * queues at the other end; packet.c is what all packets have in common.
 */
#ifndef SN_ENGINE_ENGINE_H
#define SN_ENGINE_ENGINE_H

#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

#include "softnic/engine/list.h"
#include "softnic/frame.h"
#include "softnic/gid.h"
#include "softnic/nic.h"
#include "softnic/see.h"
#include "src/mlx5/wqe.h"
#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "src/roce/segment.h"

enum {
    SN_TX_COMPANY = 30, /* packets worth a system call while earlier ones are under way */
    SN_RX_BATCH = 32,   /* frames asked from the wire at once */
    /* Packets a QP may send before it is the next one's turn: of the longest, as many as leave as one
       message. */
    SN_QUANTUM = 15,
    SN_SQ_WINDOW = 128,    /* send requests of a QP that were read and are not complete */
    SN_SQ_ARENA = 16384,   /* bytes of private copies of their WQEs */
    SN_SQ_ROOMS = 256,     /* kept for QPs that become busy; 27 KB each */
    SN_LATE_CQES = 256,    /* hostile mode: completions held back */
    SN_PLACE_PIECES = 128, /* hostile mode: pieces of payload held back, of all QPs */
    SN_PLACE_BYTES = 65536,
    SN_REPORTS = 4,                   /* lines about one object at most */
    SN_INLINE_ROOM = 64,              /* bytes that scatter-to-CQE can carry */
    SN_DIRECT_ITEMS = SN_PEER_PIECES, /* requests in one copy between processes */
    SN_BATCHES_AHEAD = 3,             /* such copies under way at once, where they can be */
    SN_DIRECT_HERE = 512,             /* and pieces of this process's memory */
};

/* Nobody rang: doorbells have a ds of at most 63, and no QP has number 0xffffff. */
#define SN_NOT_RUNG UINT64_MAX

/* ---- objects ------------------------------------------------------------------------------------------- */

/* Who rings a register, with what a look at its record needs: there may be thousands to a register. */
struct sn_ringer {
    const uint32_t *record;
    struct sn_qp *qp;
    uint16_t pi; /* qp->sq_pi */
};

struct sn_register {
    struct sn_ringer *ringers;
    uint32_t count, room;
    bool rung; /* since all of them were looked at: rings may have been hidden */
    uint64_t swept_at;
};

struct sn_uar {
    struct sn_nic *nic;
    struct sn_link link;     /* nic->uars, while a QP or CQ uses it */
    struct sn_link qps, cqs; /* its users */
    struct sn_link news;     /* those CQs that have completions of which no event told */
    uint32_t arms;           /* rings of the register that arms */
    struct sn_register registers[SN_UAR_BF_COUNT];
    uint64_t *page;
    unsigned reports;
};

struct sn_pd {
    struct sn_nic *nic;
    uint32_t users;
    uint32_t number; /* what peers on this host know it by */
};

struct sn_xrcd {
    struct sn_nic *nic;
    uint32_t users;
};

/* A region or, with `window` set, a window: bound, that is the part of a region by another key. */
struct sn_mr {
    struct sn_pd *pd;
    struct sn_mr_init init; /* of a window that is not bound: nothing */
    uint32_t key;
    uint32_t window; /* 0, or enum ibv_mw_type */
    uint32_t qpn;    /* type 2: the QP whose peer may use it */
    bool changed;    /* it has been other memory by the same key */
    struct sn_mr *base;
    struct sn_link windows; /* a region's; a window's place there */
    struct sn_link of_qp;   /* type 2, bound: its place among that QP's */
};

/* Keys are an index into the table of regions and so many random bits. */
enum { SN_KEY_SHIFT = 12, SN_MRS_GONE = 64, SN_WHY = 160 };

/* A region that was deregistered: remembered to explain accesses that come too late. */
struct sn_mr_gone {
    uint32_t key;
    uint64_t iova, length;
};

enum sn_arm { SN_DISARMED, SN_ARM_SOLICITED, SN_ARM_NEXT };

struct sn_cq {
    struct sn_nic *nic;
    struct sn_cq_init init;
    struct sn_link uar_link, news_link;
    uint32_t number;
    uint32_t users;
    uint32_t pi; /* completions written, free-running */
    /* Completions written since the last event, and from the last solicited one or error on, it included. */
    uint32_t since_event, solicited_age;
    bool has_solicited;
    uint32_t resized_ci, resizings; /* the record's index when it was last read; resizings since it changed */
    bool dead;                      /* overrun: nothing is written any more */
    enum sn_arm armed;
    uint32_t arm_seen; /* the record's arm word when it was last looked at, */
    uint32_t arms;     /* which was after so many arms of its page */
    uint32_t events;   /* given; its lower two bits are the sequence number that an arm must carry */
    unsigned reports;
};

struct sn_srq {
    struct sn_nic *nic;
    struct sn_srq_init init;
    uint32_t number;
    uint32_t users;
    uint32_t limit;
    uint16_t head;  /* entry that is taken next */
    uint16_t taken; /* entries taken so far, mod 2^16, as the record counts */
    bool dead;      /* its list is broken: nothing is taken any more */
};

/* A position in a work request's list of memory pieces, remembered so that the next packet need not search.
 */
struct sn_cursor {
    uint32_t offset; /* in the message; of the position */
    uint32_t unit;   /* what comes after piece */
    uint32_t used;   /* bytes of piece before the position */
    struct gw_mlx5_piece piece;
};

/* A send request: a WQE that was read. */
struct sn_sreq {
    struct gw_mlx5_wqe *wqe; /* in the arena, as far as gw_mlx5_wqe_size */
    uint32_t arena_bytes;    /* that are free again once it is complete */
    uint16_t index, wqebbs;  /* its place in the queue */
    uint32_t psn, packets;   /* PSNs that it takes; none for a NOP */
    uint64_t request;        /* names it to DMA functions */
    uint8_t error;           /* enum gw_mlx5_syndrome: fails when everything before it is complete */
    bool copying;            /* in a batch of direct accesses, gathered or under way */
    bool executed;           /* a UMR: its bind was made */
    bool by_packets;         /* direct access to its memory failed, or its offer was refused */
    bool offered;            /* some of it; or it was sent as placed */
    bool placed;             /* its bytes are where they belong: what is sent says so */
    uint32_t copied;         /* bytes that direct accesses have moved so far */
    bool looped;             /* UC, UD: which ring its last frame stands in, */
    uint32_t tx_end;         /* and the ring's position behind that */
    struct sn_cursor cursor; /* of the sender, or for READs the receiver */
};

/* A READ request packet or atomic that was sent and is not answered: PSNs start … end - 1. */
struct sn_read {
    uint32_t start, end;
};

struct sn_requester {
    struct sn_sreq
        *ring; /* SN_SQ_WINDOW of them; with the arena, NULL while nothing was read: see sn_sq_rest */
    uint8_t *arena;
    uint32_t arena_head, arena_used;
    uint32_t una, cur, end; /* free-running: oldest not complete, being sent, behind the last that was read */
    uint32_t cur_packet;    /* packets of request cur that were made on this pass */
    uint32_t una_psn;       /* oldest not acknowledged */
    uint32_t max_psn;       /* behind the newest that was ever sent */
    uint32_t tail_psn;      /* of the next WQE that is read */
    struct sn_read reads[SN_MAX_RD_ATOMIC];
    uint32_t read_head, read_tail; /* free-running */
    uint32_t window, window_max, window_grow;
    bool no_loss;     /* so far: the window doubles with each round trip */
    bool window_full; /* and waits until there is room for some packets at once */
    uint32_t since_ackreq;
    uint32_t offer_skip, placed_skip; /* messages that are not offered, or placed, because one was refused */
    uint32_t other_end;  /* behind the newest request that changes bytes when it is executed: placed.c */
    /* Its requests in batches of direct accesses, and those of them to be placed; none of them stands before this one. */
    uint32_t batched, batched_placed, batched_from;
    uint8_t retries, naks, rnr_retries;
    bool asked; /* went back to una_psn, because of an answer, already */
    bool rnr_wait;
    uint64_t deadline; /* of the ACK timer or RNR wait; SN_NEVER: none */
    uint64_t give_up; /* when the time that the program set is over; deadline may come earlier, for a probe */
    /* How long answers take (as TCP reckons it, RFC 6298): one packet at a time is timed, none that was
     * repeated. */
    uint64_t srtt, rttvar, timed_at;
    uint32_t timed_psn;
    bool timing;
    uint8_t probes; /* since there was progress */
    bool probing;   /* the oldest packet was repeated alone; before that the next one to be sent was */
    uint32_t probed, probed_packet; /* this request's, and of it this */
    uint8_t scatter[SN_INLINE_ROOM];
};

/* What a send queue needs while requests of it are under way. Idle ones have none: there may be thousands. */
struct sn_sq_room {
    struct sn_sreq ring[SN_SQ_WINDOW];
    uint8_t arena[SN_SQ_ARENA] __attribute__((aligned(64)));
    struct sn_sq_room *next;
};

enum sn_slot_kind { SN_SLOT_FREE, SN_SLOT_READ, SN_SLOT_ATOMIC };

/* A READ or atomic that was accepted; kept for repetition until the slot is needed again. */
struct sn_slot_rd {
    enum sn_slot_kind kind;
    bool pending;          /* has to be answered, from packet next on */
    bool answered;         /* was, to its end; pending again means that the peer asked again */
    uint32_t psn, packets; /* of the whole */
    uint32_t first;        /* where this answer begins (a repeated READ may begin later): packets from psn */
    uint32_t next;         /* packets from psn */
    uint32_t count;        /* where it ends: packets from psn */
    uint32_t len;          /* bytes of this answer, from packet first on */
    uint64_t va;           /* of packet first */
    uint32_t srqn;         /* XRC: whose rights count */
    uint32_t rkey;
    uint64_t orig; /* atomics: what was there before */
    uint64_t request;
};

enum sn_message { SN_MSG_NONE, SN_MSG_SEND, SN_MSG_WRITE };

struct sn_responder {
    uint32_t epsn; /* next PSN expected */
    uint32_t msn;
    enum sn_message message; /* one that began and has not ended */
    bool silent;             /* a NAK for epsn is on its way: whatever comes until epsn is dropped */
    bool fatal;              /* the NAK ends the connection */
    bool established;        /* an event told that a packet came before RTS */
    bool ack_pending, nak_pending;
    uint8_t nak; /* its syndrome */
    uint32_t ack_psn, nak_psn;
    uint32_t
        plain_psn; /* of the last SEND or WRITE packet that was executed; before the first one: of none */
    uint32_t changed_psn; /* of the last packet whose execution changed bytes, about: placed.c */
    enum ibv_event_type fatal_event;
    /* WRITE under way */
    uint64_t va;
    uint32_t rkey, left;
    /* SEND under way */
    struct sn_srq *srq; /* XRC: whose the message is. NULL: none since the queue went */
    bool has_wqe;
    uint16_t entry;    /* of a shared receive queue: which WQE it is */
    uint32_t received; /* bytes */
    struct gw_mlx5_rwqe wqe;
    struct sn_cursor cursor;
    bool has_slots; /* a READ or atomic was ever accepted */
    struct sn_slot_rd slots[SN_MAX_RD_ATOMIC];
    uint32_t slot_head; /* free-running: the next READ or atomic takes slots[slot_head % SN_MAX_RD_ATOMIC] */
};

/* Where frames go: RC and UC queue pairs have one peer, each UD request its own. */
struct sn_route {
    uint8_t gid[16];
    uint32_t qpn;
    bool loop; /* a QP of this NIC */
    struct roce_path path;
    uint32_t icrc_len, icrc_start; /* roce_icrc_start of the last length of a frame; 0: of none yet */
};

enum { SN_DIRTY_MRS = 4 };

/* Congestion control, both sides of it: transport/rate.c. Times are NIC times. */
struct sn_rate {
    uint64_t bytes_per_s; /* at which the queue pair may send; 0: no limit */
    uint64_t target;      /* the rate it goes back to */
    uint32_t alpha;       /* how congested its path was lately: 0 … 1 << 16 */
    uint32_t rounds;      /* half-way steps since the last cut */
    uint64_t cut_at, period_at;
    uint64_t ready_at; /* its next packet may leave */
    uint64_t wake_at;  /* it waits for that; SN_NEVER: it does not */
    bool told, tell;   /* the peer was sent a notification, at told_at; it is to be sent one */
    uint64_t told_at;
};

struct sn_qp {
    struct sn_nic *nic;
    struct sn_qp_init init;
    uint32_t number;
    enum ibv_qp_state state;
    struct ibv_qp_attr attr; /* as last modified */
    bool sqd_notify;
    bool ringable;

    struct sn_link all_link, run_link, behind_link, err_link, uar_link;
    struct sn_link windows; /* of type 2, bound by it */
    uint32_t ringer;        /* 1 + place among those of its register; 0: it has no send queue */
    uint32_t heap_at;       /* 1 + place in nic->heap; 0: not there */
    uint64_t heap_time;

    uint8_t service; /* upper bits of its packets' opcodes: ROCE_RC, _UC, _UD, _XRC */
    uint32_t mtu;
    struct sn_route peer; /* RC, UC */
    bool told;            /* peers on this host know that it takes requests */
    bool parked;          /* whom it would send to has no room: it is in nic->parked */
    bool behind;          /* found no room in a batch of direct accesses in its last turn: it is in nic->behind */

    /* Send queue, WQEBB counters mod 2^16. */
    uint16_t sq_pi;   /* rung */
    uint16_t sq_left; /* what its record said when it was reset: libmlx5 clears it only behind that */
    uint16_t sq_next; /* next to be read */
    uint16_t sq_ci;   /* oldest not complete */
    uint16_t rq_ci;   /* next receive WQE to be used */
    bool rq_bad;      /* the record runs past the queue: reported */
    bool missing_told;
    bool last_wqe_told; /* in ERR: that it takes no more from its shared receive queue */
    int ahead_before;   /* sn_record_ahead when the records were last watched */

    struct sn_requester req;
    struct sn_responder resp;
    struct sn_rate rate;

    struct sn_mr *dirty[SN_DIRTY_MRS]; /* written to since their last flush */
    unsigned dirty_count;
    unsigned held; /* pieces of payload held back (hostile) */
    int place_error;

    /* For whoever looks in (see.h). */
    struct sn_qp_counters count;
    uint8_t syndrome; /* of the first error completion */
    char *line;       /* the last report, SN_SEE_LINE bytes; NULL: none */
    unsigned reports;
};

/* ---- the NIC ------------------------------------------------------------------------------------------- */

struct sn_ring {
    struct sn_frame frames[SN_TX_FRAMES];
    struct sn_qp *unused;
    uint8_t (*data)[SN_FRAME_MAX];
    uint32_t head, tail; /* free-running */
};

struct sn_late_cqe {
    struct sn_cq *cq;
    struct sn_qp *qp; /* NULL: dropped */
    struct gw_mlx5_wc wc;
    uint64_t due;
    uint8_t scatter[SN_INLINE_ROOM];
    uint32_t scatter_len;
};

struct sn_piece_held {
    struct sn_qp *qp;
    const struct sn_pd *pd; /* the region's */
    uint32_t key;
    uint64_t va;
    uint32_t len, at;
};

/* Whose answers say what can be done without packets: processes', or for queue pairs of one NIC its own. */
struct sn_near {
    const struct sn_peer_ops *ops; /* NULL: nothing */
    void *ctx;
};

/* What an offer's payload is a list of, in the byte order of the one host: pieces of the sender's memory as
 * its own work request names them. Not of length 0. */
enum { SN_OFFER_PIECES = 32, SN_OFFER_CHUNK = 256 << 10 };
_Static_assert((int)SN_OFFER_PIECES <= (int)SN_PEER_PIECES, "they are copied at once");
struct sn_offer_piece {
    uint64_t va;
    uint32_t length, lkey;
};
struct sn_offer {
    unsigned n;
    uint32_t length; /* of all */
    struct sn_offer_piece piece[SN_OFFER_PIECES];
};

/* Of messages that are one frame instead of their packets, offered or placed. */
enum {
    SN_OFFER_WINDOW = 4 * SN_OFFER_CHUNK, /* their bytes, of a queue pair, that are not acknowledged */
    SN_OFFER_SKIP = 64,                   /* so many go as packets once one of that kind was refused */
};

/* What a request packet carries: bytes, the offer of so many, or nothing, as so many are in their place. */
struct sn_body {
    const uint8_t *bytes;
    const struct sn_offer *offer; /* or NULL */
    bool placed;
    uint32_t base; /* of what was placed: its bytes are newer than those of requests before this PSN */
    uint32_t length;
};

/* Requests that are made with one copy. */
struct sn_batch {
    struct sn_direct_item {
        struct sn_qp *qp;
        uint32_t at; /* in qp->req.ring, free-running */
        uint32_t bytes;
        bool placed;
    } item[SN_DIRECT_ITEMS];
    unsigned items;
    uint32_t bytes;
    int64_t copied; /* once it is under way: so many bytes will be, or a negative errno */
    struct sn_copying copy;
};

/*
 * Direct accesses to one peer's memory, all in one direction: a batch that gathers, and those before it, which are under
 * way and end one after the other. None of it is left whenever the lock is free.
 */
enum { SN_BATCHES = SN_BATCHES_AHEAD + 2 }; /* sn_direct_settle puts the open one on its way besides */
struct sn_direct {
    struct sn_near near;
    struct sn_peer *peer; /* NULL: there are none */
    bool write;
    uint32_t first, open; /* free-running: the oldest under way; the one that gathers */
    struct sn_batch batch[SN_BATCHES];
    const void *line; /* of those under way: struct sn_dma_ops */
    uint32_t joined;  /* free-running: requests */
    /* Of the one that gathers. */
    bool other_kind; /* what was to join it lies in memory that is reached in another way */
    struct sn_reach by_here, by_there;
    unsigned here_count, there_count;
    struct iovec here[SN_DIRECT_HERE], there[SN_DIRECT_ITEMS];
};

struct sn_nic {
    struct sn_nic_config cfg;
    pthread_mutex_t lock;
    int running, again; /* atomic, see sn_nic_progress */
    uint64_t now;
    uint64_t rnd;
    uint64_t requests; /* numbers given to DMA requests so far */
    unsigned objects;
    unsigned ringable; /* atomic */
    uint64_t activity; /* atomic */

    struct sn_qp **qps; /* by the lower 16 bits of their numbers */
    struct sn_link all_qps, run, errs;
    struct sn_link parked; /* by run_link: those that have work, and wait for room at the other end */
    struct sn_link behind; /* those for whose direct accesses there was no room: woken in their order, by batches that end */
    unsigned qp_count;
    struct sn_cq **cqs;
    unsigned cq_count, cq_hint;
    struct sn_srq **srqs; /* by the lower 16 bits of their numbers */
    unsigned srq_count;
    struct sn_mr **mrs;
    uint32_t mr_room, mr_count, mr_hint;
    uint64_t mr_bytes;
    struct sn_mr_gone gone[SN_MRS_GONE];
    unsigned gone_next;
    unsigned pd_count, uar_count;
    struct sn_link uars;

    struct sn_qp **heap;
    uint32_t heap_len, heap_room;

    struct sn_ring tx, loop;
    bool tx_blocked, wire_dry;
    bool tx_urgent; /* something waits in tx that no answer to an earlier packet will push out */
    uint64_t watched_at;
    uint64_t sweep_at; /* when a register that was rung is to be swept; 0: none was */
    unsigned budget;
    struct sn_sq_room *rooms; /* free ones */
    unsigned room_count;

    /* hostile mode */
    struct sn_late_cqe *late;
    uint32_t late_head, late_tail;
    struct sn_piece_held *held;
    uint8_t *held_bytes;
    unsigned held_count;
    uint32_t held_used;

    struct sn_direct direct;
    uint32_t pd_numbers; /* given so far */

    struct gw_mlx5_wqe scratch; /* where a WQE is parsed */
    struct sn_counters count;
};

/* Counters are read by other threads while the engine counts; each is single, they are no snapshot. */
static inline void sn_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* nic.c */
uint64_t sn_random(struct sn_nic *nic);
static inline uint32_t sn_random_below(struct sn_nic *nic, uint32_t n)
{
    return (uint32_t)((sn_random(nic) >> 32) * n >> 32);
}
void sn_activity(struct sn_nic *nic);

/* report.c: one line to the user. sn_report_qp says so much per QP and then nothing more; `reports` counts
 * for other objects, and sn_report_due says whether one more line is to be said. */
void sn_report(struct sn_nic *nic, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sn_report_qp(struct sn_qp *qp, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sn_report_due(const struct sn_nic *nic, unsigned *reports);

/* doorbell.c */
void sn_doorbells(struct sn_nic *nic);
void sn_sq_settle(struct sn_qp *qp); /* a ring of this queue pair's, if there is one, is seen now */
int sn_record_ahead(struct sn_qp *qp); /* the send record, if it is ahead of the last ring; else -1 */
void sn_report_missing_ring(struct sn_qp *qp);
void sn_watch_records(struct sn_nic *nic);
void sn_uar_attach(struct sn_uar *uar, struct sn_link *list, struct sn_link *user);
void sn_uar_detach(struct sn_uar *uar, struct sn_link *user);
int sn_ringer_add(struct sn_qp *qp); /* 0 or -ENOMEM */
void sn_ringer_del(struct sn_qp *qp);
void sn_ringer_at(struct sn_qp *qp, uint16_t pi); /* so far was rung */

/* qp.c, qp_state.c */
struct sn_qp *sn_qp_find(struct sn_nic *nic, uint32_t qpn);
void sn_qp_wake(struct sn_qp *qp); /* it may have something to do */
void sn_qp_set_state(struct sn_qp *qp, enum ibv_qp_state state);
void sn_qp_error(struct sn_qp *qp);      /* to ERR; everything posted will be flushed */
void sn_qp_send_error(struct sn_qp *qp); /* a send request failed: to ERR, or to SQE where nobody answers */
void sn_qp_fatal(struct sn_qp *qp);      /* to ERR, and an event says so */
void sn_qp_forget(struct sn_qp *qp);     /* as created */
bool sn_qp_flush_step(struct sn_qp *qp); /* in ERR: flushes one. false: nothing left */

/* sq.c */
void sn_sq_look(struct sn_qp *qp);  /* after a ring: reads the record */
void sn_sq_leave(struct sn_qp *qp); /* before it is reset */
bool sn_sq_fetch(struct sn_qp *qp); /* reads the next WQE into the ring. false: there is none, or no room */
bool sn_sq_complete(struct sn_qp *qp); /* completes what is acknowledged. false: the QP is no longer alive */
void sn_sq_fail(struct sn_qp *qp, uint8_t syndrome,
                uint8_t vendor); /* fails the oldest, and with it the QP */
bool sn_sq_flush_one(struct sn_qp *qp);
void sn_sq_rest(struct sn_qp *qp); /* gives the ring and arena back if nothing is under way; often called */
void sn_sq_free_rooms(struct sn_nic *nic);

/* rq.c */
int sn_rq_fetch(
    struct sn_qp *qp); /* 1: resp.wqe is the next; 0: none; negative: it, or the record, is wrong */
int sn_rq_complete(struct sn_qp *qp, struct gw_mlx5_wc *wc, const void *scatter, uint32_t len);
void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome);
bool sn_rq_flush_one(struct sn_qp *qp);
bool sn_rq_waiting(struct sn_qp *qp); /* are there receive WQEs */

/* Where a QP's receives come from, if not from a queue of its own: XRC's change from message to message. */
static inline struct sn_srq *sn_rq_shared(const struct sn_qp *qp)
{
    return qp->init.xrcd ? qp->resp.srq : qp->init.srq;
}

/* srq.c: takes the next WQE for a QP, as sn_rq_fetch. */
int sn_srq_take(struct sn_srq *srq, struct sn_qp *qp);
/* The XRC queue of that number that a QP of this domain may take from, or NULL. */
struct sn_srq *sn_srq_find(struct sn_nic *nic, const struct sn_xrcd *xrcd, uint32_t number);
/* Whose regions a peer may name: the QP's, or with XRC those of the queue that the packet is for. NULL:
 * nobody's. */
const struct sn_pd *sn_resp_pd(const struct sn_qp *qp, uint32_t srqn);

/* cq.c: 0, or -EOVERFLOW: the CQ is dead, and the QP has been put into ERR. scatter: payload for the CQE. */
int sn_cq_post(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
               uint32_t len);
int sn_cq_post_now(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
                   uint32_t len); /* also in hostile mode */
void sn_cq_armed(struct sn_uar *uar, struct sn_cq *cq); /* after a ring for this one */
struct sn_cq *sn_cq_find(struct sn_nic *nic, uint32_t number);

/* cq_late.c: those that hostile mode holds back. */
void sn_cq_release_late(struct sn_nic *nic, bool all);
void sn_cq_drop_late(struct sn_qp *qp); /* those of a QP with an SRQ are written, as they give WQEs back */
void sn_cq_drop_late_uidx(struct sn_cq *cq, uint32_t uidx); /* receives of an XRC queue */

/* mem/mr.c: the region by which a QP of pd may access len > 0 bytes at va, or NULL. */
struct sn_mr *sn_mr_find(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len);
struct sn_mr *sn_mr_check(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                          uint32_t access);
/* The same for a peer of this QP: rights may be for one QP alone. */
struct sn_mr *sn_mr_remote(struct sn_qp *qp, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                           uint32_t access);
int sn_mr_add(struct sn_pd *pd, struct sn_mr *mr); /* gives it a key. Takes the lock */
/* May its bytes be copied without packets, and how are they reached? mr NULL: inline data. */
bool sn_mr_copies(const struct sn_mr *mr);
bool sn_mr_told(const struct sn_mr *mr); /* can other processes know it? */
const struct sn_gpu_share *sn_mr_share(const struct sn_mr *mr);
struct sn_reach sn_mr_reach(const struct sn_mr *mr);
static inline bool sn_same_reach(struct sn_reach a, struct sn_reach b)
{
    return a.dma == b.dma && a.ctx == b.ctx;
}
int sn_mr_read(struct sn_mr *mr, uint64_t va, void *dst, uint32_t len, uint64_t ahead, uint64_t request);
int sn_mr_write(struct sn_mr *mr, uint64_t va, const void *src, uint32_t len);

/* mem/window.c: what a UMR or a SEND with invalidate does; NULL, or what is wrong with it, and nothing
 * happens. */
const char *sn_window_bind(struct sn_qp *qp, const struct gw_mlx5_bind *bind);
const char *sn_window_invalidate(struct sn_qp *qp, const struct sn_pd *pd, uint32_t rkey);
void sn_window_unbind_all(struct sn_mr *mr); /* those of a region, or the window itself */
void sn_window_unbind_qp(struct sn_qp *qp);  /* those that it has bound for its peer */

/* mem/why.c: why sn_mr_check said no, or would. Returns why. */
const char *sn_mr_why(const struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va,
                      uint64_t len, uint32_t access, char why[SN_WHY]);
void sn_mr_note_gone(struct sn_nic *nic, const struct sn_mr *mr);
/* What a send request is, in words; and the oldest that is not complete. Return text. */
const char *sn_sreq_text(const struct sn_sreq *s, char text[SN_WHY]);
const char *sn_oldest_text(const struct sn_qp *qp, char text[SN_WHY]);

/* mem/place.c: payload on its way into memory. It is there once sn_place_flush has said so. */
int sn_place(struct sn_qp *qp, struct sn_mr *mr, uint64_t va, const void *src, uint32_t len);
int sn_place_flush(struct sn_qp *qp);
void sn_place_drop(struct sn_qp *qp);
void sn_place_forget_mr(struct sn_nic *nic, struct sn_mr *mr);

/*
 * mem/sgl.c: between a message and the pieces of a work request. 0, or -EACCES (a key, a bound or a right is
 * wrong), -EFAULT or -EIO (the memory failed), -EMSGSIZE (the pieces end before the message does). The cursor
 * is moved.
 */
void sn_cursor_reset(struct sn_cursor *c);
int sn_gather(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, uint8_t *dst, uint32_t len);
int sn_scatter_send(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, const uint8_t *src, uint32_t len);
int sn_scatter_recv(struct sn_qp *qp, uint32_t offset, const uint8_t *src, uint32_t len);
/* The same without the bytes: where they would go, at most SN_LIST_MAX pieces of memory that is reached in one
 * way. -EXDEV: it is not. */
enum { SN_LIST_MAX = 64 };
struct sn_places {
    struct iovec piece[SN_LIST_MAX];
    unsigned n;
    struct sn_reach by;
};
int sn_list_recv(struct sn_qp *qp, uint32_t offset, uint32_t len, struct sn_places *places);
/* Calls fn for each piece of bytes skip … skip + len of a send request, cut to them; mr is NULL for inline
 * data, else a region that can be copied. False: fn said so, a key or a right is wrong, or it is another
 * region. */
typedef bool sn_piece_fn(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr);
bool sn_sreq_pieces(struct sn_qp *qp, const struct sn_sreq *s, uint32_t skip, uint32_t len, uint32_t access,
                    sn_piece_fn *fn, void *arg);

/* transport/packet.c: frames to the QP's peer; sn_tx_begin_to and sn_tx_end_to: to anybody. */
void sn_route_set(struct sn_nic *nic, struct sn_route *to, const uint8_t gid[16], uint32_t qpn);
uint8_t *sn_tx_begin(struct sn_qp *qp); /* room for a frame, or NULL: later */
uint8_t *sn_tx_begin_for(struct sn_qp *qp, const struct sn_route *to); /* the same for one that goes elsewhere */
void sn_tx_end(struct sn_qp *qp, uint8_t *frame, struct roce_hdr *h, uint32_t payload_len);
uint8_t *sn_tx_begin_to(struct sn_nic *nic, const struct sn_route *to);
void sn_tx_end_to(struct sn_nic *nic, struct sn_route *to, uint8_t *frame, struct roce_hdr *h,
                  uint32_t payload_len);
void sn_tx_mark_offer(struct sn_qp *qp); /* what sn_tx_end has just made is one */
void sn_tx_count(struct sn_qp *qp, const struct roce_hdr *h, uint32_t payload_len); /* for whoever looks in */
/* The ring's position behind the last frame that was made; has it been reached by what was taken out? */
uint32_t sn_tx_position(const struct sn_nic *nic, bool looped);
bool sn_tx_left(const struct sn_nic *nic, bool looped, uint32_t position);
void sn_tx_push(struct sn_nic *nic);   /* offers the wire what there is */
bool sn_rx_looped(struct sn_nic *nic); /* what this NIC has sent to itself. false: nothing */
bool sn_rx(struct sn_nic *nic);        /* receives some. false: there was nothing */

/* transport/mad.c: a packet for queue pair 1. */
void sn_mad_rx(struct sn_nic *nic, const struct sn_frame *f, const struct roce_hdr *h, uint8_t *payload,
               uint32_t len);

/* transport/timer.c */
void sn_timer_set(struct sn_qp *qp, uint64_t deadline); /* SN_NEVER: none */
void sn_timer_remove(struct sn_qp *qp);
void sn_timer_wake_at(struct sn_qp *qp, uint64_t at); /* besides; by the rate limit */
void sn_timers_expire(struct sn_nic *nic);
uint64_t sn_timer_next(const struct sn_nic *nic);

/* What a step of a QP came to. SN_FULL: frames, or copies, that are under way have to go first. */
enum sn_step { SN_IDLE, SN_DID, SN_FULL };

/* transport/requester.c, ack.c */
void sn_requester_init(struct sn_qp *qp, uint32_t psn);
enum sn_step sn_requester_step(struct sn_qp *qp);
/* A request without packets at its turn: true if it may go on, else s->error says why not. */
bool sn_requester_local(struct sn_qp *qp, struct sn_sreq *s);
/* The next packet of a SEND or WRITE. 0, or the syndrome with which it fails when its time comes. */
uint8_t sn_requester_data_packet(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame);
uint32_t sn_requester_psn(const struct sn_qp *qp);        /* of the next packet */
enum roce_msg sn_requester_kind(uint8_t opcode);          /* of a SEND or WRITE */
void sn_requester_drained(struct sn_qp *qp);              /* in SQD: says so, if it was asked for */
void sn_requester_back(struct sn_qp *qp);                 /* to the oldest packet that is not acknowledged */
void sn_requester_lost(struct sn_requester *r);           /* something was: the window closes */
void sn_requester_probed(struct sn_qp *qp, uint32_t end); /* everything before end is done: what of a probe */
void sn_requester_timeout(struct sn_qp *qp);
void sn_requester_restart_timer(struct sn_qp *qp);
void sn_requester_measure(struct sn_qp *qp); /* una_psn has moved */
void sn_answer_rx(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len);

/* transport/direct.c: WRITEs and READs executed by copies between processes of one host. */
bool sn_direct_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did); /* false: not this way */
/* transport/direct_batch.c */
/* What has ended is, and the next one is put on its way if there would soon be nothing. False: nothing has changed. */
bool sn_direct_go(struct sn_nic *nic);
/* All accesses are made, and have ended; not inside the end of one. false: there were none. */
bool sn_direct_drain(struct sn_nic *nic);
/* Nobody's bytes are being copied any more, or will be; what that means to requests comes later. */
void sn_direct_settle(struct sn_nic *nic);
/* Is this process inside that peer's memory already? */
static inline bool sn_direct_is_inside(const struct sn_nic *nic, const struct sn_peer *peer)
{
    return nic->direct.peer == peer;
}
/* transport/direct_tell.c: who may do so here. */
void sn_direct_tell_queue(struct sn_qp *qp); /* its state, or what it allows, has changed */
void sn_direct_tell_region(struct sn_mr *mr, bool gone);
void sn_direct_quiesce(struct sn_nic *nic); /* not inside the lock */
bool sn_direct_takes(
    const struct sn_qp *qp); /* requests of its peer, or that this one fetches what it offers; */
uint32_t sn_direct_access(const struct sn_qp *qp); /* and which */

/* transport/placed.c: WRITEs with immediate data whose bytes go ahead of them, as direct accesses. */
bool sn_placed_kind(const struct sn_sreq *s);
bool sn_placed_like(const struct sn_sreq *s); /* it changes no bytes any more: it was placed, or has none */
/* The same for one that may be placed, as far as its queue pair's past goes. false: by packets. */
bool sn_placed_wanted(struct sn_qp *qp, struct sn_sreq *s);
/* This request changes bytes when it is executed: nothing behind it is placed before that. */
void sn_placed_not_before(struct sn_requester *r, uint32_t at);
/* May bytes be placed although requests of the queue pair are under way? */
bool sn_placed_may_follow(const struct sn_qp *qp);
/* If not: is it worth waiting for them? */
bool sn_placed_waits(struct sn_qp *qp, const struct sn_sreq *s);
/* Is it worth placing at all? dma: not all of its memory is plain. */
bool sn_placed_worth(struct sn_qp *qp, const struct sn_sreq *s, bool dma);
/* Is the next request, which was placed, to be sent as such? Else it goes by packets, as what follows. */
bool sn_placed_stands(struct sn_qp *qp);
bool sn_placed_window_open(const struct sn_qp *qp, const struct sn_sreq *s);
void sn_placed_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame);
/* From the oldest request on all that was placed goes by packets: its peer does not believe it, or says nothing. */
void sn_placed_unanswered(struct sn_qp *qp, bool refused);
/* The responder: the peer says that the bytes are there. Can that be so? */
bool sn_placed_is(const struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, uint32_t len);
void sn_placed_parse(const uint8_t *payload, const struct roce_hdr *h, struct sn_body *body);
bool sn_placed_believed(struct sn_qp *qp, const struct sn_mr *mr, const struct sn_body *body);
/* The packet that ends at this PSN was executed: did it change bytes? */
void sn_placed_executed(struct sn_qp *qp, uint32_t psn, bool changed);

/* transport/self.c: whom a queue pair's peer is to be looked up with. */
struct sn_near sn_near_of(const struct sn_qp *qp);

/* transport/offer.c: long SENDs and WRITEs that the responder fetches. */
uint32_t sn_offer_min(uint32_t configured);
bool sn_offer_wanted(struct sn_qp *qp, struct sn_sreq *s); /* may the next packet be an offer? */
uint32_t sn_offer_packets(const struct sn_qp *qp, const struct sn_sreq *s); /* which stands for so many */
bool sn_offer_window_open(const struct sn_qp *qp, uint32_t n);
bool sn_offer_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame); /* false: by packets after all */
/* The oldest request goes by packets, if it was offered: its peer cannot fetch it, or says nothing. */
void sn_offer_unanswered(struct sn_qp *qp, bool refused);
bool sn_offer_parse(struct sn_offer *o, const uint8_t *payload, uint32_t len); /* false: it is none */
/* Copies what is offered to these pieces, which are as long. False: nothing, or not all, was copied. */
bool sn_offer_pull(struct sn_qp *qp, const struct sn_offer *o, const struct sn_places *here);

/* transport/rate.c */
enum { SN_CNP_BYTES = 16 };
void sn_rate_init(struct sn_qp *qp);
void sn_rate_marked(struct sn_qp *qp);       /* a packet of the peer's was marked on its way */
enum sn_step sn_rate_tell(struct sn_qp *qp); /* sends the notification */
void sn_rate_cut(struct sn_qp *qp);          /* one has come */
/* May a packet leave now? If not the queue pair is woken when one may. */
bool sn_rate_open(struct sn_qp *qp);
void sn_rate_sent(struct sn_qp *qp, uint32_t bytes);

/* transport/responder.c, respond.c, refuse.c */
void sn_request_rx(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body);
enum sn_step sn_responder_step(struct sn_qp *qp);
void sn_responder_nak(struct sn_qp *qp, uint8_t syndrome, uint32_t psn);
void sn_responder_fatal(struct sn_qp *qp, enum roce_nak nak, uint32_t psn, enum ibv_event_type event);

/* transport/unreliable.c: UC and UD. A request is done when the wire has taken its last frame. */
static inline bool sn_qp_reliable(const struct sn_qp *qp)
{
    return qp->init.type != IBV_QPT_UC && qp->init.type != IBV_QPT_UD;
}
enum sn_step sn_unreliable_step(struct sn_qp *qp);
/* In SQE: flushes what was posted until now, which must not come to life again. false: the QP is in ERR now.
 */
bool sn_unreliable_resume(struct sn_qp *qp);
/* UC: is this packet the next of the message under way, or the first of a new one? Else it is dropped. */
bool sn_uc_in_order(struct sn_qp *qp, const struct roce_hdr *h);
void sn_uc_drop(struct sn_qp *qp, uint64_t *counter); /* this packet, and with it its message */

/* transport/ud.c */
/* What is wrong with a request, or NULL; then s->error says what its completion will. */
const char *sn_ud_check(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w);
enum sn_step sn_ud_send(struct sn_qp *qp, struct sn_sreq *s);
void sn_ud_rx(struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, const uint8_t *payload,
              uint32_t len);

#endif
