/* SPDX-License-Identifier: Apache-2.0 */
/* metadata.h: what a worker says of a model, read as the description that doors know. The worker is a
 * stranger: what makes no sense is refused whole. */
#ifndef GW_FLEET_ROUTER_METADATA_H
#define GW_FLEET_ROUTER_METADATA_H

#include <stddef.h>

#include "src/server/wire/layout.h"

struct fleet_metadata {
    struct gw_model *model; /* its tensors and its kind; it computes nothing */
    unsigned version;
    uint32_t max_batch; /* samples of one request at most; 0: none of its tensors is batched */
    struct gw_layout in, out;
};

/* Reads the JSON of a model's metadata as the Open Inference Protocol has it. Beside that, "max_batch_size"
 * says how many samples a request may have. 0; -EBADMSG with the reason in gw_last_error(); -ENOMEM. */
int fleet_metadata_read(const char *json, size_t bytes, struct fleet_metadata *out);
/* All zero is allowed. */
void fleet_metadata_free(struct fleet_metadata *m);

#endif
