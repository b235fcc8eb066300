/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h: what a process's NIC is connected to: UDP sockets, behind an unkind network if GPUWIRE_NIC asks for
 * one. */
#ifndef SN_WIRE_WIRE_H
#define SN_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic.h"
#include "softnic/wire/fault.h"
#include "softnic/wire/udp.h"

struct sn_wire;

/* For struct sn_nic_config, with the wire as context. Called inside the engine's lock. */
extern const struct sn_wire_ops sn_wire_ops;

/* 0, or a negative errno with one line in why. The seed is of the faults and of where to look for a free
 * slot. */
int sn_wire_open(const struct sn_addr *addr, const struct sn_fault_params *fault, uint64_t seed,
                 struct sn_wire **wire, char why[256]);
void sn_wire_close(struct sn_wire *wire);

/* Any thread: */
struct sn_udp *sn_wire_udp(const struct sn_wire *wire);
/* When delayed frames are due, on CLOCK_MONOTONIC; SN_NEVER if there are none. */
uint64_t sn_wire_next(const struct sn_wire *wire);

/* Tells the wire whether the calling thread has just seen that nothing waits in its sockets: then its
 * receives do not ask the system again, until it says otherwise. */
void sn_wire_expect_nothing(bool nothing);

#endif
