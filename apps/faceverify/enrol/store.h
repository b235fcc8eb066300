/* SPDX-License-Identifier: Apache-2.0 */
/* Puts people into memcached, where the kernels look for them: same keys, same servers. */
#ifndef FACE_ENROL_STORE_H
#define FACE_ENROL_STORE_H

#include "apps/faceverify/face.h"
#include "apps/faceverify/memcache_ring.h"

struct face_store;

/* `servers` and `spread` as the options name them; NULL: the usual spread. Nothing is connected yet. 0,
 * or an exit code after one line that says what is wrong. */
int face_store_open(const char *command, const char *servers, const char *spread, struct face_store **out);
void face_store_close(struct face_store *store);

/* All below: one thread at a time; 0, or a negative errno with gw_last_error(). A server has 5 s for each
 * answer; one that does not answer is tried again on a new connection the next time. */

int face_store_put(struct face_store *store, const char *name, const struct face_histogram *h);
/* -ENOENT: there is none; -EBADMSG: the value is no histogram of that name. */
int face_store_get(struct face_store *store, const char *name, struct face_histogram *h);
/* -ENOENT: there is none. */
int face_store_remove(struct face_store *store, const char *name);

#endif
