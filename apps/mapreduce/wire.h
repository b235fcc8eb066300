/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h: what master and workers tell each other, over one TCP connection for each rank. A message is its
 * type, the number of its bytes, and those. Numbers are little-endian.
 */
#ifndef GW_MAPREDUCE_WIRE_H
#define GW_MAPREDUCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type {
    /* from a worker */
    WIRE_HELLO = 1, /* cookie, rank, pid */
    WIRE_ENDS,      /* epoch, and for each other rank alive a channel's end */
    WIRE_JOINED,    /* epoch */
    WIRE_ASK,       /* epoch: a task, please */
    WIRE_MAPPED,    /* epoch: this rank's kernels have ended */
    WIRE_SAMPLES,   /* epoch, keys of MR_SAMPLE bytes */
    WIRE_PART,      /* epoch, part, bytes of its output */
    WIRE_DONE,      /* epoch, struct wire_counts */
    WIRE_COMMITTED, /* epoch */
    WIRE_LOST,      /* epoch, why: the way to another rank failed, or it misbehaves */
    WIRE_BEAT,      /* 0: this process is alive */
    WIRE_FAIL,      /* exit code, why: the job cannot end well */
    /* from the master */
    WIRE_JOB,    /* facts, files */
    WIRE_EPOCH,  /* epoch, how many are alive, the receiver's number among them */
    WIRE_PEERS,  /* epoch, and for each other rank its channel's end */
    WIRE_ROUND,  /* epoch, round, sample?, state, splits */
    WIRE_TASK,   /* epoch, file, offset, bytes, number of the first record; bytes 0: there are no more */
    WIRE_COMMIT, /* epoch */
    WIRE_QUIT,   /* exit code, why */
};

struct wire_counts {
    uint64_t bytes, pairs, out;
};

/* A message that is being written; it grows. */
struct pack {
    uint8_t *at;
    size_t bytes, room;
    bool failed; /* no memory */
};
void pack_u32(struct pack *p, uint32_t v);
void pack_u64(struct pack *p, uint64_t v);
/* Its length, 32 bits, and the bytes. */
void pack_bytes(struct pack *p, const void *from, size_t n);
void pack_free(struct pack *p);

/* A message that is being read. What is not there reads as 0 and sets `bad`. */
struct unpack {
    const uint8_t *at, *end;
    bool bad;
};
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
/* Bytes where they lie; *n of them. */
const uint8_t *unpack_bytes(struct unpack *u, size_t *n);
/* A text of at most size - 1 bytes, copied; longer ones are cut. */
void unpack_text(struct unpack *u, char *to, size_t size);

/* One end of a connection. */
struct wire {
    int fd; /* -1: closed */
    uint8_t *in;
    size_t have, used, room;
    size_t max; /* bytes of a message at most */
};

void wire_open(struct wire *w, int fd, size_t max);
void wire_close(struct wire *w);
/* Sends a message, waits for room for at most 20 s. Frees the pack. A negative errno: the peer is lost. */
int wire_send(struct wire *w, uint32_t type, struct pack *p);
/* Takes in what has arrived, without waiting. -ECONNRESET: the peer is gone; -EPROTO, -ENOMEM. */
int wire_read(struct wire *w);
/* The next whole message, if there is one; *u is valid until the next wire_read. */
bool wire_next(struct wire *w, uint32_t *type, struct unpack *u);

#endif
