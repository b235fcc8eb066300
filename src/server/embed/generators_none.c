/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for generators.c where the library is built without the generation of tokens. */
#include "src/server/embed/generators.h"

#include <errno.h>

int gw_generators_create(const struct gw_serving_opts *o, struct gw_access *access,
                         struct gw_generators **out)
{
    (void)o, (void)access;
    *out = NULL;
    return 0;
}

void gw_generators_beside(struct gw_generators *g, struct gw_http_door_opts *http)
{
    (void)g, (void)http;
}

int gw_generators_add(struct gw_generators *g, const struct gw_serving_generator *m)
{
    (void)g, (void)m;
    return gw_error(-ENOTSUP, "serving: built without generators; build with -DGW_GENERATE=ON");
}

int gw_generators_fd(const struct gw_generators *g)
{
    (void)g;
    return -1;
}

int gw_generators_look(struct gw_generators *g)
{
    (void)g;
    return 0;
}

void gw_generators_drain(struct gw_generators *g, uint64_t deadline_ns)
{
    (void)g, (void)deadline_ns;
}

int gw_generators_destroy(struct gw_generators *g)
{
    (void)g;
    return 0;
}
