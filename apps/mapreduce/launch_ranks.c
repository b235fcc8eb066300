/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that a launcher has started meet by include/gpuwire/ranks.h. Rank 0 says where the master is. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/ranks.h>

#include "launch_impl.h"

enum { JOIN_S = 60, LEAVE_S = 10, HOST_TEXT = 128 };
#define SECONDS(s) gw_deadline((s) * (uint64_t)1000000000)

/* What rank 0 publishes. */
struct where {
    uint8_t cookie[LAUNCH_COOKIE];
    char host[HOST_TEXT]; /* its kernel's boot, which tells hosts apart */
    char master[1024];
};

static void boot_id(char *to, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (!f || !fgets(to, (int)size, f)) snprintf(to, size, "unknown");
    if (f) fclose(f);
}

/* The addresses of this host at which others may reach the port. */
static void my_addresses(char *to, size_t size, uint16_t port)
{
    struct ifaddrs *all = NULL;
    size_t at = 0;

    (void)getifaddrs(&all);
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[INET_ADDRSTRLEN];

        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || i->ifa_flags & IFF_LOOPBACK) continue;
        if (!(i->ifa_flags & IFF_UP) || at + sizeof(text) + 8 > size) continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, text, sizeof(text));
        at += (size_t)snprintf(to + at, size - at, "%s %u\n", text, port);
    }
    freeifaddrs(all);
}

static int ranks_say(int err)
{
    fprintf(stderr, "gpuwire app mapreduce: meeting the other ranks: %s\n", gw_last_error());
    return err;
}

/* Rank 0: a listening socket, and the others learn of it. */
static int master_publish(struct gw_ranks *ranks, struct launch *l)
{
    bool here = gw_ranks_local_size(ranks) == gw_ranks_size(ranks);
    struct where w = {0};
    uint16_t port;
    int err = launch_listen(l, here ? "127.0.0.1" : "0.0.0.0", &port);

    if (err) return err;
    memcpy(w.cookie, l->cookie, sizeof(w.cookie));
    boot_id(w.host, sizeof(w.host));
    my_addresses(w.master, sizeof(w.master), port);
    snprintf(l->master, sizeof(l->master), "127.0.0.1 %u\n", port);
    snprintf(l->port, sizeof(l->port), "%u", port);
    if (gw_ranks_publish(ranks, "mapreduce", &w, sizeof(w)) ||
        gw_ranks_publish(ranks, "port", l->port, sizeof(l->port)))
        return ranks_say(-EIO);
    return 0;
}

/* The others: where is it? On its own host by the loopback address. */
static int master_find(struct gw_ranks *ranks, struct launch *l)
{
    char mine[HOST_TEXT];
    struct where w;

    if (gw_ranks_lookup(ranks, 0, "mapreduce", &w, sizeof(w), SECONDS(JOIN_S)) != sizeof(w))
        return ranks_say(-EIO);
    if (gw_ranks_lookup(ranks, 0, "port", l->port, sizeof(l->port), SECONDS(JOIN_S)) != sizeof(l->port))
        return ranks_say(-EIO);
    w.host[sizeof(w.host) - 1] = w.master[sizeof(w.master) - 1] = 0;
    l->port[sizeof(l->port) - 1] = 0;
    memcpy(l->cookie, w.cookie, sizeof(w.cookie));
    memset(mine, 0, sizeof(mine));
    boot_id(mine, sizeof(mine));
    if (!strcmp(mine, w.host))
        snprintf(l->master, sizeof(l->master), "127.0.0.1 %s\n%.900s", l->port, w.master);
    else
        snprintf(l->master, sizeof(l->master), "%s", w.master);
    return 0;
}

int launch_join(struct launch *l)
{
    struct gw_ranks *ranks = NULL;
    int err = gw_ranks_join(NULL, SECONDS(JOIN_S), &ranks);

    if (err) return ranks_say(err);
    l->meeting = ranks;
    l->rank = gw_ranks_rank(ranks);
    l->ranks = gw_ranks_size(ranks);
    l->local = gw_ranks_local_rank(ranks);
    if (gw_ranks_how(ranks) == GW_RANKS_ALONE) {
        launch_end(l);
        return 0;
    }
    if (l->ranks > LAUNCH_MAX) {
        fprintf(stderr, "gpuwire app mapreduce: at most %u ranks\n", LAUNCH_MAX);
        return -E2BIG;
    }
    err = l->rank ? master_find(ranks, l) : master_publish(ranks, l);
    return err ? err : 1;
}

void launch_end(struct launch *l)
{
    (void)gw_ranks_leave((struct gw_ranks *)l->meeting, SECONDS(LEAVE_S));
    l->meeting = NULL;
}
