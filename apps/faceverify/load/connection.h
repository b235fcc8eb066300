/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the load generator. It belongs to one thread. */
#ifndef FACE_LOAD_CONNECTION_H
#define FACE_LOAD_CONNECTION_H

#include "apps/faceverify/load/load.h"

/* A request under way. */
struct face_slot {
    const struct face_ask *ask; /* NULL: free */
    bool sent;                  /* whole: a reply may come */
    uint64_t begun_ns;
    uint32_t turn; /* counts its requests, and is the id's upper half: a late or double reply is told */
    uint32_t next; /* in the list of free ones, or of those to be sent; UINT32_MAX: the last */
    _Alignas(16) uint8_t head[16 + 208];
};

struct face_connection {
    const struct face_wire *wire;
    int fd; /* -1: it has ended */
    bool want_out, connected;
    uint32_t index, pipeline, busy; /* busy: slots in use */
    struct face_slot *slot;
    uint32_t free_first, send_first, send_last;
    uint32_t sent_bytes; /* of the request at send_first */
    uint32_t got_bytes;  /* in `in` */
    _Alignas(16) uint8_t in[16384];
};

/* Begins to connect. A negative errno with gw_last_error(). */
int face_connection_open(struct face_connection *c, const struct face_load *load);
/* Frees what it has; requests under way count as lost. */
void face_connection_close(struct face_connection *c, struct face_tally *tally);
/* Puts a request into the list of those to be sent. The pipeline must have room. */
void face_connection_post(struct face_connection *c, const struct face_ask *ask, uint64_t now);
/* Is anything left to be sent? */
bool face_connection_unsent(const struct face_connection *c);
/* Sends what the socket takes. Sets want_out where something is left. 0, or a negative errno: it ended. */
int face_connection_send(struct face_connection *c);
/* Takes the replies that are there. 0, or a negative errno: it ended; -EPROTO: what came is no reply. */
int face_connection_receive(struct face_connection *c, const struct face_load *load,
                            struct face_tally *tally);

#endif
