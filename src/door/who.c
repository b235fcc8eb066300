/* SPDX-License-Identifier: Apache-2.0 */
/* Names the client at the other end of a TCP connection. */
#include "src/door/who.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/door/peer.h"

#define USUAL_OVERFLOW_UID 65534u
#define ALL_UIDS           4294967295u /* there is no user -1 */

/* ---- users ---- */

static uint32_t who_overflow_uid(void)
{
    uint32_t uid = USUAL_OVERFLOW_UID;
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
    if (f && fscanf(f, "%u", &uid) != 1) uid = USUAL_OVERFLOW_UID;
    if (f) fclose(f);
    return uid;
}

static bool all_users_have_numbers(void)
{
    unsigned first, outside, count = 0;
    FILE *f = fopen("/proc/self/uid_map", "re");
    if (f && fscanf(f, "%u %u %u", &first, &outside, &count) != 3) count = 0;
    if (f) fclose(f);
    return count == ALL_UIDS;
}

/* In a user namespace the users that have no number there all look like one user. */
static bool stands_for_many(uint32_t uid)
{
    return uid == who_overflow_uid() && !all_users_have_numbers();
}

bool gw_who_user(const char *who, uint32_t *uid)
{
    char *end;
    if (strncmp(who, "user ", 5) || who[5] < '0' || who[5] > '9') return false;
    errno = 0;
    unsigned long n = strtoul(who + 5, &end, 10);
    if (errno || *end || n >= ALL_UIDS) return false;
    *uid = (uint32_t)n;
    return true;
}

/* ---- names ---- */

void gw_who_host(const union gw_peer_address *a, char who[GW_WHO_TEXT])
{
    char text[INET6_ADDRSTRLEN] = "?";
    struct in6_addr net = a->v6.sin6_addr;
    int v6 = a->any.sa_family == AF_INET6;
    memset(&net.s6_addr[8], 0, 8);
    inet_ntop(a->any.sa_family, v6 ? (const void *)&net : (const void *)&a->v4.sin_addr, text, sizeof(text));
    snprintf(who, GW_WHO_TEXT, "%s%s", text, v6 ? "/64" : "");
}

/* Of a peer on this host. */
static enum gw_peer_end name_user(const struct gw_peer *p, char who[GW_WHO_TEXT])
{
    uint32_t uid;
    enum gw_peer_end end = gw_peer_look(p, &uid);
    if (end >= GW_PEER_CLOSING && !stands_for_many(uid)) snprintf(who, GW_WHO_TEXT, "user %u", uid);
    return end;
}

int gw_who(int fd, char who[GW_WHO_TEXT])
{
    struct gw_peer p;
    snprintf(who, GW_WHO_TEXT, "this host");
    if (gw_peer_of(fd, &p)) return -ENOTCONN;
    if (!gw_peer_is_here(&p.them)) {
        gw_who_host(&p.them, who);
        return 0;
    }
    enum gw_peer_end end = name_user(&p, who);
    /* The kernel forgets a socket that has been closed. One that it never listed, because addresses are
     * translated on the way, is there as long as the connection is open. */
    return end == GW_PEER_GONE || (end == GW_PEER_NOT_TOLD && !p.open) ? -ENOTCONN : 0;
}

bool gw_who_is_here(int fd, const char *who)
{
    struct gw_peer p;
    char now[GW_WHO_TEXT] = "";
    return !gw_peer_of(fd, &p) && p.open && gw_peer_is_here(&p.them) &&
           name_user(&p, now) == GW_PEER_ESTABLISHED && !strcmp(now, who);
}
