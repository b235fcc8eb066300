/* SPDX-License-Identifier: Apache-2.0 */
/* master_impl.h: what master.c, master_meet.c, master_host.c and master_round.c share. */
#ifndef GW_MAPREDUCE_MASTER_IMPL_H
#define GW_MAPREDUCE_MASTER_IMPL_H

#include "input.h"
#include "master.h"
#include "wire.h"

enum { MASTER_MAX_EPOCHS = 64, MASTER_TEXT = 160, MASTER_PENDING = 64 };

/* A rank, as the master sees it. */
struct member {
    struct wire wire;
    bool alive, got; /* got: the message that the master waits for */
    uint32_t pid;
    uint64_t heard_ns;
    uint32_t number;           /* among those alive */
    char (*ends)[MASTER_TEXT]; /* for each other one alive */
    struct wire_counts counts;
};

/* A partition's output, when it comes to the master. */
struct gathered {
    uint8_t *at;
    uint64_t bytes, room;
};

struct master {
    struct master_opts o;
    struct master_result *r;
    struct mr_host host;
    struct member *rank;
    uint32_t alive, epoch, epochs;
    uint32_t size;    /* ranks of the epoch: as many as were alive when it began */
    uint32_t waiting; /* for this type, enum wire_type; 0: none */
    struct tasks tasks, sample;
    struct tasks *now; /* those that are handed out */
    struct gathered *part;
    struct gathered result; /* mr_result's */
    uint8_t *splits;
    uint64_t began_ns, shown_ns, handed;
    bool died;        /* since the epoch began */
    bool out_is_ours; /* no other job's files are there */
    int exit_code;
};

int master_fail(struct master *m, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Waits until all ranks are there. */
int master_meet(struct master *m, int listener, const uint8_t *cookie, size_t cookie_bytes);
/* Waits until all that are alive have sent `type`. -EAGAIN: one has died, or lost another. */
int master_wait(struct master *m, uint32_t type);
/* Sends a copy of the message to all that are alive; frees it. */
void master_say(struct master *m, uint32_t type, struct pack *p);
void master_dead(struct master *m, uint32_t rank, const char *why);
int gathered_add(struct gathered *g, const void *from, uint64_t bytes);

/* The sample of the keys, for MR_ORDER. */
int master_sample(struct master *m);
/* A round: repeated until it ends with all that are alive then. */
int master_round(struct master *m);
int master_commit(struct master *m);

#endif
