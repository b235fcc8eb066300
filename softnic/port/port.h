/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h: what a process's NIC is connected to: UDP sockets, or an Ethernet link. If GPUWIRE_NIC, or a later
 * call, asks for it, there is a capture at the sockets, and a faulty network between those and the engine, in
 * each direction.
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

struct sn_port;

/* For struct sn_nic_config, with the port as context. Called inside the engine's lock. */
extern const struct sn_wire_ops sn_port_wire_ops;

/*
 * Opens the wire that config asks for. config has its defaults filled in: address, seed (of the faults, and
 * of where to look for a free slot). 0, or a negative errno with one line in why.
 */
int sn_port_open(const struct sn_config *config, struct sn_port **port, char why[256]);
void sn_port_close(struct sn_port *port);
/* Inside the NIC's lock, or when it is gone. Frames that the faults hold back leave now: they have left the
 * process, and its end does not take them back. sn_port_close does so, too. */
void sn_port_let_go(struct sn_port *port);
/* See sn_udp_on_refused; nothing on a wire that does not report it. */
void sn_port_on_refused(struct sn_port *port, sn_udp_refused *refused);

/* Any thread: */
int sn_port_fetch(struct sn_port *port); /* sn_udp_fetch, where config says that there are threads for it */
unsigned sn_port_slot(const struct sn_port *port);     /* bits 16 … 23 of the NIC's queue pair numbers */
uint16_t sn_port_udp_port(const struct sn_port *port); /* UDP source port of what it sends */
/* Bytes of frames that wait to be received at most: those of all peers together. */
uint32_t sn_port_room(const struct sn_port *port);
/* What to wait for with POLLIN: returns how many. */
enum { SN_PORT_FDS = 3 };
int sn_port_fds(const struct sn_port *port, int fds[SN_PORT_FDS]);
/* Of these the sockets that packets come to. */
int sn_port_sockets(const struct sn_port *port, int fds[SN_PORT_FDS]);
/* More that a forked child is to close, or it would keep the parent's address or slot taken. Returns how
 * many. */
enum { SN_PORT_CLAIMS = 2 };
int sn_port_claim_fds(const struct sn_port *port, int fds[SN_PORT_CLAIMS]);
/* Peers of this host; NULL: none are looked for. */
struct sn_local *sn_port_local(const struct sn_port *port);
/* How they are reached, one line. Inside the engine's lock; may read a file. */
void sn_port_local_text(const struct sn_port *port, char *text, size_t size);
/* "" or one line on what does not work here. */
const char *sn_port_note(const struct sn_port *port);
bool sn_port_note_matters(const struct sn_port *port); /* as sn_udp_note_matters */
/* Which of these were found to work: frames in one message (segmentation offload), UDP port 4791. On Ethernet
 * neither is used. */
bool sn_port_segments(const struct sn_port *port);
bool sn_port_has_rocev2(const struct sn_port *port);
void sn_port_stats(const struct sn_port *port, struct sn_udp_stats *stats);
/* When delayed frames are due, on CLOCK_MONOTONIC; SN_NEVER if there are none. */
uint64_t sn_port_next(const struct sn_port *port);
/* NULL: there is no capture. */
struct sn_pcap *sn_port_pcap(const struct sn_port *port);

/* How often receives by the calling thread ask the system: seldom, when shared memory is more likely to bring
 * something (what threads begin with); never, because nothing waits or other threads ask; every time. */
enum sn_port_ask { SN_ASK_SELDOM, SN_ASK_NEVER, SN_ASK_ALWAYS };
void sn_port_ask(enum sn_port_ask ask);

/* Inside the engine's lock: from now on the network is as `faults` say. Random faults start again with *seed.
 * With NULL they go on. 0 or -ENOMEM, and not all is changed. */
int sn_port_set_faults(struct sn_port *port, const struct sn_faults *faults, const uint64_t *seed);
/* Inside the engine's lock: how the network is, and what it did so far. */
struct sn_port_faults {
    struct sn_faults set;
    struct sn_fault_stats tx, rx;
};
void sn_port_faults(const struct sn_port *port, struct sn_port_faults *out);

#endif
