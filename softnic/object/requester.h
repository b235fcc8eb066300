/* SPDX-License-Identifier: Apache-2.0 */
/* requester.h: the sending half of a queue pair: its requests, PSNs, window and timer. */
#ifndef SOFTNIC_OBJECT_REQUESTER_H
#define SOFTNIC_OBJECT_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "softnic/object/sreq.h"

/* A READ request packet or atomic that was sent and is not answered: PSNs start … end - 1. */
struct sn_read {
    uint32_t start, end;
};

/*
 * Of requests whose bytes go ahead of their packets, or without any: by direct accesses, a rendezvous or an
 * eager copy (softnic/transport/direct.c, rendezvous.c, eager_copy.c).
 */
struct sn_early {
    uint32_t rndv_skip, eager_skip; /* messages that go as packets, because one of their kind was refused */
    uint32_t other_end;             /* after the newest request that changes bytes when it is executed */
    /* requests in batches of direct accesses; those of them that are eager copies */
    uint32_t batched, batched_eager;
    uint32_t batched_from; /* none of them stands before this one */
};

struct sn_requester {
    /* SN_SQ_WINDOW of them; with the arena, NULL while nothing was read: see sn_sq_rest */
    struct sn_sreq *ring;
    uint8_t *arena;
    uint32_t arena_head, arena_used;
    uint32_t una, cur, end; /* free-running: oldest not complete, being sent, after the last that was read */
    uint32_t cur_packet;    /* packets of request cur that were made on this pass */
    uint32_t una_psn;       /* oldest not acknowledged */
    uint32_t max_psn;       /* after the newest that was ever sent */
    uint32_t tail_psn;      /* of the next WQE that is read */
    struct sn_read reads[SN_MAX_RD_ATOMIC];
    uint32_t read_head, read_tail; /* free-running */
    uint32_t window, window_max, window_grow;
    bool no_loss;     /* so far: the window doubles with each round trip */
    bool window_full; /* and waits until there is room for some packets at once */
    uint32_t since_ackreq;
    struct sn_early early;
    uint8_t retries, naks, rnr_retries;
    bool asked;              /* went back to una_psn, because of an answer, already */
    bool rnr_wait, rnr_told; /* told: a line said that it has waited long */
    uint64_t rnr_since;      /* its peer has had no receive for it since then; 0: it has */
    uint64_t deadline;       /* of the ACK timer or RNR wait; SN_NEVER: none */
    uint64_t give_up; /* when the time that the program set is over; deadline may come earlier, for a probe */
    /* How long answers take (as TCP reckons it, RFC 6298): one packet at a time is timed, none that was
     * repeated. */
    uint64_t srtt, rttvar, timed_at;
    uint32_t timed_psn;
    bool timing;
    uint8_t probes; /* since there was progress */
    bool probing;   /* the oldest packet was repeated alone; before that the next one to be sent was */
    uint32_t probed, probed_packet; /* this request's, and of it this */
    uint8_t scatter[SN_INLINE_ROOM];
};

/* The state of a send queue while requests of it are under way. Idle ones have none: there may be
 * thousands. */
struct sn_sq_room {
    struct sn_sreq ring[SN_SQ_WINDOW];
    uint8_t arena[SN_SQ_ARENA] __attribute__((aligned(64)));
    struct sn_sq_room *next;
};

#endif
