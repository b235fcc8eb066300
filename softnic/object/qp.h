/* SPDX-License-Identifier: Apache-2.0 */
/* qp.h: queue pairs. Everything here is under the NIC's lock. */
#ifndef SOFTNIC_OBJECT_QP_H
#define SOFTNIC_OBJECT_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/list.h"
#include "softnic/nic/introspect.h"
#include "softnic/nic/nic.h"
#include "softnic/object/rate.h"
#include "softnic/object/requester.h"
#include "softnic/object/responder.h"
#include "softnic/object/route.h"

enum { SN_DIRTY_MRS = 4 };

struct sn_qp {
    struct sn_nic *nic;
    struct sn_qp_init init;
    uint32_t number;
    enum ibv_qp_state state;
    struct ibv_qp_attr attr; /* as last modified */
    bool sqd_notify;
    bool ringable;

    struct sn_link all_link, run_link, copy_wait_link, err_link, uar_link;
    struct sn_link windows; /* of type 2, bound by it */
    uint32_t ringer;        /* 1 + place among those of its register; 0: it has no send queue */
    uint32_t heap_at;       /* 1 + place in nic->heap; 0: not there */
    uint64_t heap_time;

    uint8_t service; /* upper bits of its packets' opcodes: ROCE_RC, _UC, _UD, _XRC */
    uint32_t mtu;
    struct sn_route peer;         /* RC, UC */
    struct sn_owner owner;        /* who had its slot when it was connected; transport/owner.c */
    uint64_t owner_look, gone_at; /* when to look whether it still has; when it was found to be gone */
    bool published;               /* peers on this host know that it takes requests */
    bool parked;                  /* its receiver has no room: it is in nic->parked */
    bool copy_waits; /* found no room in a batch of direct accesses in its last turn: it is in nic->behind */

    /* Send queue, WQEBB counters mod 2^16. */
    uint16_t sq_pi;      /* rung */
    uint16_t sq_rung[2]; /* no ring of either half for less can be there (cfg.by_index) */
    uint16_t sq_left;    /* what its record said when it was reset: libmlx5 clears it only after that */
    uint16_t sq_next;    /* next to be read */
    uint16_t sq_ci;      /* oldest not complete */
    uint16_t rq_ci;      /* next receive WQE to be used */
    bool rq_bad;         /* the record runs past the queue: reported */
    bool missing_reported, early_reported;
    bool last_wqe_reported; /* in ERR: that it takes no more from its shared receive queue */
    int ahead_before;       /* sn_record_ahead when the records were last watched */

    struct sn_requester req;
    struct sn_responder resp;
    struct sn_rate rate;

    struct sn_mr *dirty[SN_DIRTY_MRS]; /* written to since their last flush */
    unsigned dirty_count;
    unsigned held; /* pieces of payload held back (hostile) */
    int place_error;
    uint32_t guesses; /* keys and ranges that the peer named and was not given */

    /* For people who look in (introspect.h). */
    struct sn_qp_counters count;
    uint8_t syndrome; /* of the first error completion */
    char *line;       /* the last report, SN_REPORT_LINE bytes; NULL: none */
    unsigned reports;
};

/* Does its peer acknowledge what it sends? */
static inline bool sn_qp_reliable(const struct sn_qp *qp)
{
    return qp->init.type != IBV_QPT_UC && qp->init.type != IBV_QPT_UD;
}

/* Does it make packets of requests? */
static inline bool sn_qp_sends(const struct sn_qp *qp)
{
    return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/* Where a QP's receives come from, if not from a queue of its own: XRC's change from message to message. */
static inline struct sn_srq *sn_rq_shared(const struct sn_qp *qp)
{
    return qp->init.xrcd ? qp->resp.srq : qp->init.srq;
}

/* qp.c */
struct sn_qp *sn_qp_find(struct sn_nic *nic, uint32_t qpn);
void sn_qp_wake(struct sn_qp *qp); /* it may have something to do */
void sn_qp_set_state(struct sn_qp *qp, enum ibv_qp_state state);

/* report.c: one line to the user. It says this much per queue pair and then nothing more. */
void sn_report_qp(struct sn_qp *qp, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* timer.c: one timer for each queue pair. */
void sn_timer_set(struct sn_qp *qp, uint64_t deadline); /* SN_NEVER: none */
void sn_timer_remove(struct sn_qp *qp);
void sn_timer_wake_at(struct sn_qp *qp, uint64_t at); /* besides; by the rate limit */
/* Takes the next queue pair out whose time has come: NULL: none. It is put back by sn_timer_again. */
struct sn_qp *sn_timer_due(struct sn_nic *nic);
void sn_timer_again(struct sn_qp *qp);
uint64_t sn_timer_next(const struct sn_nic *nic);

/* publish.c: what peers on the same host are told. */
void sn_publish_queue(struct sn_qp *qp); /* its state, or what it allows, has changed */
/* Does it take requests of its peer by direct access, or may it fetch what its peer offers? And which
 * accesses? */
bool sn_qp_takes_direct(const struct sn_qp *qp);
uint32_t sn_qp_direct_access(const struct sn_qp *qp);
/* The terms that peers learn of it as a responder, and that it states as a requester. */
void sn_qp_peer_queue(const struct sn_qp *qp, struct sn_peer_queue *q);
void sn_qp_peer_terms(const struct sn_qp *qp, struct sn_peer_terms *t);

#endif
