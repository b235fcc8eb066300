/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the GID and P_Key tables of GPUWIRE_NIC. */
#include "softnic/config/tables.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/config/addr.h"

enum { ENTRY_ROOM = INET6_ADDRSTRLEN + IFNAMSIZ + 8 };

void sn_tables_default(struct sn_tables *t)
{
    *t = (struct sn_tables){.pkeys = 1, .pkey = {SN_DEFAULT_PKEY}};
    sn_tables_gids(t, "own/zero/zero/own");
}

/* Copies what stands before the next slash, and moves on. false: there is nothing, or too much. */
static bool next(const char **at, char text[ENTRY_ROOM])
{
    size_t len = strcspn(*at, "/");

    if (!len || len >= ENTRY_ROOM) return false;
    memcpy(text, *at, len);
    text[len] = 0;
    *at += len + ((*at)[len] == '/');
    return true;
}

static bool tables_read_address(struct sn_gid_entry *e, char *text)
{
    struct in_addr v4;
    char *ndev;

    e->v1 = !strncmp(text, "v1:", 3);
    if (e->v1) text += 3;
    ndev = strchr(text, '%');
    if (ndev) *ndev++ = 0;
    if (ndev && (!*ndev || strlen(ndev) >= sizeof(e->ndev))) return false;
    if (ndev) strcpy(e->ndev, ndev);
    if (inet_pton(AF_INET6, text, e->gid) == 1) return true;
    if (inet_pton(AF_INET, text, &v4) != 1) return false;
    sn_gid_from_ipv4(e->gid, ntohl(v4.s_addr));
    return true;
}

bool sn_tables_gids(struct sn_tables *t, const char *value)
{
    char text[ENTRY_ROOM];
    bool own = false, more = true;

    for (t->gids = 0; more; t->gids++) {
        struct sn_gid_entry *e = &t->gid[t->gids];

        if (t->gids == SN_GIDS || !next(&value, text)) return false;
        *e = (struct sn_gid_entry){.v1 = false};
        if (!strcmp(text, "own")) {
            if (!own) t->own = t->gids;
            own = e->own = true;
        } else if (strcmp(text, "zero") && !tables_read_address(e, text)) {
            return false;
        }
        more = *value;
    }
    return own;
}

bool sn_tables_pkeys(struct sn_tables *t, const char *value)
{
    char text[ENTRY_ROOM], *end;

    for (t->pkeys = 0; *value; t->pkeys++) {
        if (t->pkeys == SN_PKEYS || !next(&value, text)) return false;
        unsigned long key = strtoul(text, &end, 16);
        if (*end || !key || key > 0xffff) return false;
        t->pkey[t->pkeys] = (uint16_t)key;
    }
    return t->pkeys;
}

bool sn_tables_empty(const struct sn_tables *t, unsigned index)
{
    static const uint8_t zero[16];

    return index >= t->gids || (!t->gid[index].own && !memcmp(t->gid[index].gid, zero, 16));
}
