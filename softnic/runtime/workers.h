/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h: the threads "gw-nic-rx", where GPUWIRE_NIC asks for more than one (threads=N: N - 1 of them).
 *
 * The engine has one lock. Other threads can receive packets beside it and check their ICRCs, so these do.
 * The engine then takes the packets in the order in which they came. The thread that has checked a batch
 * drives the engine, or brings the thread inside to look again. They wait for packets, one for all of them,
 * and cost nothing while there are none.
 */
#ifndef SOFTNIC_RUNTIME_WORKERS_H
#define SOFTNIC_RUNTIME_WORKERS_H

struct sn_nic;
struct sn_port;
struct sn_thread;
struct sn_workers;

/* Starts N, 0 … SN_MAX_THREADS - 1. thread: the NIC's own, which gets what work is left. 0, or a
 * negative errno with one line in why, and none is running. */
int sn_workers_start(struct sn_nic *nic, struct sn_port *port, struct sn_thread *thread, unsigned count,
                     struct sn_workers **workers, char why[256]);

/* As sn_thread_stop and sn_thread_free. */
int sn_workers_stop(struct sn_workers *workers, int wait_ms);
void sn_workers_free(struct sn_workers *workers);

/* Its eventfd, to be closed in a forked child. */
int sn_workers_fd(const struct sn_workers *workers);

#endif
