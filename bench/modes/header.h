/* SPDX-License-Identifier: Apache-2.0 */
/* The header of an answer, made where the slots lie. */
#ifndef MODES_HEADER_H
#define MODES_HEADER_H

#include <gpuwire/fn.h>

#include "src/server/wire/wire.h"

/* Another clock than the GPU's stamps the rest, and does not know the model's end. The start stands for it,
 * so clients count the server's time as the network's. The server's own counters have it. */
GW_FN void modes_header(struct gw_serve_reply *reply, const struct gw_serve_request *request, uint64_t bytes,
                        uint64_t arrived, uint64_t started)
{
    reply->magic = GW_SERVE_MAGIC;
    reply->version = GW_SERVE_VERSION;
    reply->status = GW_SERVE_OK;
    reply->id = request->id;
    reply->bytes = bytes;
    reply->arrived = arrived;
    reply->started = reply->done = reply->posted = started;
    reply->last_post_ns = 0;
    reply->batch = 1;
}

#endif
