/* SPDX-License-Identifier: Apache-2.0 */
/* Enlarging a picture through a serving client: tiles out, tiles in, as many in flight as there are slots. */
#ifndef GW_CLI_ENLARGE_H
#define GW_CLI_ENLARGE_H

#include <gpuwire/client.h>
#include <gpuwire/exec.h>

#include "src/cli/latency.h"
#include "src/image/enlarge.h"

/* How long one answer may take before the worker is given up. */
#define GW_ANSWER_NS 60000000000u
/* Pixels around a tile that its answer depends on but is not taken from: what the networks that come with
 * gpuwire see (models/superresolution/README.md) and two more. */
#define GW_TILE_OVERLAP 8

/* Waits for one answer, at most GW_ANSWER_NS, while watching for the user's Ctrl-C (-EINTR). A request that
 * the worker could not answer is an error too. */
int gw_next_answer(struct gw_client *c, struct gw_client_reply *reply);

/* Sends the picture `rounds` times, tile by tile, and makes the larger picture of the last answers. Errors
 * are in gw_last_error(); -EINTR when the user interrupted it. */
int gw_enlarge_by(struct gw_client *c, const struct gw_image *in, uint32_t rounds, struct gw_image *out,
                  struct gw_latency *latency);

#endif
