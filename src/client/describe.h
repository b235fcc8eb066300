/* SPDX-License-Identifier: Apache-2.0 */
/* A server's description of a model: its tensors, and what it has counted. */
#ifndef GW_CLIENT_DESCRIBE_H
#define GW_CLIENT_DESCRIBE_H

#include <jansson.h>

#include <gpuwire/client.h>

struct gw_client_model {
    uint32_t inputs, outputs;
    struct gw_client_tensor input[GW_CLIENT_MAX_IO], output[GW_CLIENT_MAX_IO];
    uint32_t batched;    /* some tensor is */
    uint32_t max_rows;   /* 0: the server does not say */
    uint32_t rdma_slots; /* the most that a session has; 0: there are no sessions */
};

/* Reads the answer to GET v2/models/M. `shapes` closes open dimensions of inputs. 0, or a negative errno with
 * gw_last_error(): -EPROTO, -ENOTSUP, -EINVAL as gw_client_open says. */
int gw_describe_model(const json_t *answer, const struct gw_client_opts *opts, struct gw_client_model *m);

/* Reads the answer to GET v2/models/M/stats. -ENOTSUP: it has no statistics of the protocol's. */
int gw_describe_stats(const json_t *answer, struct gw_client_stats *s);

#endif
