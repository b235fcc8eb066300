/* SPDX-License-Identifier: Apache-2.0 */
/* A list of memcached servers, as an option names it, and how keys are spread over them. Host only. */
#ifndef MEMCACHE_RING_H
#define MEMCACHE_RING_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "apps/faceverify/memcache_spread.h"

enum { MC_SERVERS_MAX = 64, MC_PORT = 11211, MC_POINTS_MAX = 160 * MC_SERVERS_MAX };

struct mc_servers {
    uint32_t count;
    struct {
        char host[256]; /* as it was written: ketama's points come of it */
        uint16_t port;
        uint32_t weight; /* of MC_KETAMA_WEIGHTED */
        struct sockaddr_storage addr;
        socklen_t len;
    } server[MC_SERVERS_MAX];
};

/* Reads HOST[:PORT][/WEIGHT],…, the text of libmemcached's tools, and looks the hosts up. 0, or an exit
 * code after one line that says what is wrong. */
int mc_servers_parse(const char *command, const char *text, struct mc_servers *out);

/* The value of --spread, "modula", "ketama" or "ketama-weighted": in the same way. */
int mc_spread_parse(const char *command, const char *text, uint32_t *out);

/* The ring of these servers. Its points go to `point`, which has room for MC_POINTS_MAX. */
void mc_ring_make(const struct mc_servers *servers, uint32_t spread, struct mc_point *point,
                  struct mc_ring *out);

#endif
