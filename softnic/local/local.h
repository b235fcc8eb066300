/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.h: the NIC's peers on the same host. It gives the engine direct access to their memory (struct
 * sn_peer_ops), and carries frames to them through shared memory.
 *
 * The NIC's own thread meets peers, in the background and only when something is to be sent to them. Until
 * then, and where it does not work, everything goes over the wire.
 *
 * "Inside": inside the NIC's lock. "Thread": the NIC's own thread, not inside.
 */
#ifndef SOFTNIC_LOCAL_LOCAL_H
#define SOFTNIC_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "softnic/wire/slot.h"

struct sn_local;

struct sn_local_config {
    uint8_t gid[16];
    unsigned slot;
    bool copy; /* memory may be copied directly, where that works; else frames only */
    /*
     * Asks the process that has the slot there for the name by which it is met; sn_local_told is called when
     * it has answered. The answer must name the nonce, which only that process gets to know. False: no
     * process of this host is there. Thread.
     */
    bool (*ask)(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE]);
    void *ask_ctx;
};

enum { SN_LOCAL_RX = 32 }; /* frames given out at once */

/* 0, or a negative errno with one line in why. */
int sn_local_open(const struct sn_local_config *config, struct sn_local **local, char why[256]);
void sn_local_close(struct sn_local *local); /* the NIC is gone, or was never made */

/* The name by which this process is met. */
const uint8_t *sn_local_name(const struct sn_local *local);
/* Inside. The answer of that slot's owner to such a question. A name of zeros: it shares no memory. */
void sn_local_told(struct sn_local *local, const uint8_t gid[16], unsigned slot,
                   const uint8_t nonce[SN_MEET_NONCE], const uint8_t name[SN_MEET_NAME]);

/* For struct sn_nic_config, with it as context. */
extern const struct sn_peer_ops sn_local_peer_ops;

/* Inside. Is the frame for a peer that was met? Then sn_local_send takes it. */
bool sn_local_reaches(struct sn_local *local, const struct sn_frame *frame);
/* Inside. Frames to peers met. 1: taken, or lost, as there was no room, for which who makes frames asks
 * beforehand (struct sn_peer_ops); -ENOENT: not such a peer's. */
int sn_local_send(struct sn_local *local, const struct sn_frame *frame);
/* Inside, after frames were sent: wakes those peers that sleep. */
void sn_local_sent(struct sn_local *local);
/* Inside. Up to max (at most SN_LOCAL_RX) frames from peers, valid until the next call. The call that
 * finds a peer's first ones takes none of them, but counts the peer with sn_local_met: those that it sent
 * before over the wire come first. */
int sn_local_recv(struct sn_local *local, struct sn_frame *frames, int max);
/* Inside: everything over the wire from now on, in both directions; or no longer. */
void sn_local_pause(struct sn_local *local, bool pause);
/* Inside: peers that have begun to send frames here, so far. */
unsigned sn_local_met(const struct sn_local *local);
/* Any thread: frames for peers that had no room, so far. */
uint64_t sn_local_lost(const struct sn_local *local);
/* Any thread: peers that send frames here. */
unsigned sn_local_senders(const struct sn_local *local);

/* Thread. An fd to wait for with POLLIN, and what to do when it has something, or now and then. */
int sn_local_fd(const struct sn_local *local);
struct sn_local_guard { /* the NIC's lock */
    void (*lock)(struct sn_nic *nic);
    void (*unlock)(struct sn_nic *nic);
    struct sn_nic *nic;
};
void sn_local_serve(struct sn_local *local, const struct sn_local_guard *guard);
/* Thread: it is about to sleep, and wants to be woken by frames. False: there are some. */
bool sn_local_doze(struct sn_local *local);
void sn_local_wake(struct sn_local *local);

/* In a forked child, which must not seem to be the parent: closes what it has open. Takes no lock. */
void sn_local_forked(struct sn_local *local);

struct sn_local_info {
    unsigned copying, framing, senders; /* peers whose memory is reached; frames only; that send to us */
    bool copy;                          /* as configured */
    char why[256];                      /* "" or why some peer's memory is not, or none's will be reached */
};
void sn_local_info(struct sn_local *local, struct sn_local_info *info); /* inside */

#endif
