/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repost.h: proxy-post, for NICs whose queues kernels cannot write. A kernel's queues are in memory alone, in
 * mlx5's format. The proxy thread plays the NIC towards them. It reads the WQEs that the doorbell record
 * counts. It posts them with ibv_post_send and ibv_post_recv to an ordinary queue pair of the same number. It
 * writes the results of ibv_poll_cq as CQEs. The kernel sees the same as from a ConnectX.
 *
 * repost.c makes and frees the queues, repost_round.c looks at them, repost_wr.c makes requests of WQEs,
 * repost_send.c and repost_recv.c post them, repost_wc.c carries completions. All under the proxy's lock.
 */
#ifndef GW_VERBS_REPOST_H
#define GW_VERBS_REPOST_H

#include "src/mlx5/wqe.h"
#include "src/verbs/proxy.h"

/* A posted request leaves this for its completion, whose wr_id is its address. */
struct gw_repost_sent {
    struct gw_repost_qp *q;
    uint32_t index, wqebbs; /* first WQEBB (or receive); how many */
    uint32_t length;
    uint8_t opcode; /* enum gw_mlx5_opcode */
    bool recv;
    bool bad;   /* an empty request in the place of one that could not be posted */
    bool quiet; /* the kernel did not ask to be told of its success */
};

struct gw_repost_qp {
    struct gw_qp *qp;
    struct gw_piece rings;
    struct ibv_mr *mr;             /* of the send ring: inline payload is sent from there */
    struct gw_repost_sent *sent;   /* one per WQEBB, used at the WQE's first, … */
    struct gw_repost_sent *posted; /* … and one per receive */
    uint32_t max_sge;
    uint32_t sq_next, sq_upto, sq_done; /* WQEBBs: posted, to be posted in this round, completed */
    uint32_t rq_next, rq_done;          /* receives */
    enum ibv_qp_state state;
    bool stuck;        /* nothing is posted until the request that could not be has been reported */
    bool stuck_marked; /* … by an empty request in its place */
    bool recv_stuck;   /* the same for receives, without such a mark */
    bool flushing;     /* UD: a request was refused, and all after it are flushed */
    bool mute;         /* completions are dropped */
    struct gw_repost_qp *next;
};

struct gw_repost_cq {
    struct gw_cq *cq;
    struct gw_piece ring;
    uint32_t pi;
    uint32_t armed; /* a thread sleeps on event_fd */
    bool notified;  /* the NIC has been asked for an event */
    struct gw_repost_cq *next;
};

/* repost_wc.c: writes an error completion. */
void gw_repost_report(struct gw_repost_cq *c, const struct gw_repost_sent *s, enum ibv_wc_status status,
                      uint8_t vendor);
void gw_repost_to_error(struct gw_repost_qp *q);
/* Polls a CQ until it is empty, or for n completions. True when there was one. */
bool gw_repost_poll(struct gw_repost_cq *c, uint32_t most);
/* repost_wr.c: the WQE at `at`, as gw_mlx5_wqe_parse; and the request that it asks for, with what it leaves
 * for its completion: 0 or a negative errno. sge: room for GW_MLX5_MAX_DS. */
int gw_repost_parse(const struct gw_repost_qp *q, struct gw_mlx5_wqe *w, uint32_t at);
int gw_repost_translate(struct gw_repost_qp *q, const struct gw_mlx5_wqe *w, struct ibv_send_wr *wr,
                        struct ibv_sge *sge);
/* repost_send.c, repost_recv.c: post the sends that see_sends has seen, and the receives that are there. True
 * when there was one. */
bool gw_repost_sends(struct gw_repost_qp *q);
bool gw_repost_receives(struct gw_repost_qp *q);

#endif
