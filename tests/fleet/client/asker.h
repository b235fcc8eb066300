/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose answers a test waits for. */
#ifndef GW_TESTS_FLEET_ASKER_H
#define GW_TESTS_FLEET_ASKER_H

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/fleet/client/fleet_client.h"

#define MS INT64_C(1000000)

static inline int64_t asker_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline void asker_sleep(int64_t ns)
{
    const struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

struct asked {
    struct fleet_client_reply reply;
    uint8_t data[64]; /* the answer's first bytes */
    char why[200];
    uint64_t in[4];
    atomic_int times; /* that it was called back */
    sem_t done;       /* once for each of them */
};

static void asker_done(void *ctx, const struct fleet_client_reply *r)
{
    struct asked *a = ctx;
    a->reply = *r;
    if (r->data) memcpy(a->data, r->data, r->bytes < sizeof a->data ? r->bytes : sizeof a->data);
    snprintf(a->why, sizeof a->why, "%s", r->why);
    a->times++;
    sem_post(&a->done);
}

static inline void asker_prepare(struct asked *a)
{
    memset(a, 0, sizeof *a);
    sem_init(&a->done, 0, 0);
}

/* Submits a request of 32 bytes; deadline_ns from now, 0: none. */
static inline int asker_send(struct fleet_client_model *m, int64_t deadline_ns, struct asked *a)
{
    static atomic_ullong next;
    asker_prepare(a);
    for (int i = 0; i < 4; i++) a->in[i] = ++next;
    struct fleet_client_request r = {.in = a->in, .bytes = sizeof a->in, .rows = 1, .done = asker_done};
    r.deadline_at = deadline_ns ? asker_now() + deadline_ns : 0;
    r.ctx = a;
    return fleet_client_submit(m, &r);
}

/* Its error; or 1 when it was not called back within 20 s, 2 when the answer is another one's. */
static inline int asker_wait(struct asked *a)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    while (sem_timedwait(&a->done, &end))
        if (errno != EINTR) return 1;
    if (!a->reply.error && (a->reply.bytes != sizeof a->in || memcmp(a->data, a->in, sizeof a->in))) return 2;
    return a->reply.error;
}

static inline int asker_ask(struct fleet_client_model *m, int64_t deadline_ns, struct asked *a)
{
    int err = asker_send(m, deadline_ns, a);
    return err ? err : asker_wait(a);
}

#endif
