/* SPDX-License-Identifier: Apache-2.0 */
/*
 * udp.h: RoCEv2 frames over the host's UDP sockets.
 *
 * A frame is a UDP payload: BTH … ICRC. A frame to an address of this host goes straight to the port of the
 * slot that its queue pair's number names. So no other process there can hold it up. Any other goes to port
 * 4791, as on the wire. Each counts as sent to port 4791 for the ICRC, from the port of the sender's slot.
 * See slot.h and near.h for the receivers of each frame.
 *
 * Frames of one length to one slot leave as one message that the kernel need not take apart: many times
 * faster than one by one. Nothing of the kind leaves the host, because the ICRC covers the IPv4 IDs.
 *
 * A frame that came to port 4791 and is another process's is passed on to it, once, in a wrapper that names
 * where it came from. Wrappers are accepted only from slot ports of the own address, and only from the user
 * of port 4791 there.
 *
 * One thread at a time (the engine's lock), except the functions marked "any thread". Other threads may
 * receive from the sockets, and check the ICRCs, while one is inside the engine: sn_udp_fetch. Frames are
 * given out in the order in which the threads received them.
 */
#ifndef SOFTNIC_WIRE_UDP_H
#define SOFTNIC_WIRE_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "softnic/wire/slot.h"

enum {
    SN_UDP_BATCH = 64,
    SN_UDP_FRAME = SN_FRAME_MAX + 64, /* the longest frame taken */
    SN_UDP_WRAPPER = 40,
};

struct sn_udp_stats {
    uint64_t tx_frames, tx_bytes;
    uint64_t tx_errors; /* frames the system refused: no route, too long for the path */
    uint64_t tx_waits;  /* times the send buffer was full */
    uint64_t rx_frames, rx_bytes;
    uint64_t rx_checked;   /* of rx_frames: ICRC checked outside the engine's lock */
    uint64_t rx_unwrapped; /* of rx_frames: passed on to us by another process */
    uint64_t passed_on;    /* frames for other slots, passed on */
    uint64_t pass_failed;  /* that could not be passed on */
    uint64_t rx_dropped;   /* neither a frame nor a wrapper for this process, too long, from a wrong port */
    /* no process at the port or no host that a frame went to (it may be reported late or not at all) */
    uint64_t refused;
    uint64_t memory_lost; /* not over the wire: a peer of this host took no frames from shared memory */
};

struct sn_udp;

/* Claims a slot and opens the wire. 0, or a negative errno with one line in why. seed picks where to look for
 * a slot. */
int sn_udp_open(const struct sn_addr *addr, uint64_t seed, struct sn_udp **udp, char why[256]);
void sn_udp_close(struct sn_udp *udp);

/* Frames leave and arrive one to a message from now on. Before anything is sent. */
void sn_udp_no_segments(struct sn_udp *udp);

/* Sets how many threads will receive, 1 … SN_MAX_THREADS; before any does. 0 or -ENOMEM. */
int sn_udp_threads(struct sn_udp *udp, unsigned threads);

/* The congestion marks in the IP headers of frames sent from now on: sn_frame.ecn. */
void sn_udp_mark(struct sn_udp *udp, uint8_t ecn);

/*
 * Called when no process has the port that a frame went to (the host there said so), with the address, and
 * the beginning of the frame. Called within sends and receives. Before the first of them.
 */
typedef void sn_udp_refused(const uint8_t gid[16], const uint8_t *frame, size_t len);
void sn_udp_on_refused(struct sn_udp *udp, sn_udp_refused *refused);

/*
 * Between processes of this host: udp_hello.c. name: this process is met by it; NULL: it is not met. told is
 * called within receives when a process of this host answers sn_udp_ask. Before the first receive.
 */
struct sn_udp_hello {
    const uint8_t *name;
    void (*told)(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE],
                 const uint8_t name[SN_MEET_NAME]);
    void *ctx;
};
void sn_udp_on_hello(struct sn_udp *udp, const struct sn_udp_hello *hello);
/* Any thread. False: it is no address of this host. The question may get lost. */
bool sn_udp_ask(const struct sn_udp *udp, const uint8_t gid[16], unsigned slot,
                const uint8_t nonce[SN_MEET_NONCE]);

/* Any thread. */
unsigned sn_udp_slot(const struct sn_udp *udp);
uint16_t sn_udp_port(const struct sn_udp *udp); /* the source port of what it sends */
const struct sn_addr *sn_udp_addr(const struct sn_udp *udp);
/* Sockets to wait for with POLLIN: returns 1 or 2. */
int sn_udp_fds(const struct sn_udp *udp, int fds[2]);
/* The sockets that keep others from the slot. */
void sn_udp_claim_fds(const struct sn_udp *udp, int fds[2]);
/* Bytes of frames that wait to be received at most. */
uint32_t sn_udp_room(const struct sn_udp *udp);
/* "" or one line on what does not work at this address. */
const char *sn_udp_note(const struct sn_udp *udp);
/* Is that to be said at once, without being asked? Another user is in the way, or cannot be told from this
 * one, or nothing gets through. */
bool sn_udp_note_matters(const struct sn_udp *udp);
void sn_udp_stats(const struct sn_udp *udp, struct sn_udp_stats *stats);
/* Do frames to processes of this host leave many to a message (segmentation offload)? As far as tried.
 */
bool sn_udp_segments(const struct sn_udp *udp);

/* Sends frames in order. Returns how many were taken: fewer than n when the system's buffer is full; the rest
 * is to be offered again. A frame that the system refuses counts as taken and lost, as on a wire. */
int sn_udp_send(struct sn_udp *udp, const struct sn_frame *tx, int n);

/* Receives up to max (at most SN_UDP_BATCH) frames without waiting, valid until the next receive; passes on
 * what is another process's. Returns how many; *more says that there may be more waiting, also when it
 * returns 0. */
int sn_udp_recv(struct sn_udp *udp, struct sn_frame *rx, int max, bool *more);

/* Which process of this host has that slot. As struct sn_wire_ops. */
struct sn_owner sn_udp_owner(struct sn_udp *udp, const uint8_t gid[16], unsigned slot);

/* Does the next sn_udp_recv have something to do without asking the system? */
bool sn_udp_holds_frames(const struct sn_udp *udp);
/* The last sn_udp_recv that returned 0 found out one of these. Nothing is left, in either socket. Or another
 * thread is at them, or has frames in its hands, and will bring the engine to look. Or neither. */
enum sn_udp_left { SN_UDP_PERHAPS, SN_UDP_NOTHING, SN_UDP_ANOTHERS };
enum sn_udp_left sn_udp_left(const struct sn_udp *udp);

/*
 * Any thread, not inside the engine: receives what there is, checks it, and puts it where sn_udp_recv finds
 * it. Returns 1 if something was received, so the engine is to look, and 0 if there was nothing. Returns
 * -EAGAIN if there is no room until the engine has looked.
 */
int sn_udp_fetch(struct sn_udp *udp);

#endif
