/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: the top of the engine: doorbells, the life of queue pairs, and the order in which one call does
 * its work. Everything here is under the NIC's lock.
 */
#ifndef SOFTNIC_ENGINE_ENGINE_H
#define SOFTNIC_ENGINE_ENGINE_H

#include "softnic/object/nic.h"
#include "softnic/queue/queue.h"
#include "softnic/region/region.h"
#include "softnic/transport/transport.h"

/* doorbell.c */
void sn_doorbells(struct sn_nic *nic);
void sn_sq_settle(struct sn_qp *qp);   /* a ring of this queue pair's, if there is one, is seen now */
int sn_record_ahead(struct sn_qp *qp); /* the send record, if it is ahead of the last ring; else -1 */
void sn_report_missing_ring(struct sn_qp *qp);
void sn_watch_records(struct sn_nic *nic);

/* rung.c: what a ring means to a send queue. */
void sn_sq_look(struct sn_qp *qp);                               /* after a ring: reads the record */
void sn_sq_rung(struct sn_qp *qp, unsigned half, uint64_t ring); /* after this ring: goes by its index */
void sn_sq_leave(struct sn_qp *qp);                              /* before it is reset */

/* check.c, where assertions are checked (GW_CHECK): do the NIC's parts agree with each other? */
void sn_qp_check(const struct sn_qp *qp);
void sn_nic_check(const struct sn_nic *nic);

/* qp.c */
void sn_qp_last_word(struct sn_qp *qp);  /* before its program takes it from its work: see there */
void sn_qp_forget(struct sn_qp *qp);     /* as created */
bool sn_qp_flush_step(struct sn_qp *qp); /* in ERR: flushes one. false: nothing left */

#endif
