/* SPDX-License-Identifier: Apache-2.0 */
/* The URLs of etcd's members, and the addresses of their names. */
#ifndef GW_FLEET_ETCD_URLS_H
#define GW_FLEET_ETCD_URLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLEET_ETCD_MAX_URLS = 16 };

struct fleet_etcd_urls {
    bool encrypted;
    uint32_t n;
    char *base[FLEET_ETCD_MAX_URLS];            /* "http://HOST:PORT" */
    const char *authority[FLEET_ETCD_MAX_URLS]; /* "HOST:PORT", inside base */
};

/* Reads "http://HOST:PORT,http://HOST:PORT": a port is 2379 where none is given. -EINVAL, -ENOMEM. */
int fleet_etcd_urls_parse(const char *text, struct fleet_etcd_urls *urls);
void fleet_etcd_urls_free(struct fleet_etcd_urls *urls);

/* Looks a name up without waiting. */
struct fleet_etcd_resolve;
/* NULL: no memory. */
struct fleet_etcd_resolve *fleet_etcd_resolve_begin(const char *authority);
/* 0: "ADDRESS:PORT" is in `address`. -EAGAIN: not yet. Otherwise there is none, and *why says so. */
int fleet_etcd_resolve_look(struct fleet_etcd_resolve *r, char *address, size_t size, const char **why);
/* NULL is allowed. */
void fleet_etcd_resolve_end(struct fleet_etcd_resolve *r);

#endif
