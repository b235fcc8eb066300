/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client for tests: bytes there, bytes and a status back. One thread, which waits in each call. */
#ifndef TESTS_GRPC_CLIENT_H
#define TESTS_GRPC_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "src/server/grpc/wire/h2.h"
#include "src/server/grpc/wire/message.h"
#include "src/server/grpc/wire/status.h"

struct client {
    struct gw_h2 h2;
    uint8_t room[65536];
};

struct answer {
    int status; /* enum gw_grpc_status */
    char why[512];
    uint8_t *bytes; /* NULL: there was no message */
    size_t size;
};

/* In the clear. `server` is "ADDRESS:PORT". */
void client_open(struct client *c, const char *server);
void client_close(struct client *c);
/* Sends and receives what goes without waiting. */
void client_work(struct client *c);

struct ask {
    const char *method; /* "/package.Service/Method" */
    const void *bytes;
    size_t size;
    unsigned timeout_ms;       /* 0: half a minute */
    const char *authorization; /* NULL: none */
};
/* A unary call; answer_free follows. */
struct answer client_ask(struct client *c, const struct ask *ask);
void answer_free(struct answer *a);

/* A bidirectional call, which stays where it is until it is closed. */
struct stream {
    struct client *client;
    int32_t id;
    struct gw_grpc_message *out[64]; /* to be sent, from `first` to `last` */
    unsigned first, last;
    int no_more, over;
    struct gw_grpc_inbox inbox;
    struct gw_grpc_message *in[64]; /* that have come, from `taken` to `come` */
    unsigned taken, come;
    int status;
    char why[512];
};
void stream_open(struct client *c, const char *method, struct stream *s);
/* 0, or -1: the call has ended. */
int stream_send(struct stream *s, const void *bytes, size_t size);
/* The next answer: bytes NULL when there are no more. */
struct answer stream_receive(struct stream *s);
void stream_end_of_input(struct stream *s);
/* Waits for the status, which it returns. */
int stream_close(struct stream *s);
/* Gives up at once. */
void stream_cancel(struct stream *s);

#endif
