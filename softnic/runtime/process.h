/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h: the NICs of this process, as GPUWIRE_NIC says: one or several, each at an address of its own.
 * Each has a thread that serves what no application thread drives.
 *
 * The first user of one makes it, the last destroys it. A forked child has none of its parent's: their queues
 * are in memory that it does not share with the NIC's thread, which stayed with the parent. It may make NICs
 * of its own.
 */
#ifndef SOFTNIC_RUNTIME_PROCESS_H
#define SOFTNIC_RUNTIME_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "softnic/config/config.h"
#include "softnic/nic/nic.h"
#include "softnic/wire/udp.h"

/* Called by the NIC, in whichever thread drives it, with its lock held: must neither block nor call back. */
struct sn_process_callbacks {
    void (*cq_event)(void *user, void *cq_user);
    void (*async_event)(void *user, enum ibv_event_type type, void *object_user);
    bool (*mad)(void *user, const uint8_t dgid[16], const uint8_t sgid[16], int slot,
                uint8_t mad[SN_MAD_LEN]);
    sn_udp_refused *refused; /* may be NULL */
    /* This one by a thread that holds no lock of the NIC's: programs must get the device's own event. */
    void (*device_event)(struct sn_nic *nic, enum ibv_event_type type);
    void *user;
};

/* How many NICs there are: 1 … SN_MAX_NICS, or -EINVAL with one line in why. They are named by an index below
 * that. */
int sn_process_nics(char why[SN_CONFIG_WHY]);

/*
 * Takes a reference on one of the process's NICs, making it if need be. The callbacks are the first caller's.
 * Returns 0 and *nic, or a negative errno after one line on stderr that says what is wrong: -EINVAL
 * GPUWIRE_NIC is malformed, -EADDRNOTAVAIL, -EADDRINUSE (all slots taken), -ENOMEM,
 * others from the system. Any thread.
 */
int sn_process_nic_get(unsigned index, const struct sn_process_callbacks *callbacks, struct sn_nic **nic);

/* Gives the reference back. The last one stops the thread (within 100 ms) and destroys the NIC, in which no
 * objects may be left. Any thread but its own; nothing happens to a NIC of a forked child's parent. */
void sn_process_nic_put(struct sn_nic *nic);

/*
 * Lets the calling thread do what it has just posted (sn_nic_posted); it does not count as one that polls.
 * But posts that follow each other within half a microsecond wait, from the fourth on, for up to 32 to be
 * done together. A poll does it too. Where neither comes the NIC's thread does it within SN_GATHER_NS, as far
 * as it is let run. Returns as sn_process_nic_drive, SN_NEVER if the post waits.
 */
uint64_t sn_process_nic_posted(struct sn_nic *nic);

/*
 * Lets the calling thread do the NIC's work: what polling calls. The NIC's own thread stays away
 * while others call this often. Returns what sn_nic_progress does; SN_NEVER of a NIC of a forked child's
 * parent. Any thread that holds a reference.
 */
uint64_t sn_process_nic_drive(struct sn_nic *nic);

/*
 * Tells the NIC's thread that it is alone. Call it before an application thread sleeps until an event, after
 * it armed a completion queue. Call it also after a change that the NIC's thread cannot see by itself: a
 * queue pair can be rung from now on. Wakes it if it sleeps without a limit or stays away; else two atomic
 * accesses. Never blocks. Any thread that holds a reference.
 */
void sn_process_nic_kick(struct sn_nic *nic);

/*
 * The configuration a NIC has, or would have: reads GPUWIRE_NIC and fills in the default address and MTU,
 * without making the NIC. Returns 0, or -EINVAL with one line in why.
 */
int sn_process_config(unsigned index, struct sn_config *config, char why[SN_CONFIG_WHY]);

/* The facts that `gpuwire info` shows. */
struct sn_process_info {
    struct sn_config config; /* address and MTU filled in */
    unsigned slot;
    bool has_port;   /* it listens to port 4791, so only its own user does at this address */
    char note[256];  /* "" or one line on what does not work here: port 4791 is another's */
    char local[384]; /* how peers on the same host are reached */
    struct sn_udp_stats wire;
    struct sn_counters nic;
};

/* 0, or -ENODEV when the process has not made it. Any thread. */
int sn_process_nic_info(unsigned index, struct sn_process_info *info);

#endif
