/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.h: how processes of one host find each other and exchange shared memory.
 *
 * A process listens on an abstract UNIX socket whose name is random, so that no other process can have it
 * first. A peer asks the process's slot for the name (wire/udp_hello.c): only the owner of a slot's port gets
 * what is sent there. Then it connects, hands over a channel and is given the table. That connection also
 * tells of a death, by its end, and wakes, by a byte.
 *
 * Nothing here waits. Negative errnos; -EAGAIN: later.
 */
#ifndef SOFTNIC_LOCAL_MEET_H
#define SOFTNIC_LOCAL_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "softnic/local/local.h"

/* What is said at the beginning, in both directions; with it goes one fd: the maker's channel, the taker's
 * table. */
struct sn_hello {
    uint64_t magic;
    uint32_t version, slot;
    uint8_t gid[16]; /* who says it */
};
#define SN_HELLO_MAGIC UINT64_C(0x31304f4c4c454847)

/* A socket that listens for peers, of the same user only, and its name. */
int sn_meet_listen(uint8_t name[SN_MEET_NAME]);
/* Begins to speak to the one of that name. -ECONNREFUSED: there is none. */
int sn_meet_connect(const uint8_t name[SN_MEET_NAME]);
/* The next who connected. */
int sn_meet_accept(int listener);
/* Is the process at the other end one of the same user? Then *pid is its number here, 0 if it has none. */
bool sn_meet_is_ours(int fd, pid_t *pid);

/* With one fd to hand over. */
int sn_meet_say(int fd, const struct sn_hello *hello, int hand_over);
/* 0: *fd_got is the fd that came with it, and the caller's. -EAGAIN: nothing yet; -EPIPE: the other is gone;
 * -EPROTO: not a hello of this version. */
int sn_meet_hear(int fd, struct sn_hello *hello, int *fd_got);
/* Takes what bytes there are. False: the other is gone. */
bool sn_meet_drain(int fd);
/* Is the other still there? Takes nothing. */
bool sn_meet_alive(int fd);
/* Sends a byte, which ends a sleep. */
void sn_meet_wake(int fd);

/* Memory to share, that cannot shrink any more; with read_only only the maker can write to it. *at is
 * its place here. Returns its fd. */
int sn_share_make(size_t size, bool read_only, void **at);
/* Maps memory that came from a peer. -EPROTO: not of that size, or it could shrink under us. */
int sn_share_map(int fd, size_t size, bool write, void **at);

#endif
