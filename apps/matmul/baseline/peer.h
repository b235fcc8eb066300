/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h: connections of the baselines' servers: plain sockets that do not wait. */
#ifndef MATMUL_PEER_H
#define MATMUL_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "../protocol.h"

struct peer {
    int fd;
    bool answering, last; /* last: the answer is the last one */
    size_t done;          /* bytes of the request, or of the answer, that have moved */
    struct mm_request head;
    struct mm_answer answer;
    uint8_t *in, *out; /* room for A and B; for C */
    size_t room;       /* bytes of each that there are: in, and out */
    size_t out_room;
};

enum peer_got { PEER_WAIT, PEER_REQUEST, PEER_ANSWERED, PEER_END };

/* Listens at ADDRESS:PORT, and prints where; port 0: any. -1 after a line that says why not. */
int peer_listen(const char *at, const char *what);

/* Prepares an accepted connection. */
void peer_begin(struct peer *p, int fd);

/*
 * Moves what can be moved. PEER_REQUEST: a whole request is there, at p->in. Before that, p->grow makes room:
 * false, and the client is told that the server is busy. PEER_ANSWERED: the answer has gone, and the next
 * request may be there already. PEER_END: the connection is at its end, and closed.
 */
enum peer_got peer_read(struct peer *p, bool (*grow)(struct peer *p, size_t in, size_t out));
enum peer_got peer_write(struct peer *p);

/* Begins the answer to a request; C is at p->out. */
void peer_answer(struct peer *p, enum mm_status status);

#endif
