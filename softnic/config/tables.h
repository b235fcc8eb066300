/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h: the port's GID and P_Key tables, as GPUWIRE_NIC says. By default there is one P_Key. The NIC's
 * address is GID 0, and GID 3. On a ConnectX GID 3 is usually the first RoCE v2 GID of an IPv4 address, and
 * programs ask for it.
 *
 *     gids=ENTRY/ENTRY…   Entries are in the order of their index:
 *         own               the NIC's address, at least once
 *         zero              an empty entry
 *         [v1:]IP[%IFACE]   an address that the NIC shows but cannot use: nothing that is sent from it
 *                           arrives. v1: it is shown as RoCE v1. IFACE: the interface that it is shown to be
 *                           of.
 *     pkeys=KEY/KEY…      P_Keys in hexadecimal.
 */
#ifndef SOFTNIC_CONFIG_TABLES_H
#define SOFTNIC_CONFIG_TABLES_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

enum { SN_GIDS = 16, SN_PKEYS = 8, SN_DEFAULT_PKEY = 0xffff };

struct sn_gid_entry {
    uint8_t gid[16];     /* of zeros: empty, or own */
    char ndev[IFNAMSIZ]; /* "": none is named */
    bool v1, own;
};

struct sn_tables {
    unsigned gids, own; /* entries; the first of them that is the NIC's own address */
    struct sn_gid_entry gid[SN_GIDS];
    unsigned pkeys;
    uint16_t pkey[SN_PKEYS];
};

void sn_tables_default(struct sn_tables *t);
/* The values of the two keys; false: they are not of that form. */
bool sn_tables_gids(struct sn_tables *t, const char *value);
bool sn_tables_pkeys(struct sn_tables *t, const char *value);
/* Is the entry one that nothing can be sent from, as it is empty? */
bool sn_tables_empty(const struct sn_tables *t, unsigned index);

#endif
