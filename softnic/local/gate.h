/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h: the one way from a process's engine to a copy in another's memory, which that one can shut.
 *
 * A process that gives memory back waits until no peer is in an access to it (the channel's epoch is even). A
 * peer may be stopped inside an access, by a debugger or a shell, say. It would keep us waiting for as long
 * as it stands still, and would go on with the copy afterwards. So the pieces of the owner's memory that a
 * copy is to reach lie in the channel, where the system call reads them. The owner puts a length there with
 * which the whole call fails. (EINVAL: iovec(3) lengths are signed, and the kernel looks at all of them
 * before it copies anything.) A thread that is seen stopped afterwards is not inside the call. So what it
 * does next in that access is refused, and its request goes by packets.
 *
 * Copies by other means, copy engines and those within one process, cannot be taken back: they are announced.
 */
#ifndef SOFTNIC_LOCAL_GATE_H
#define SOFTNIC_LOCAL_GATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "softnic/local/share.h"

/* The channel's maker, before a system call that reads ch->there, in the access `epoch`; n pieces, at most
 * SN_SHARE_PIECES. False: the access was taken back, and nothing may be copied. */
bool sn_gate_lay(struct sn_channel *ch, uint32_t epoch, const struct iovec *there, unsigned n);
/* The call failed with EINVAL: was it for that? */
bool sn_gate_is_shut(const struct sn_channel *ch);
/* The maker, before a copy that cannot be taken back. False: the access was. */
bool sn_gate_pass(struct sn_channel *ch, uint32_t epoch);

/* The taker: takes the access back. False: it may be a copy that cannot be. */
bool sn_gate_shut(struct sn_channel *ch, uint32_t epoch);

/* Has each thread of the process been seen stopped? May read some files. False also if they cannot be
 * read. */
bool sn_process_stands_still(pid_t pid);

#endif
