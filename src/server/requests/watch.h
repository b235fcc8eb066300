/* SPDX-License-Identifier: Apache-2.0 */
/* Models that come into the repository, change there and go are served, replaced and stopped, without being
 * asked.
 *
 * A look at the repository follows its changes (inotify), and comes every 15 seconds in any case: file
 * systems of other hosts tell of no changes. What is found is used when two looks have found the same: so no
 * model is read while it is being copied. All on one thread. */
#ifndef GW_SERVER_REQUESTS_WATCH_H
#define GW_SERVER_REQUESTS_WATCH_H

#include "src/server/lifecycle/server.h"

struct gw_watch;

/* Remembers what the repository has now: before the server reads it. `only`: this model alone; NULL: every
 * one. Both texts outlive the watch. 0 or a negative errno with the reason in gw_last_error(). */
int gw_watch_create(const char *repository, const char *only, struct gw_watch **out);
/* NULL is allowed. */
void gw_watch_destroy(struct gw_watch *w);
/* Readable when gw_watch_do has something to do: one of the descriptors of gw_server_run. */
int gw_watch_fd(const struct gw_watch *w);
/* Takes a look, when it is time for one. Models that cannot be served are reported, once for each state of
 * their files; the version before goes on. On the thread of gw_server_run, between two runs. */
void gw_watch_do(struct gw_watch *w, struct gw_server *server);

#endif
