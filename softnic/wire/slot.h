/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h: a process's place at an address.
 *
 * Processes that share an address share its 256 slots. Slot s is UDP port 0xc000 + s at the address. A queue
 * pair's number starts with its process's slot, so everybody can tell from a number where to send. The socket
 * is also the one that frames leave from, so a frame's source port names its sender's slot.
 *
 * Three sockets hold a slot, and the kernel frees them when the process dies, however it dies:
 *  - one at port 0xc000 + s of the address. It alone sends and receives.
 *  - one at port 0xc100 + s of the address. It is never shared, so of a user's processes one has the slot.
 *  - one at port 0xc000 + s of all addresses. The same user's slots at other addresses share it
 *    (SO_REUSEPORT). It keeps other users from that port number at every address. Without it a socket at
 *    another address could send from the slot's address. IP_PKTINFO sets the source address of a packet, and
 *    the kernel asks only whether it is the host's. A frame for that slot number at another address of the
 *    host, where no process has the slot, ends in this socket: its sender gets no ICMP refusal. A narrower
 *    socket would not do. A process may bind any address, even none of this host's (IP_FREEBIND). So a list
 *    of addresses leaves some out. A connect() would keep frames out, but it binds the socket to one address.
 *
 * Frames from other hosts arrive at port 4791. Every process at the address tries to have that too, by
 * SO_REUSEPORT; the kernel gives each flow to one of them, which passes on what is another's.
 */
#ifndef SOFTNIC_WIRE_SLOT_H
#define SOFTNIC_WIRE_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "softnic/config/addr.h"
#include "softnic/nic/nic.h"

/* Processes of one user meet by a random name of this length in bytes. The owner of a slot tells it to a
 * process that asks with a random nonce: wire/udp_hello.c, local/meet.c. */
enum { SN_MEET_NAME = 16, SN_MEET_NONCE = 16 };

enum { SN_SLOTS = 256, SN_CLAIM_PORT = SN_SLOT_PORT + SN_SLOTS };

static inline bool sn_is_slot_port(uint16_t port)
{
    return port >= SN_SLOT_PORT && port < SN_SLOT_PORT + SN_SLOTS;
}

struct sn_slot {
    unsigned slot;
    int fd;         /* bound to the slot's port: everything is sent from here */
    int shared_fd;  /* bound to port 4791; -1 when the process could not join */
    int shared_err; /* why not: a negative errno */
    int claim_fd;   /* the user's only one for this slot */
    int guard_fd;   /* keeps other users from the slot's port at other addresses */
};

/*
 * Claims a slot at addr, starting to look at number `start`. Returns 0 or a negative errno with one line in
 * why (256 bytes): -EADDRNOTAVAIL the address is not this host's, -EADDRINUSE all slots are taken, others
 * from socket and bind.
 */
int sn_slot_claim(const struct sn_addr *addr, unsigned start, struct sn_slot *slot, char why[256]);
void sn_slot_release(struct sn_slot *slot);

#endif
