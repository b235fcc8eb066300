/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of NICs for tests: two at one address of the test's own. The NIC's lock is a mutex of the test's. */
#ifndef TESTS_HOST_HOSTS_H
#define TESTS_HOST_HOSTS_H

#include <pthread.h>

#include "softnic/host/host.h"

enum { A = 1, B = 2, QPN_A = A << 16 | 0x111, QPN_B = B << 16 | 0x222, KEY = 5 << 12 | 7 };

extern uint8_t gid[16];
extern pthread_mutex_t nic_lock;
extern const struct sn_host_guard guard;
extern const struct sn_peer_ops *const ops;

/* Fails the test if it does not work. */
struct sn_host *open_host(unsigned slot, bool copy);
/* Often enough for them to meet; each may be NULL. */
void serve(struct sn_host *a, struct sn_host *b);
/* Waits until a has met the process that has QPN_B. */
struct sn_peer *find_owner(struct sn_host *a);

#endif
