/* SPDX-License-Identifier: Apache-2.0 */
/* How many lines of the access log a client may cause with requests that the model does not answer. Requests
 * that it answers cost its time, and always have a line. */
#ifndef GW_DOOR_ACCESS_SHARE_H
#define GW_DOOR_ACCESS_SHARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/door/who.h"

#define GW_ACCESS_BURST      500u      /* lines of a client at once */
#define GW_ACCESS_EACH_NS    50000000u /* and one more for each such time */
#define GW_ACCESS_SHARES     1024u     /* clients that are told apart; further ones share */
#define GW_ACCESS_SUMMARY_NS 1000000000u

struct gw_access_share {
    uint64_t full; /* when the client has its whole burst again */
    uint64_t left_out;
    char who[GW_WHO_TEXT]; /* whose lines were left out last */
};

struct gw_access_shares {
    pthread_mutex_t lock;
    uint64_t next; /* when summaries are due */
    struct gw_access_share share[GW_ACCESS_SHARES];
};

void gw_access_shares_open(struct gw_access_shares *s);
void gw_access_shares_close(struct gw_access_shares *s);

/* True: this client may have a line. False: it is left out, and counted. */
bool gw_access_share_take(struct gw_access_shares *s, const char *who, uint64_t now);
/* Takes a summary that is due, once a second for each client (`all`: every one that there is). True:
 * `lines` of `who` were left out; false: there is none. */
bool gw_access_share_summary(struct gw_access_shares *s, int all, uint64_t now, char who[GW_WHO_TEXT],
                             uint64_t *lines);

#endif
