/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of NICs for tests: two at one address of the test's own. The NIC's lock is a mutex of the test's. */
#ifndef TESTS_LOCAL_HOSTS_H
#define TESTS_LOCAL_HOSTS_H

#include <pthread.h>
#include <sys/types.h>

#include "softnic/local/local.h"

enum { A = 1, B = 2, QPN_A = A << 16 | 0x111, QPN_B = B << 16 | 0x222, KEY = 5 << 12 | 7 };

extern uint8_t gid[16];
extern pthread_mutex_t nic_lock;
extern const struct sn_local_guard guard;
extern const struct sn_peer_ops *const ops;
/* The data that both ends of the hosts' connection share. */
struct sn_peer_terms host_terms(void);

/* The meeting name of the last host that was opened with this slot. */
const uint8_t *name_of_slot(unsigned slot);
/* Questions for names get lost from now on, or no longer. */
void silence(bool on);

/* Fails the test if it does not work. */
struct sn_local *open_host(unsigned slot, bool copy);
/* Often enough for them to meet; each may be NULL. */
void serve(struct sn_local *a, struct sn_local *b);
/* Waits until a has met the process that has QPN_B. */
struct sn_peer *find_owner(struct sn_local *a);

/* a meets b, which must not be known to it yet. */
void meet(struct sn_local *a, struct sn_local *b);
/* A frame of N such bytes to the slot's owner, which is met. Was it taken? */
bool send_frame(struct sn_local *h, unsigned slot, uint8_t fill, uint32_t len);
/* The first frames of a peer are noticed: those that it sent before over the wire have their chance. */
void hear_first(struct sn_local *h);
/* A child with a region of `mem` (shared with us, so that we see it; the kernel copies to it all the same)
 * and a queue pair for us. It says when it is ready, and serves until it is killed. */
pid_t start_owner(uint8_t *mem, size_t length, int ready[2]);

#endif
