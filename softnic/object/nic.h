/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h: the NIC's own state, and what every part of the engine may ask of it. Everything here is under the
 * NIC's lock unless it says otherwise.
 */
#ifndef SOFTNIC_OBJECT_NIC_H
#define SOFTNIC_OBJECT_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/list.h"
#include "softnic/nic/nic.h"
#include "softnic/object/cq.h"
#include "softnic/object/direct.h"
#include "softnic/object/limits.h"
#include "softnic/object/qp.h"
#include "softnic/object/region.h"
#include "softnic/object/srq.h"
#include "softnic/object/uar.h"
#include "src/mlx5/wqe.h"

struct sn_ring {
    struct sn_frame frames[SN_TX_FRAMES];
    struct sn_qp *unused;
    uint8_t (*data)[SN_FRAME_MAX];
    uint32_t head, tail; /* free-running */
};

struct sn_piece_held {
    struct sn_qp *qp;
    const struct sn_pd *pd; /* the region's */
    uint32_t key;
    uint64_t va;
    uint32_t len, at;
    uint64_t due; /* at the latest; SN_NEVER: no later than the end of its message */
};

/* Payload whose completion has been given, and which is not in its place yet. */
struct sn_piece_behind {
    const struct sn_pd *pd; /* the region's */
    uint32_t key;
    uint64_t va;
    uint32_t len;
    uint8_t bytes[];
};

struct sn_nic {
    struct sn_nic_config cfg;
    pthread_mutex_t lock;
    int running, again; /* atomic, see sn_nic_progress */
    uint64_t now;
    uint64_t rnd;
    void (*settle)(struct sn_nic *nic); /* the transport's: see sn_settle */
    uint64_t requests;                  /* numbers given to DMA requests so far */
    unsigned objects;
    unsigned ringable; /* atomic */
    uint64_t activity; /* atomic */

    struct sn_qp **qps; /* by the lower 16 bits of their numbers */
    struct sn_link all_qps, run, errs;
    struct sn_link parked; /* by run_link: those that have work, and wait for room at the other end */
    /* those whose direct accesses found no room: ended batches wake them, in their order */
    struct sn_link copy_waits;
    unsigned qp_count;
    struct sn_cq **cqs;
    unsigned cq_count, cq_hint;
    struct sn_srq **srqs; /* by the lower 16 bits of their numbers */
    unsigned srq_count;
    struct sn_mr **mrs;
    uint32_t mr_room, mr_count;
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
    struct sn_piece_behind **behind;
    unsigned behind_count;

    int heard;   /* atomic: a thread has posted since the doorbells were looked at (cfg.deaf) */
    bool failed; /* sn_nic_fail */

    uint64_t guess_reported_at; /* when a line said that a peer may be guessing keys; 0: never */

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
/* A number below n that a stranger cannot guess. 0 or a negative errno. */
int sn_secret_below(struct sn_nic *nic, uint32_t n, uint32_t *out);
void sn_activity(struct sn_nic *nic);

/* Accesses to other processes' memory that are under way have ended when it returns, and what is gathered is
 * copied. */
static inline void sn_settle(struct sn_nic *nic)
{
    nic->settle(nic);
}

/* report.c: `reports` counts lines about an object; sn_report_due says whether one more may be said. */
void sn_report(struct sn_nic *nic, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sn_report_due(const struct sn_nic *nic, unsigned *reports);
/* News that a person has to know without having asked. The caller limits how often. */
void sn_warn(struct sn_nic *nic, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* uar.c */
void sn_uar_attach(struct sn_uar *uar, struct sn_link *list, struct sn_link *user);
void sn_uar_detach(struct sn_uar *uar, struct sn_link *user);
int sn_ringer_add(struct sn_qp *qp); /* 0 or -ENOMEM */
void sn_ringer_del(struct sn_qp *qp);
void sn_ringer_at(struct sn_qp *qp, uint16_t pi); /* so far was rung */
static inline struct sn_register *sn_register_of(struct sn_qp *qp)
{
    return &qp->init.uar->registers[qp->init.bfreg];
}

/* Has the last of the frames that were made been taken out of the ring up to this position? */
static inline bool sn_tx_left(const struct sn_nic *nic, bool looped, uint32_t position)
{
    return (int32_t)((looped ? nic->loop.head : nic->tx.head) - position) >= 0;
}

/* publish.c: what was taken back from peers on this host is used by none when it returns. Not inside the
 * lock. */
void sn_publish_quiesce(struct sn_nic *nic);

#endif
