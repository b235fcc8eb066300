/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks and rank 0's server say to each other: frames of a head and `size` bytes, in host order (all
 * processors that gpuwire runs on are little-endian). */
#ifndef SRC_RANKS_WIRE_H
#define SRC_RANKS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/ranks.h>

#define GW_RANKS_MAGIC UINT32_C(0x31727767) /* gwr1 */
#define GW_RANKS_TEXT  200                  /* bytes of a text for people */

enum gw_ranks_type {
    /* to the server */
    GW_RANKS_SAY_HELLO = 1, /* rank; struct gw_ranks_hello */
    GW_RANKS_SAY_PUBLISH,   /* key[GW_RANKS_KEY], value */
    GW_RANKS_SAY_LOOKUP,    /* rank, id; key[GW_RANKS_KEY] */
    GW_RANKS_SAY_GATHER,    /* this rank's part */
    GW_RANKS_SAY_LEAVE,
    /* from the server */
    GW_RANKS_SAY_WELCOME,
    GW_RANKS_SAY_REFUSED, /* err; text: the connection ends */
    GW_RANKS_SAY_READY,   /* all ranks have come; uint64_t of each: its host */
    GW_RANKS_SAY_MISSING, /* text: who has not come yet */
    GW_RANKS_SAY_VALUE,   /* id, err; the value */
    GW_RANKS_SAY_DONE,    /* err; all parts, or a text */
    GW_RANKS_SAY_DEAD,    /* rank */
    GW_RANKS_SAY_LEFT,    /* rank */
};

struct gw_ranks_head {
    uint32_t magic, type;
    uint32_t rank, id;
    uint32_t err; /* a positive errno */
    uint32_t size;
};

struct gw_ranks_hello {
    uint64_t host; /* the same for all processes of a host */
    uint32_t size, pad;
    char secret[GW_RANKS_SECRET];
};

/* Nanoseconds of CLOCK_MONOTONIC, and how many milliseconds poll(2) may wait until a deadline. */
uint64_t gw_ranks_now(void);
int gw_ranks_poll_ms(uint64_t deadline_ns);

/*
 * Sends head and body as one frame. *begun tells whether any of it has left: then an error has broken the
 * connection. 0, -ETIMEDOUT, or the socket's error.
 */
int gw_ranks_send(int fd, const struct gw_ranks_head *head, const void *body, uint64_t deadline_ns,
                  bool *begun);

/* Receives exactly n bytes. 0, -ETIMEDOUT, -ECONNRESET at the end of the stream, or the socket's error. */
int gw_ranks_recv(int fd, void *to, size_t n, uint64_t deadline_ns);

#endif
