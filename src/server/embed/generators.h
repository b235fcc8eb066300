/* SPDX-License-Identifier: Apache-2.0 */
/* The generators of a server inside a program: language models behind its HTTP port. One thread at a time
 * makes all calls but those of the door. */
#ifndef GW_SERVER_EMBED_GENERATORS_H
#define GW_SERVER_EMBED_GENERATORS_H

#include <gpuwire/serve.h>

#include "src/door/access.h"
#include "src/door/http_door.h"

struct gw_generators;

/* Where generators will run: the server's own options. The first one opens executor and NIC. 0 or a negative
 * errno, with the reason in gw_last_error(). */
int gw_generators_create(const struct gw_serving_opts *opts, struct gw_access *access,
                         struct gw_generators **out);
/* The calls of generators go beside those of the door that these options will make. */
void gw_generators_beside(struct gw_generators *g, struct gw_http_door_opts *http);
int gw_generators_add(struct gw_generators *g, const struct gw_serving_generator *model);
/* Readable when a generator has ended by itself: gw_generators_look says which, and why. */
int gw_generators_fd(const struct gw_generators *g);
int gw_generators_look(struct gw_generators *g);
/* Ends what waits and comes; what runs may go on until the deadline. Before the door stops. */
void gw_generators_drain(struct gw_generators *g, uint64_t deadline_ns);
/* After the door has stopped. -EBUSY: a step still runs, and nothing was freed. NULL is allowed. */
int gw_generators_destroy(struct gw_generators *g);

#endif
