/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h: the object model of a software ConnectX: what the uverbs layer creates and the engine executes.
 *
 * A NIC is a passive state machine. Nothing happens but in sn_nic_progress(), which takes the time as an argument, moves
 * frames through the wire it was given, and draws its randomness from a seed: so that several NICs run in one thread on
 * virtual time, and a failing run replays.
 *
 * Locking: object calls take the NIC's lock; sn_nic_progress() tries it. The callbacks run with the lock held, in whichever
 * thread drives the NIC: they must not call back and must not block. Queue memory, doorbell records and pages belong to
 * the application and may change at any time: each word is read once.
 *
 * Functions return 0 or a negative errno. Attribute masks, states and access flags are libibverbs' (IBV_QP_*, IBV_QPS_*,
 * IBV_ACCESS_*). Times are nanoseconds on one clock of the caller's choice.
 */
#ifndef SOFTNIC_NIC_H
#define SOFTNIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct sn_nic;
struct sn_uar;
struct sn_pd;
struct sn_mr;
struct sn_cq;
struct sn_qp;

#define SN_NEVER UINT64_MAX

/* ---- the wire ---- */

/* A UDP payload from BTH to ICRC. */
struct sn_frame {
    uint8_t peer[16]; /* GID: where it goes, or where it came from */
    uint16_t port;    /* received: the sender's UDP source port, which the ICRC covers */
    uint32_t len;
    uint8_t *data;    /* received: valid until the next recv, and writable */
};

struct sn_wire_ops {
    /* Takes frames in order and returns how many; the rest is offered again later. The bytes are the caller's again when
     * it returns. */
    int (*send)(void *ctx, const struct sn_frame *frames, int n, uint64_t now);
    /* Gives up to max frames that have arrived; *more: there may be others. */
    int (*recv)(void *ctx, struct sn_frame *frames, int max, bool *more, uint64_t now);
    /* When the wire itself wants to be called again (frames that it delays), SN_NEVER if it does not. May be NULL. */
    uint64_t (*next)(void *ctx);
};

enum { SN_FRAME_MAX = 4096 + 64 }; /* the longest frame a NIC sends */

/* ---- memory that the NIC reaches ---- */

/* How to reach memory that is not ordinary host memory of this process. All return 0 or a negative errno, which becomes an
 * error completion. */
struct sn_dma_ops {
    /* Takes len bytes for addr; they are there at the latest after the next flush. */
    int (*write)(void *ctx, uint64_t addr, const void *src, uint32_t len);
    /* Reads len bytes at addr. `work` names the work request or read operation: two reads of one see the memory as of after the
     * first; `ahead` more bytes behind these are going to be read by the same. */
    int (*read)(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t work, uint32_t ahead);
    int (*flush)(void *ctx);
    void (*release)(void *ctx); /* the region is gone */
};

/* ---- the NIC ---- */

struct sn_nic_config {
    uint8_t gid[16];
    uint32_t slot;     /* bits 16 to 23 of its queue pairs' numbers */
    uint16_t port;     /* UDP source port of its frames, which the ICRC covers */
    uint32_t mtu;      /* the largest path MTU it offers, bytes: 256 … 4096 */
    uint64_t seed;
    bool hostile;      /* as unkind as a NIC may be: payload placed late and in any order, completions late, small receives
                          inside their completions where the queue pair allows it */
    bool direct_dma;   /* host memory by plain copies, without protection against regions that were unmapped: simulation */
    const struct sn_wire_ops *wire;
    void *wire_ctx;
    void *user; /* of the callbacks */
    /* A completion queue that was armed has something to tell. */
    void (*cq_event)(void *user, void *cq_user);
    /* type: IBV_EVENT_*; object_user: of the queue pair or completion queue that it is about. */
    void (*async_event)(void *user, enum ibv_event_type type, void *object_user);
    /* One line for people: a wrong doorbell, a malformed work request, an access that was refused. */
    void (*report)(void *user, const char *line);
};

int sn_nic_create(const struct sn_nic_config *config, struct sn_nic **nic);
/* Frees it with all that is left in it. Nobody may be inside. */
void sn_nic_destroy(struct sn_nic *nic);

/*
 * Does what there is to do at time `now`, a bounded amount. Returns when it wants to be called again at the latest: `now` when it
 * has more to do (or another thread is inside), SN_NEVER when only a doorbell or a frame can give it work.
 */
uint64_t sn_nic_progress(struct sn_nic *nic, uint64_t now);

/* True while queue pairs exist that a store to memory can give work to, so that somebody must look. */
bool sn_nic_may_be_rung(const struct sn_nic *nic);

