/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: what the parts of local/ share: local.c and access.c (the engine's side), serve.c (the thread's)
 * and make.c. */
#ifndef SOFTNIC_LOCAL_STATE_H
#define SOFTNIC_LOCAL_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include "softnic/base/clock.h"
#include "softnic/local/gpu.h"
#include "softnic/local/local.h"
#include "softnic/local/share.h"

/* BEHIND: a peer that has not taken this number of frames. */
enum { SN_LOCAL_PEERS = 512, SN_LOCAL_SENDERS = 256, SN_LOCAL_BEHIND = 2 };

/* How long the thread does not look again for a peer that was not there. */
#define SN_LOCAL_RETRY_NS 500000000u

enum sn_out_state {
    SN_OUT_NEW,      /* never asked for */
    SN_OUT_WANTED,   /* to be met when the time has come */
    SN_OUT_NAMELESS, /* asked for its name, no answer yet */
    SN_OUT_ASKED,    /* connected, no answer yet */
    SN_OUT_MET,
};

/* A peer that we send to, and whose memory we use. Written inside the NIC's lock and by the thread alone;
 * `state` is read and set to WANTED inside it. */
struct sn_peer {
    enum sn_out_state state;
    uint8_t gid[16];
    unsigned slot;
    /* the nonce of the question for its name, and the answer */
    uint8_t question[SN_MEET_NONCE], name[SN_MEET_NAME];
    bool named;
    unsigned asked; /* times, for its name; the next one when ask_at has come */
    uint64_t ask_at;
    int fd;
    pid_t pid;
    uint64_t nonce, nonce_addr; /* as its table said when it was met */
    struct sn_channel *channel;
    const struct sn_table *table;
    bool copies; /* its memory can be reached */
    bool inside; /* it is this process: another NIC of it */
    uint32_t tail, epoch;
    uint32_t woken; /* its count of sleeps when it was woken last */
    bool sent;      /* frames since it was looked at whether it sleeps */
    uint64_t seen_alive, retry_at;
    uint32_t head; /* what it had taken when that was looked at last */
    /* 0, or since when its ring is, with this head; when to look at it again */
    uint64_t full_since, look_after;
    uint32_t full_head;
    bool given_up;
};

/* A peer that sends to us, and uses our memory. */
struct sn_sender {
    int fd;
    pid_t pid;
    struct sn_channel *channel; /* NULL until it said hello */
    uint32_t head;
    unsigned slot;
    uint8_t gid[16];
    uint64_t number; /* of all that ever were */
    uint32_t over;   /* this access of it was taken back: it does nothing any more. Under senders_lock */
    bool heard;      /* it has sent frames; inside the NIC's lock */
    bool broken;     /* it wrote nonsense; the thread ends it */
    bool gone;       /* it died, or left; what it sent before still counts */
};

/* A part of the table that is entered at random places, as keys are. */
struct sn_touched {
    uint32_t entered, pages; /* entries that were ever made; its first pages, which are there already */
};

struct sn_local {
    struct sn_local_config cfg;
    struct sn_table *table;
    struct sn_touched regions, gpus;      /* of the table; inside the NIC's lock */
    int table_fd, listener, epoll, event; /* event: the thread is needed */
    uint64_t nonce;
    bool paused;
    uint8_t name[SN_MEET_NAME];
    bool unaccepted;      /* a peer may still wait at the listener; the thread's */
    bool more_waiting;    /* a peer does: not all are accepted at once */
    uint64_t notified_at; /* when it was said last that another user connects */
    unsigned wanted;      /* atomic: peers that are to be met */
    struct sn_peer peer[SN_LOCAL_PEERS];
    struct sn_peer *to_wake[SN_LOCAL_PEERS];
    unsigned to_wake_count;

    /* Changed inside the NIC's lock with `senders_lock` held: either suffices for reading. */
    pthread_mutex_t senders_lock;
    struct sn_sender *sender[SN_LOCAL_SENDERS];
    unsigned senders, next_sender;
    unsigned met;  /* senders heard so far */
    uint64_t lost; /* atomic: frames for which peers had no room */
    uint64_t sender_numbers;
    uint8_t rx[SN_LOCAL_RX][SN_FRAME_MAX];

    struct sn_gpu *gpu;
    int copy_error; /* of the last peer that cannot be copied to */
};

/* local.c, inside: the entry of a peer, made if need be; NULL: there are too many. */
struct sn_peer *sn_local_peer(struct sn_local *local, const uint8_t gid[16], unsigned slot);

/* serve.c, where the thread is told by epoll what has happened: the kind in the upper half of an event's
 * data, which one in the lower. watch: 0 or a negative errno. */
enum sn_local_event { SN_AT_LISTENER, SN_AT_EVENT, SN_AT_PEER, SN_AT_SENDER };
int sn_local_watch(struct sn_local *local, int fd, enum sn_local_event kind, uint32_t which);
void sn_local_close_fd(int *fd); /* and sets it to -1 */
void sn_local_free_sender(struct sn_sender *sender);

/* access.c: of struct sn_peer_ops. */
bool sn_access_enter(void *ctx, struct sn_peer *p, uint64_t now);
bool sn_access_grant(void *ctx, struct sn_peer *p, const struct sn_peer_access *access, uint64_t *addr,
                     struct sn_reach *by);
int64_t sn_access_copy(void *ctx, struct sn_peer *p, const struct sn_copy *c, struct sn_copying *under_way);
void sn_access_leave(void *ctx, struct sn_peer *p);
void sn_access_quiesce(void *ctx);

#endif
