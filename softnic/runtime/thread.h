/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h: the thread "gw-nic" that drives a NIC when no other thread does.
 *
 * Doorbells are stores to memory and wake no thread, so a thread has to look. The thread looks, and sleeps in
 * between. The longer nothing happened, the longer it sleeps: a sixteenth of that time, between 20 µs and 8
 * ms. Until a first post was found that no library call had announced, it is up to 32 ms. So a post after t
 * of silence is seen after t/16 at most. Packets end its sleep at once. While nothing can be rung it sleeps
 * until a packet, a timer or a kick. (In a virtual machine a wake-up by a timer alone may cost 17 to 60 µs of
 * a core. 125 a second took 0.4 to 0.8 % of one.)
 *
 * Where packets, or a kernel's posts, come one after the other it looks on for up to 50 µs before it sleeps.
 * During that it yields the CPU to other threads. Sleeping and being woken cost more, and the peer, or the
 * kernel, would wait for that.
 *
 * An application thread that polls drives the NIC itself. Then this one stays away: it sleeps without
 * watching the sockets, until the other stops polling or says (by a kick) that it goes to sleep. When it
 * finds on its return that packets were left waiting, it stays for a while, and longer each time.
 *
 * In busy mode it never sleeps, and threads that poll leave the NIC to it. With two CPUs or fewer to run on
 * it yields after each look, so that the thread that it works for can run.
 */
#ifndef SOFTNIC_RUNTIME_THREAD_H
#define SOFTNIC_RUNTIME_THREAD_H

#include "softnic/config/config.h"

struct sn_nic;
struct sn_port;
struct sn_thread;

#define SN_NAP_MIN_NS   20000u
#define SN_NAP_MAX_NS   8000000u
#define SN_FIRST_NAP_NS 32000000u
enum { SN_NAP_DIVISOR = 16 };

/* Starts it. cpu -1: anywhere. 0, or a negative errno with one line in why. */
int sn_thread_start(struct sn_nic *nic, struct sn_port *port, enum sn_poll poll, int cpu,
                    struct sn_thread **thread, char why[256]);

/* Ends it, and waits for its end no longer than wait_ms: 0, or -ETIMEDOUT, and it is still running. Not by
 * the thread itself. */
int sn_thread_stop(struct sn_thread *thread, int wait_ms);

/* Frees one that ended, when it is no longer used. */
void sn_thread_free(struct sn_thread *thread);

/* An application thread drives the NIC now. Called often: two relaxed accesses. */
void sn_thread_driven(struct sn_thread *thread);

/* Is it looking for packets all the time just now? Then an application thread need not: two that take turns
 * at it get each other's memory out of the caches. */
bool sn_thread_looks(const struct sn_thread *thread, uint64_t now);

/* An application thread has posted, and not driven the NIC: it looks within SN_GATHER_NS. */
#define SN_GATHER_NS 200000u
void sn_thread_gathering(struct sn_thread *thread);

/* An application thread drove the NIC and left work. Ends a sleep, unless that thread polls and so comes
 * again. */
void sn_thread_work_left(struct sn_thread *thread);

/* See sn_process_nic_kick. */
void sn_thread_kick(struct sn_thread *thread);

/* Its eventfd, to be closed in a forked child. */
int sn_thread_fd(const struct sn_thread *thread);

#endif
