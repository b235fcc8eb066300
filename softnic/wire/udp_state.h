/* SPDX-License-Identifier: Apache-2.0 */
/* udp_state.h: what udp.c, udp_send.c, udp_fetch.c and udp_recv.c share. */
#ifndef SOFTNIC_WIRE_UDP_STATE_H
#define SOFTNIC_WIRE_UDP_STATE_H

#include <pthread.h>
#include <sys/socket.h>

#include "softnic/config/config.h"
#include "softnic/wire/near.h"
#include "softnic/wire/owner.h"
#include "softnic/wire/udp.h"
#include "src/roce/cm.h"

enum {
    SN_UDP_SEGMENTS = 64,     /* frames that one message may hold, both ways: the kernel's limit */
    SN_UDP_DATAGRAM = 65507,  /* bytes of them */
    SN_UDP_MESSAGES = 32,     /* messages received by one system call */
    SN_UDP_LONG = 16384,      /* bytes of messages that are long, */
    SN_UDP_LONG_MESSAGES = 4, /* and how many of them are a batch where several threads check them */
    SN_UDP_BATCHES = 2 * SN_MAX_THREADS,
    /* Of a receive buffer. Not a power of two: the buffers' beginnings would compete for the same cache
       lines. */
    SN_UDP_ROOM = 65536 + 320,
};

/* Messages to be sent with one system call. */
struct sn_udp_out {
    int messages, iovs;
    struct mmsghdr msg[SN_UDP_BATCH];
    struct iovec iov[2 * SN_UDP_BATCH];
    struct sockaddr_in6 name[SN_UDP_BATCH];
    uint16_t frames[SN_UDP_BATCH]; /* in each message */
    _Alignas(struct cmsghdr) uint8_t control[SN_UDP_BATCH][CMSG_SPACE(sizeof(uint16_t))];
};

/* The common fields of all frames of a received message. */
struct sn_udp_cut {
    struct sn_frame frame; /* without data and length */
    uint32_t segment;      /* length of each but the last; 0: the message is one frame */
    bool good;             /* it came whole, and from an address */
};

/* Messages received by one system call, and how far they have been taken apart into frames. */
struct sn_udp_in {
    int ready; /* atomic: the thread that received them is done with them */
    int messages, next;
    bool shared;                       /* they came to port 4791 */
    bool full;                         /* there may be more where they come from */
    uint32_t offset;                   /* in message `next` */
    unsigned frame;                    /* there: its number */
    struct sn_udp_cut cut;             /* of message `next`, once its first frame was taken */
    uint64_t checked[SN_UDP_MESSAGES]; /* frames of each whose ICRC was found right, a bit for each */
    struct mmsghdr msg[SN_UDP_MESSAGES];
    struct iovec iov[SN_UDP_MESSAGES];
    struct sockaddr_in6 name[SN_UDP_MESSAGES];
    _Alignas(struct cmsghdr) uint8_t control[SN_UDP_MESSAGES][2 * CMSG_SPACE(sizeof(int))];
    uint8_t data[SN_UDP_MESSAGES][SN_UDP_ROOM];
};

struct sn_udp {
    struct sn_addr addr;
    struct sn_slot slot;
    struct sn_near_cache near_cache;
    struct sn_owners owners;  /* of peers' slots, */
    struct sn_owners senders; /* and of others that send: however many, they do not make the former rarer */
    char note[256];
    bool note_matters;
    bool segment;         /* many frames to a slot of this host go in one message */
    bool shared_first;    /* which socket's turn it is */
    unsigned shared_vain; /* times that nothing had come to port 4791, up to a limit */
    unsigned shared_turn;
    struct sn_udp_stats stats;
    sn_udp_refused *refused; /* may be NULL */
    struct sn_udp_hello hello;
    struct sn_udp_out out;
    /*
     * Batches in the order in which they were received. The holder of fetch_lock writes between tail and head
     * + batches. They are read between head and tail, inside the engine's lock.
     */
    struct sn_udp_in *in[SN_UDP_BATCHES];
    unsigned batches;
    uint32_t head, tail; /* free-running, atomic */
    pthread_mutex_t fetch_lock;
    bool long_messages; /* those of the last batch were, inside fetch_lock */
    int errors;         /* atomic: another thread met errors, which the engine is to look at */
    enum sn_udp_left left;
    uint8_t wrapper[SN_UDP_BATCH][SN_UDP_WRAPPER];
};

/* Statistics are read by other threads while the engine counts; each number is single, they are no snapshot.
 */
static inline void sn_udp_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/*
 * The slot that the frame's queue pair number names. Numbers 0 and 1 are every process's management queue
 * pairs. A connection's messages name the process by the communication ID that it chose (softnic/cm). With -1
 * the process that gets it finds out whose it is.
 */
static inline int sn_udp_slot_of(const uint8_t *frame, size_t len)
{
    uint32_t id;

    if (frame[5] || frame[6] || frame[7] > 1) return frame[5];
    return roce_cm_receiver_of_packet(frame, len, &id) ? (int)(id >> 24) : -1;
}

/* Is that an address of this host? */
bool sn_udp_is_here(struct sn_udp *udp, const uint8_t gid[16]);

/* A new message in out. Returns its index. The caller adds what it holds, with sn_udp_out_add. */
int sn_udp_out_new(struct sn_udp_out *out, const struct sn_addr *to, uint16_t port);
void sn_udp_out_add(struct sn_udp_out *out, int message, const void *data, size_t len);

/*
 * Sends the messages. Returns how many of them were taken; *lost frames of those the system refused. Ends
 * early when the system's buffer is full (*full), or when it turns out that it does not take many frames at
 * once.
 */
int sn_udp_out_send(struct sn_udp *udp, uint64_t *lost, bool *full);

/* Fills in a batch that no other thread sees, inside fetch_lock; in_engine: also inside the engine's lock.
 * True: all sockets were asked, and there was nothing. */
bool sn_udp_fill(struct sn_udp *udp, struct sn_udp_in *in, bool in_engine);

/* Once for each message, then for each of its frames: the one at `offset`. False if it cannot be one, but its
 * length is set. */
void sn_udp_cut_message(const struct sn_udp *udp, struct sn_udp_in *in, int message, struct sn_udp_cut *cut);
bool sn_udp_cut_frame(const struct sn_udp_cut *cut, struct sn_udp_in *in, int message, uint32_t offset,
                      struct sn_frame *frame);

/* udp_hello.c, of what came to the slot's port from a slot of this host. */
bool sn_udp_is_hello(const struct sn_frame *frame);
void sn_udp_take_hello(struct sn_udp *udp, const struct sn_frame *frame);

/* The first byte of a wrapper, or hello, is no opcode of a frame. */
enum { SN_UDP_WRAPPED = 0xff };

/* Errors of earlier frames that hosts and ports reported are queued at the socket and fail the next call
 * once. */
void sn_udp_drain_errors(struct sn_udp *udp, int fd);

#endif
