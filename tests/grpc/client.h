/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client for tests: bytes there, bytes and a status back. One thread. */
#ifndef TESTS_GRPC_CLIENT_H
#define TESTS_GRPC_CLIENT_H

#include <grpc/grpc.h>
#include <stddef.h>
#include <stdint.h>

struct client {
    grpc_channel *channel;
    grpc_completion_queue *cq;
};

struct answer {
    int status; /* grpc_status_code */
    char why[512];
    uint8_t *bytes; /* NULL: there was no message */
    size_t size;
};

/* `ca`: a PEM text that the server's certificate is checked against; NULL: in the clear. */
void client_open(struct client *c, const char *server, const char *ca);
void client_close(struct client *c);

struct ask {
    const char *method; /* "/package.Service/Method" */
    const void *bytes;
    size_t size;
    unsigned timeout_ms;       /* 0: half a minute */
    const char *authorization; /* NULL: none */
    int gzip;                  /* say that the message is compressed, and compress it */
};
/* A unary call; answer_free follows. */
struct answer client_ask(struct client *c, const struct ask *ask);
void answer_free(struct answer *a);

/* A bidirectional call. */
struct stream {
    struct client *client;
    grpc_call *call;
    int begun; /* the server's first headers have been asked for */
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
