/* SPDX-License-Identifier: Apache-2.0 */
/* The client, whatever its door. */
#ifndef GW_CLIENT_IMPL_H
#define GW_CLIENT_IMPL_H

#include <jansson.h>

#include <gpuwire/client.h>

#include "src/client/describe.h"
#include "src/client/http_client.h"
#include "src/client/url.h"
#include "src/server/wire/layout.h"

#define GW_CLIENT_REGIONS   64
#define GW_CLIENT_MAX_BYTES ((uint64_t)4 << 30) /* of all slots: a server may name any sizes */

/* Where the tensors of one request lie. `region` is the client's number of it, -1: the slot itself. */
struct gw_client_from {
    const uint8_t *at[GW_CLIENT_MAX_IO];
    int region[GW_CLIENT_MAX_IO];
};

struct gw_client_region {
    const uint8_t *addr;
    size_t bytes;
    void *key; /* the door's; NULL: it needs none */
};

enum gw_client_question { GW_CLIENT_ASK_MODEL, GW_CLIENT_ASK_CONFIG, GW_CLIENT_ASK_STATS };

/* How requests travel. Calls of one client come one at a time; arguments were checked. */
struct gw_client_door {
    const char *name;
    /* The server's description of the model, in HTTP's form, which the caller frees. Errors are those of
     * gw_http_call; -ENOENT: there is no such model. Also before open. */
    int (*ask)(struct gw_client *c, enum gw_client_question what, json_t **answer);
    /* Fills c->slots, c->in and what else it needs; when it fails, close is called. */
    int (*open)(struct gw_client *c);
    void (*close)(struct gw_client *c);
    int (*submit)(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                  const struct gw_client_from *from);
    int (*wait)(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply);
    int (*add_region)(struct gw_client *c, struct gw_client_region *r); /* NULL: nothing to do */
    void (*drop_region)(struct gw_client *c, struct gw_client_region *r);
};

extern const struct gw_client_door gw_client_rdma, gw_client_http, gw_client_grpc, gw_client_fleet;

/* `ask` of the doors that ask over HTTP. */
int gw_client_ask_http(struct gw_client *c, enum gw_client_question what, json_t **answer);

struct gw_client_slot {
    uint64_t sent; /* when it was submitted; 0: not in flight */
    uint64_t id;
    uint32_t rows;
};

struct gw_client {
    const struct gw_client_door *door;
    void *own; /* the door's */
    struct gw_url url;
    struct gw_http *http; /* for questions; NULL: none was asked over HTTP */
    struct gw_http_opts http_opts;
    char *name, *version, *token, *ca_file;
    char *path; /* "v2/models/NAME" or with "/versions/VERSION" */
    struct gw_client_model model;
    struct gw_layout in_layout;
    uint32_t slots, rows; /* wanted (0: the door's choice), then what there is */
    uint32_t in_flight;
    /* Slot k's inputs lie in_head behind in + k * in_stride, as src/server/wire/wire.h has it. */
    uint8_t *in;
    uint64_t in_stride;
    struct gw_client_slot slot[GW_CLIENT_MAX_SLOTS];
    struct gw_client_region region[GW_CLIENT_REGIONS];
    uint32_t regions;
};

#define GW_CLIENT_ALIGN 256u /* bytes between slots */
static inline uint64_t gw_client_align(uint64_t v)
{
    return (v + GW_CLIENT_ALIGN - 1) / GW_CLIENT_ALIGN * GW_CLIENT_ALIGN;
}

static inline uint8_t *gw_client_slot_at(const struct gw_client *c, uint32_t slot)
{
    return c->in + slot * c->in_stride;
}

/* Fills the shape and place of output i of an answer with `rows` rows. */
void gw_client_output_fill(const struct gw_client_tensor *t, uint32_t rows, const void *data,
                           struct gw_client_output *out);

/* As many slots as all fit into the memory that there may be: the wish, less where it was no more than the
 * door's choice, or -EFBIG. `each` is a slot's bytes. */
int gw_client_fit_slots(struct gw_client *c, uint32_t wish, uint64_t each);

#endif