struct sn_nic_counters {
    uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes;
    uint64_t retransmits, timeouts, rnr_waits;
    uint64_t nak_seq_sent, nak_access_sent, nak_invalid_sent, nak_op_sent, rnr_sent;
    uint64_t drop_icrc, drop_malformed, drop_no_qp, drop_not_peer, drop_state, drop_out_of_sequence, drop_full;
    uint64_t duplicates;
    uint64_t wqes, cqes;
};
void sn_nic_counters(struct sn_nic *nic, struct sn_nic_counters *out);

/* What the NIC is willing to do, for query_device and the checks of the object calls. */
enum {
    SN_MAX_QP = 16384,
    SN_MAX_CQ = 16384,
    SN_MAX_MR = 1 << 20,
    SN_MAX_CQE = 1 << 22,
    SN_MAX_QP_WR = 32768, /* WQEBBs of a send queue, WQEs of a receive queue */
    SN_MAX_SGE = 30,
    SN_MAX_RD_ATOMIC = 16,
    SN_MAX_MSG = 1 << 30,
};

/* ---- doorbell pages ---- */

/* Makes a page of registers. */
int sn_uar_create(struct sn_nic *nic, struct sn_uar **uar);
/* The page's memory, 4096 bytes: shared memory that can be mapped again elsewhere by mremap(…, 0, …). */
void *sn_uar_page(const struct sn_uar *uar);
int sn_uar_destroy(struct sn_uar *uar); /* -EBUSY: queue pairs or completion queues use it */

/* ---- protection domains, memory regions ---- */

int sn_pd_create(struct sn_nic *nic, struct sn_pd **pd);
int sn_pd_destroy(struct sn_pd *pd); /* -EBUSY */

struct sn_mr_attr {
    uint64_t addr;   /* in this process */
    uint64_t length;
    uint64_t iova;   /* what work requests and peers call it */
    uint32_t access; /* IBV_ACCESS_* */
    const struct sn_dma_ops *dma; /* NULL: host memory */
    void *dma_ctx;
};
int sn_mr_create(struct sn_pd *pd, const struct sn_mr_attr *attr, struct sn_mr **mr);
int sn_mr_destroy(struct sn_mr *mr); /* no access to it is under way when it returns */
uint32_t sn_mr_lkey(const struct sn_mr *mr);
uint32_t sn_mr_rkey(const struct sn_mr *mr); /* the same number, as on hardware */

/* ---- completion queues ---- */

struct sn_cq_attr {
    void *buf;            /* cqes entries of cqe_size bytes */
    uint32_t cqes;        /* a power of two */
    uint32_t cqe_size;    /* 64 or 128 */
    uint32_t *dbrec;      /* consumer index, arm word */
    struct sn_uar *uar;   /* where it is armed */
    bool ignore_overrun;  /* the consumer index is not kept up */
    void *user;           /* for the callbacks */
};
int sn_cq_create(struct sn_nic *nic, const struct sn_cq_attr *attr, struct sn_cq **cq);
int sn_cq_destroy(struct sn_cq *cq); /* -EBUSY */
uint32_t sn_cq_num(const struct sn_cq *cq);

/* ---- queue pairs ---- */

struct sn_qp_init {
    enum ibv_qp_type type; /* RC; others -EOPNOTSUPP */
    struct sn_pd *pd;
    struct sn_cq *send_cq, *recv_cq;
    struct sn_uar *uar;     /* whose registers ring it */
    void *sq;               /* NULL when sq_wqebbs is 0 */
    uint32_t sq_wqebbs;     /* a power of two, or 0 */
    void *rq;
    uint32_t rq_wqes;       /* a power of two, or 0 */
    uint32_t rq_stride;     /* bytes: a power of two, 16 … 1024 */
    uint32_t *dbrec;        /* receive count, send count */
    bool sig_all;           /* every WQE completes with a CQE */
    bool scatter_to_cqe;    /* small receives may lie inside their CQE */
    uint32_t uidx;          /* for CQEs */
    void *user;
};
int sn_qp_create(struct sn_nic *nic, const struct sn_qp_init *init, struct sn_qp **qp);
int sn_qp_destroy(struct sn_qp *qp);
uint32_t sn_qp_num(const struct sn_qp *qp);

/* What modify changes (as far as the mask says) and query reports. */
struct sn_qp_attr {
    enum ibv_qp_state state, cur_state;
    uint32_t access;         /* IBV_ACCESS_REMOTE_* */
    uint16_t pkey_index;
    uint8_t port;
    uint8_t dgid[16];
    uint8_t sgid_index, hop_limit, traffic_class, sl;
    uint32_t mtu;            /* bytes */
    uint32_t dest_qpn, sq_psn, rq_psn;
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
    uint8_t max_rd_atomic, max_dest_rd_atomic;
};
/* -EINVAL: not a transition there is, an attribute missing or out of range. */
int sn_qp_modify(struct sn_qp *qp, const struct sn_qp_attr *attr, int mask);
void sn_qp_query(struct sn_qp *qp, struct sn_qp_attr *attr);

#endif
