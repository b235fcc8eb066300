/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h: engines, and what a driver makes around them: queues, records, doorbells. Everything in one thread
 * on virtual time. The memory of nodes and queues is static, so that a seed costs no allocation here.
 */
#ifndef TESTS_SIM_RIG_H
#define TESTS_SIM_RIG_H

#include <gpuwire/mlx5.h>

#include "tests/sim/net.h"
#include "tests/softnic/fake_peers.h"

enum {
    RIG_QPS = 12,
    RIG_CQS = 12,
    RIG_UARS = 4, /* of a node */
    RIG_ARENA = 192 * 1024,
    RIG_SQ_BYTES = 64 * 64,
    RIG_RQ_BYTES = 32 * 128,
    RIG_CQ_BYTES = 512 * 128,
    RIG_LAZY = 64,
};

struct rig;

/* A region whose memory is reached through DMA functions that write late: what is not flushed is not there.
 */
struct rig_lazy {
    struct rig *rig;
    struct {
        uint64_t addr;
        uint32_t len;
        uint8_t *data;
    } write[RIG_LAZY];
    uint32_t writes;
    uint64_t ahead_request, ahead_addr; /* what was fetched ahead */
    uint32_t ahead_len;
    uint8_t ahead[16384];
    uint64_t low, high; /* addresses that are the region's */
};

extern const struct sn_dma_ops rig_lazy_dma; /* context: a struct rig_lazy */

struct rig_node {
    struct rig *rig;
    uint32_t index;
    struct sn_nic *nic;
    struct sn_pd *pd;
    struct sn_mr *mr;    /* all of mem, every access */
    struct sn_mr *local; /* the same memory by another key; local access only */
    struct sn_uar *uar[RIG_UARS];
    uint8_t *mem;
    uint64_t iova, local_iova; /* how mr and local name mem[0] */
    uint64_t next;             /* when the NIC wants to run */
    uint32_t reports, async;
    enum ibv_event_type last_async;
    char report[256]; /* the last one */
    struct rig_lazy lazy;
};

struct rig_cq {
    struct sn_cq *cq;
    struct rig_node *node;
    void *page; /* of its UAR */
    uint8_t *buf;
    uint32_t dbrec[2];
    uint32_t number, count, size, ci, sn;
    bool ignore_overrun;
    bool armed, armed_solicited;
    bool armed_met;   /* a completion that the arm waits for was polled since */
    uint32_t covered; /* after the completions that were there when the last event was raised */
    uint32_t events;  /* raised and not yet taken */
    void (*on_event)(void *arg, struct rig_cq *cq);
};

enum { RIG_QKEY = 0x1c0ffee }; /* of all UD queue pairs */

struct rig_qp {
    enum ibv_qp_type type;
    struct sn_qp *qp;
    struct rig_node *node;
    uint8_t *page; /* of its UAR */
    uint32_t uar, bfreg, bf_half;
    uint32_t qpn, uidx;
    struct gw_mlx5_sq sq;
    struct gw_mlx5_rq rq;
    uint32_t dbrec[2];
    uint16_t last_wqe;     /* the first WQEBB of the WQE posted last */
    uint16_t sq_pi, rq_pi; /* posted, as the record says once it is written */
    struct rig_cq *send_cq, *recv_cq;
    uint32_t mtu;
};

struct rig {
    uint64_t now;
    struct rnd rnd;
    struct net net;
    bool one_host;
    struct fake_peers peers; /* if so */
    uint32_t nodes;
    struct rig_node node[NET_NODES];
    bool failed, verbose;
    char why[400];  /* the first thing that went wrong */
    uint64_t trace; /* a hash of what happened */
    void *user;
    void (*on_srq_limit)(void *user, void *srq_user);
};

struct rig_params {
    uint32_t nodes;
    bool hostile, lazy, mixed; /* mixed: each node draws its own */
    uint32_t window_packets, window_bytes, budget;
    struct net_params net;
};

/* The first failure is kept. */
void rig_fail(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rig_note(struct rig *rig, uint64_t a, uint64_t b); /* goes into the trace */

bool rig_start(struct rig *rig, const struct rig_params *params, uint64_t seed);
void rig_stop(struct rig *rig); /* everything but queue pairs and completion queues, which are gone by then */

struct rig_cq_params {
    uint32_t count, size;
    uint32_t uar;
    bool ignore_overrun;
};
bool rig_cq_open(struct rig_cq *cq, struct rig_node *node, const struct rig_cq_params *p, uint8_t *buf);
void rig_cq_close(struct rig_cq *cq);

struct rig_qp_params {
    enum ibv_qp_type type; /* 0: RC */
    uint32_t sq_wqebbs, rq_wqes, rq_stride, uar, bfreg, uidx, scatter_recv, scatter_req;
    bool sq_sig_all;
    struct sn_pd *pd;     /* NULL: the node's */
    struct sn_srq *srq;   /* or NULL; with one there is no receive queue */
    struct sn_xrcd *xrcd; /* XRC_RECV, which has nothing else */
};
bool rig_qp_open(struct rig_qp *qp, struct rig_node *node, struct rig_cq *send_cq, struct rig_cq *recv_cq,
                 const struct rig_qp_params *p, uint8_t *sq, uint8_t *rq);
void rig_qp_close(struct rig_qp *qp);

struct rig_link {
    enum ibv_mtu mtu;
    uint32_t sq_psn, rq_psn;
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
    int access;
};
/* RESET to RTS. UD has no peer, and UC needs less of the link. */
bool rig_qp_up(struct rig_qp *qp, uint32_t peer_node, uint32_t peer_qpn, const struct rig_link *link);
bool rig_qp_state(struct rig_qp *qp, enum ibv_qp_state state); /* RESET or ERR */

/* The engine calls this for an event of a completion queue. It fails the rig when the queue was not armed for
 * the event. */
void rig_on_cq_event(void *node, void *cq);

/* A driver's part. */
void rig_record(struct rig_qp *qp); /* writes the send record */
/* Rings with 0: the last WQE's first 8 bytes, 1: the next index, 2: the whole last WQE if it has one WQEBB.
 */
void rig_ring(struct rig_qp *qp, uint32_t how, uint32_t wqebbs);
void rig_kick(struct rig_node *node, uint64_t within); /* the NIC looks within that time in ns */
bool rig_rings_taken(const struct rig_qp *qp);         /* nothing rung on its page waits for the engine */
void rig_recv_record(struct rig_qp *qp);
bool rig_poll(struct rig_cq *cq, struct gw_mlx5_wc *wc,
              uint8_t data[64]); /* data: what scatter-to-CQE put there */
void rig_arm(struct rig_cq *cq, bool solicited);
/* Is there a completion, not polled yet, that an arm (of this kind) waits for? */
bool rig_has_completion(const struct rig_cq *cq, bool solicited);
/* Has the completion come that it was armed for? */
bool rig_arm_met(const struct rig_cq *cq);

/* Runs a node once, at this time. */
void rig_progress(struct rig_node *node);
uint64_t rig_node_time(const struct rig_node *node); /* when it is due: timer, doorbell or frame */
/* Runs all nodes until time `until`. */
void rig_run(struct rig *rig, uint64_t until);

#endif
