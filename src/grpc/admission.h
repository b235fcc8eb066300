/* SPDX-License-Identifier: Apache-2.0 */
/* How many messages may be on their way in at once, so that what clients send bounds what the server keeps.
 *
 * gRPC core takes a message whole before we see it, and says nothing of its size. So a unary call's message
 * is received when one of so many places is free, and another client's is not when one has three quarters of
 * them. A stream always waits for its next message, so there may be so many streams. */
#ifndef GW_GRPC_ADMISSION_H
#define GW_GRPC_ADMISSION_H

#include <pthread.h>
#include <stdint.h>

struct gw_grpc_share {
    uint32_t messages, streams;
};

/* A call that waits for a place: a member of the call. */
struct gw_grpc_waiter {
    struct gw_grpc_waiter *next;
    struct gw_grpc_share *share; /* its client's */
};

struct gw_grpc_admission {
    pthread_mutex_t lock; /* of all shares, too */
    uint32_t messages, streams;
    uint32_t messages_most, streams_most;
    struct gw_grpc_waiter *head, **tail;
};

void gw_grpc_admission_open(struct gw_grpc_admission *a, uint32_t messages, uint32_t streams);
void gw_grpc_admission_close(struct gw_grpc_admission *a);

/* 1: a message may be received. 0: the waiter stands in the queue until gw_grpc_admission_left returns it. */
int gw_grpc_admission_message(struct gw_grpc_admission *a, struct gw_grpc_waiter *w);
/* A client's message is there, or will never be. Returns who may receive now; NULL: nobody. */
struct gw_grpc_waiter *gw_grpc_admission_left(struct gw_grpc_admission *a, struct gw_grpc_share *share);

/* 1: the client may have another stream. A quarter of all is the most of one client. */
int gw_grpc_admission_stream(struct gw_grpc_admission *a, struct gw_grpc_share *share);
void gw_grpc_admission_stream_left(struct gw_grpc_admission *a, struct gw_grpc_share *share);

#endif
