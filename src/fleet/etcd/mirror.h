/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror.h: all keys with a prefix, and each change of them.
 *
 * A mirror reads the keys, page by page at one revision, and watches from there. When the connection is
 * lost it goes on where it stopped. When etcd has compacted that away, or is another one than before, it
 * reads all again. So its handler sees each key's last state, and may miss one that lasted a moment.
 */
#ifndef GW_FLEET_ETCD_MIRROR_H
#define GW_FLEET_ETCD_MIRROR_H

#include "src/fleet/etcd/etcd.h"

struct fleet_etcd_mirror;

struct fleet_etcd_mirror_handler {
    /* All keys that are there follow, until `synced`. What else was told before is gone. */
    void (*begin)(void *ctx);
    void (*put)(void *ctx, const struct fleet_etcd_kv *kv);
    /* A key was deleted, or its lease has ended, with that revision of the store. */
    void (*gone)(void *ctx, struct fleet_etcd_bytes key, int64_t revision);
    /* What was told is what there was at that revision. */
    void (*synced)(void *ctx, int64_t revision);
};

/* Of the one key, or of all keys with that prefix. -ENOMEM. */
int fleet_etcd_mirror_open(struct fleet_etcd *e, struct fleet_etcd_bytes key, bool is_prefix,
                           const struct fleet_etcd_mirror_handler *handler, void *ctx,
                           struct fleet_etcd_mirror **out);
/* NULL is allowed. Not from inside its handler. */
void fleet_etcd_mirror_close(struct fleet_etcd_mirror *m);

#endif
