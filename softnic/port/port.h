/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h: what a process's NIC is connected to: UDP sockets, or an Ethernet link. If GPUWIRE_NIC, or somebody
 * later, asks for it, there is a capture at the sockets, and an unkind network between those and the engine,
 * in each direction.
 */
#ifndef SOFTNIC_PORT_PORT_H
#define SOFTNIC_PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/config/config.h"
#include "softnic/local/local.h"
#include "softnic/nic/nic.h"
#include "softnic/wire/eth.h"
#include "softnic/wire/fault.h"
#include "softnic/wire/pcap.h"
#include "softnic/wire/udp.h"

struct sn_wire;

/* For struct sn_nic_config, with the wire as context. Called inside the engine's lock. */
extern const struct sn_wire_ops sn_wire_ops;

/*
 * Opens the wire that config asks for. config has its defaults filled in: address, seed (of the faults, and
 * of where to look for a free slot). 0, or a negative errno with one line in why.
 */
int sn_wire_open(const struct sn_config *config, struct sn_wire **wire, char why[256]);
void sn_wire_close(struct sn_wire *wire);
/* See sn_udp_on_refused; nothing on a wire where nobody says so. */
void sn_wire_on_refused(struct sn_wire *wire, sn_udp_refused *refused);

/* Any thread: */
int sn_wire_fetch(struct sn_wire *wire); /* sn_udp_fetch, where config says that there are threads for it */
unsigned sn_wire_slot(const struct sn_wire *wire); /* bits 16 … 23 of the NIC's queue pair numbers */
uint16_t sn_wire_port(const struct sn_wire *wire); /* UDP source port of what it sends */
/* Bytes of frames that wait to be received at most: those of all peers together. */
uint32_t sn_wire_room(const struct sn_wire *wire);
/* What to wait for with POLLIN: returns how many. */
enum { SN_WIRE_FDS = 3 };
int sn_wire_fds(const struct sn_wire *wire, int fds[SN_WIRE_FDS]);
/* Of these the sockets that packets come to. */
int sn_wire_sockets(const struct sn_wire *wire, int fds[SN_WIRE_FDS]);
/* More that a forked child is to close, lest it keep the parent's address or slot taken. Returns how many. */
enum { SN_WIRE_CLAIMS = 2 };
int sn_wire_claim_fds(const struct sn_wire *wire, int fds[SN_WIRE_CLAIMS]);
/* Peers of this host; NULL: none are looked for, and why not. */
struct sn_host *sn_wire_host(const struct sn_wire *wire);
const char *sn_wire_why_no_host(const struct sn_wire *wire);
/* How they are reached, one line. Inside the engine's lock; may read a file. */
void sn_wire_local_text(const struct sn_wire *wire, char *text, size_t size);
/* "" or one line on what does not work here. */
const char *sn_wire_note(const struct sn_wire *wire);
bool sn_wire_note_matters(const struct sn_wire *wire); /* as sn_udp_note_matters */
/* What was found to work: frames in one message (segmentation offload), UDP port 4791. On Ethernet neither is
 * used. */
bool sn_wire_segments(const struct sn_wire *wire);
bool sn_wire_has_port(const struct sn_wire *wire);
void sn_wire_stats(const struct sn_wire *wire, struct sn_udp_stats *stats);
/* When delayed frames are due, on CLOCK_MONOTONIC; SN_NEVER if there are none. */
uint64_t sn_wire_next(const struct sn_wire *wire);
/* NULL: there is no capture. */
struct sn_pcap *sn_wire_pcap(const struct sn_wire *wire);

/* How often receives by the calling thread ask the system: seldom, when shared memory is the more likely to
 * bring something (what threads begin with); never, since nothing waits or others see to it; every time. */
enum sn_wire_ask { SN_ASK_SELDOM, SN_ASK_NEVER, SN_ASK_ALWAYS };
void sn_wire_ask(enum sn_wire_ask ask);

/* Inside the engine's lock: from now on the network is as `faults` say; what happens by chance begins anew
 * with *seed, or goes on if that is NULL. 0 or -ENOMEM, and not all is changed. */
int sn_wire_set_faults(struct sn_wire *wire, const struct sn_faults *faults, const uint64_t *seed);
/* Inside the engine's lock: how the network is, and what it did so far. */
struct sn_wire_faults {
    struct sn_faults set;
    struct sn_fault_stats tx, rx;
};
void sn_wire_faults(const struct sn_wire *wire, struct sn_wire_faults *out);

#endif
