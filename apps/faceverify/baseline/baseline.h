/* SPDX-License-Identifier: Apache-2.0 */
/* What the two baselines share: threads with epoll, and a judge that compares: this processor, or a GPU. */
#ifndef FACE_BASELINE_H
#define FACE_BASELINE_H

#include <stdbool.h>

#include "apps/faceverify/face.h"
#include "apps/faceverify/memcache_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request under way. Its request and its value lie in memory of the judge's choice. */
struct job {
    uint8_t *request; /* 16-aligned; FACE_REQUEST_MAX bytes */
    struct face_value *value;
    uint32_t conn, uses; /* whose; conn.uses at that time */
    uint32_t server, opaque, have, want;
    uint64_t until_ns, ns[FACE_POINTS];
    uint32_t terms; /* the judge's answer; UINT32_MAX: the value is not sound */
};

/* One of these is linked. Each thread has its own judge, and calls it alone. */
struct judge;

/* Memory for jobs. NULL: there is none. */
struct judge *judge_new(uint32_t jobs, uint8_t **requests, struct face_value **values);
/* A job's request has come: a chance to begin. */
void judge_request(struct judge *j, struct job *job);
/* A job's value has come, too. It is decided now or later. */
void judge_value(struct judge *j, uint32_t number, struct job *job);
/* Passes on what has gathered. At the end of each round. */
void judge_flush(struct judge *j);
/* The number of a job that is decided; -1: none at the moment. */
int judge_next(struct judge *j, struct job *jobs);
/* Jobs that were passed on and are not decided. */
uint32_t judge_waits(const struct judge *j);
/* "8 threads", "a GPU": for people. */
const char *judge_name(void);

/* A picture in a request. */
static inline const uint8_t *job_picture(const struct job *job)
{
    const struct face_request *r = (const struct face_request *)job->request;

    return job->request + sizeof(*r) + face_name_room(r->name_len);
}

#ifdef __cplusplus
}
#endif
#endif
