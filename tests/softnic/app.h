/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app.h: the part of libibverbs and libmlx5 that tests of the engine need. Queues lie in plain memory, and
 * the builders of gpuwire/mlx5.h make WQEs. There are records, doorbells and completions.
 */
#ifndef TESTS_SOFTNIC_APP_H
#define TESTS_SOFTNIC_APP_H

#include <gpuwire/mlx5.h>

#include "tests/softnic/world.h"

struct app_cq {
    struct world_nic *n;
    struct sn_cq *cq;
    struct sn_uar *uar;
    uint8_t *buf;
    uint32_t entries, size;
    uint32_t dbrec[2] __attribute__((aligned(8)));
    uint32_t ci, arm_sn;
    unsigned events; /* fired */
    bool keep_ci;    /* the record is not updated */
};

/* As libmlx5 keeps one: a list through the entries, those that came back at its end. */
struct app_srq {
    struct world_nic *n;
    struct sn_srq *srq;
    void *buf;
    struct gw_mlx5_rq rq;
    uint32_t dbrec[2] __attribute__((aligned(8)));
    uint32_t head, tail, counter, max_sge;
};

enum { APP_WRS = 64 };

struct app_qp {
    struct world_nic *n;
    struct sn_qp *qp;
    struct sn_pd *pd;
    struct sn_uar *uar;
    enum ibv_qp_type type;
    struct app_cq *send_cq, *recv_cq;
    void *sq_buf, *rq_buf;
    struct gw_mlx5_sq sq;
    struct gw_mlx5_rq rq;
    uint32_t dbrec[2] __attribute__((aligned(8)));
    uint32_t sq_pi, rq_pi, uidx, max_sge;
    unsigned half;
};

enum { APP_QKEY = 0x1234567 }; /* of all UD queue pairs */

struct app_qp_options {
    uint32_t sq_wqebbs, rq_wqes, max_sge; /* 0: 64, 16, 4 */
    uint32_t scatter_recv, scatter_req, uidx;
    bool sig_all;
    struct app_srq *srq;
    enum ibv_qp_type type; /* 0: RC */
    void *user;
};

struct app_connect {
    unsigned mtu;                 /* enum ibv_mtu */
    uint32_t psn_there, psn_here; /* of the peer's requests, and of ours */
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
};
extern const struct app_connect app_connect_default;

void app_cq_up(struct app_cq *cq, struct world_nic *n, struct sn_uar *uar, uint32_t entries, uint32_t size);
void app_cq_down(struct app_cq *cq);
/* 1: a completion was taken, 0: there is none. *cqe, if not NULL, is where it lies. */
int app_poll(struct app_cq *cq, struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe **cqe);
void app_arm(struct app_cq *cq, bool solicited);
void app_event_taken(struct app_cq *cq); /* as reading the channel does */

struct app_srq_options { /* XRC: all three */
    struct sn_xrcd *xrcd;
    struct app_cq *cq;
    uint32_t uidx;
};

/* wqes: power of two; one less can be posted. o may be NULL. */
void app_srq_up(struct app_srq *srq, struct world_nic *n, struct sn_pd *pd, uint32_t wqes, uint32_t max_sge,
                const struct app_srq_options *o);
void app_srq_down(struct app_srq *srq);
/* The entry used, or -1: full. */
int app_srq_recv(struct app_srq *srq, const struct gw_mlx5_sge *sge, uint32_t n);
void app_srq_free(struct app_srq *srq, uint32_t entry); /* its completion was polled */

void app_qp_up(struct app_qp *q, struct world_nic *n, struct sn_pd *pd, struct sn_uar *uar,
               struct app_cq *send_cq, struct app_cq *recv_cq, const struct app_qp_options *o);
void app_qp_down(struct app_qp *q);
/* From RESET to RTS, to a peer (which UD has not). Returns what the first call that fails returns. */
int app_to_init(struct app_qp *q);
int app_to_rtr(struct app_qp *q, const struct app_qp *peer, const struct app_connect *c);
int app_to_rts(struct app_qp *q, const struct app_connect *c);
void app_connect(struct app_qp *a, struct app_qp *b, const struct app_connect *c);
enum ibv_qp_state app_state(struct app_qp *q);

/* Writes a WQE; the NIC is not told. Returns its index. */
uint32_t app_put(struct app_qp *q, const struct gw_mlx5_wr *wr);
/* Moves the record. */
void app_publish(struct app_qp *q);
/* Rings: style 0 the last WQE's first bytes, 1 the next index. */
void app_ring(struct app_qp *q, int style);
/* All three. */
uint32_t app_post(struct app_qp *q, const struct gw_mlx5_wr *wr);
/* The same for UD: to QP qpn at gid. */
uint32_t app_post_ud(struct app_qp *q, const struct gw_mlx5_wr *wr, const uint8_t gid[16], uint32_t qpn,
                     uint32_t qkey);
void app_recv(struct app_qp *q, const struct gw_mlx5_sge *sge, uint32_t n);

#endif
