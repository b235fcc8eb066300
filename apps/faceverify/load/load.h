/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator: threads that each keep some connections busy, and check every reply. */
#ifndef FACE_LOAD_LOAD_H
#define FACE_LOAD_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "apps/faceverify/face.h"
#include "apps/faceverify/faces/crowd.h"
#include "apps/faceverify/load/times.h"
#include "apps/faceverify/load/wire.h"

/* A request that is ready to be sent, but for its id, and what its reply must say. Connections share it. */
struct face_ask {
    const uint8_t *pixels;
    uint32_t head_bytes;
    float distance; /* FACE_UNKNOWN is expected: < 0 */
    _Alignas(16) uint8_t head[16 + 208];
};

/* What all threads read. */
struct face_load {
    const struct face_wire *wire;
    struct sockaddr_storage address;
    socklen_t address_len;
    struct face_ask *ask;
    uint32_t asks;
    uint32_t connections, pipeline, threads; /* pipeline: requests under way on a connection, at most */
    double rate;                             /* requests/s of all threads; 0: as many as the server takes */
    bool check;                              /* distances are compared, too */
    uint64_t patience_ns;                    /* to connect, and for the last replies */
    /* Replies between count_ns and end_ns are counted. They are set between the two barriers, which the
     * main thread and all workers pass: when all are connected, and when the times are there. */
    uint64_t begin_ns, count_ns, end_ns;
    pthread_barrier_t connected, set;
    atomic_bool failed; /* a worker could not connect: all end */
};

enum face_span { FACE_SPAN_IN, FACE_SPAN_STORE, FACE_SPAN_COMPARE, FACE_SPAN_OUT, FACE_SPANS };

/* What a thread has seen. */
struct face_tally {
    uint64_t replies, verdict[FACE_VERDICTS]; /* all, also those outside the time that counts */
    uint64_t counted, wrong, strange;         /* strange: no reply of this protocol */
    uint64_t sent, lost;                      /* lost: without a reply at the end */
    uint64_t behind;                          /* due by the rate, and never sent */
    uint64_t gone;                            /* connections that ended early */
    char why[200];                            /* the first thing that was wrong */
    struct face_times total, span[FACE_SPANS];
};

/* Makes the requests of a crowd: each view once as its own person and once as another, `unknown` of 1000
 * with a name that is not enrolled. -ENOMEM. free() *asks. */
int face_load_plan(const struct face_crowd *crowd, uint32_t unknown, struct face_ask **asks, uint32_t *count);

/* A thread's work: connects, passes the barriers, and returns when its share is done. Thread `index` of
 * load->threads. 0 or a negative errno with gw_last_error(): it could not connect. */
int face_load_work(struct face_load *load, uint32_t index, struct face_tally *tally);

struct face_report {
    const struct face_load *load;
    const struct face_tally *tally; /* of all threads */
    double seconds;                 /* that were counted */
    const char *server;
};
void face_load_print(const struct face_report *report);
void face_tally_merge(struct face_tally *to, const struct face_tally *from);
/* One line, for programs. */
void face_load_print_json(const struct face_report *report);

#endif
