/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h: a process's place at an address.
 *
 * Processes that share an address share its 256 slots. Slot s is UDP port 0xc000 + s at the address, and
 * binding that port is the claim: no two processes succeed, also of different users, and the kernel frees it
 * when the process dies, however it dies. A queue pair's number starts with its process's slot, so everybody
 * can tell from a number where to send. The socket is also the one that frames leave from, so a frame's
 * source port names its sender's slot.
 *
 * NICs at other addresses of this host send there, too: near.h. Frames from other hosts arrive at port 4791. Every process at the address tries to have that too, by
 * SO_REUSEPORT; the kernel gives each flow to one of them, which passes on what is another's.
 */
#ifndef SN_WIRE_SLOT_H
#define SN_WIRE_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "softnic/wire/addr.h"

enum { SN_SLOTS = 256, SN_SLOT_PORT = 0xc000 };

static inline bool sn_is_slot_port(uint16_t port)
{
    return port >= SN_SLOT_PORT && port < SN_SLOT_PORT + SN_SLOTS;
}

struct sn_slot {
    unsigned slot;
    int fd;         /* bound to the slot's port: everything is sent from here */
    int shared_fd;  /* bound to port 4791; -1 when the process could not join */
    int shared_err; /* why not: a negative errno */
    int claim_fd;   /* keeps the name that tells of the slot (near.h); -1: it could not be had */
};

/*
 * Claims a slot at addr, starting to look at number `start`. Returns 0 or a negative errno with one line in
 * why (256 bytes): -EADDRNOTAVAIL the address is not this host's, -EADDRINUSE all slots are taken, others
 * from socket and bind.
 */
int sn_slot_claim(const struct sn_addr *addr, unsigned start, struct sn_slot *slot, char why[256]);
void sn_slot_release(struct sn_slot *slot);

#endif
