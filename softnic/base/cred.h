/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cred.h: is a peer of this host one of our own user?
 *
 * The kernel tells the user of a peer as a number of our own user namespace. A user that has no number there
 * appears as the overflow uid (65534, or what /proc/sys/kernel/overflowuid says). So in a user namespace that
 * does not map every user, that number names any stranger. A process that runs as the overflow uid there
 * trusts no other process.
 *
 * Any thread. Never in a signal handler.
 */
#ifndef SOFTNIC_BASE_CRED_H
#define SOFTNIC_BASE_CRED_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct ucred; /* <sys/socket.h> has it with _GNU_SOURCE */

/* Does the peer certainly belong to this user? False for the overflow uid outside the initial user
 * namespace. */
bool sn_cred_is_user(const struct ucred *peer, uid_t uid);

/* Is the peer of the same effective user as this process? */
bool sn_cred_is_ours(const struct ucred *peer);

/* Can this process tell its own user from strangers at all? If not, sn_cred_is_ours is false for everyone. */
bool sn_cred_has_own_user(void);

/* The process that connected this UNIX socket, or that listens at its other end. Returns 0 or a negative
 * errno. */
int sn_cred_of_socket(int fd, struct ucred *peer);

#endif
