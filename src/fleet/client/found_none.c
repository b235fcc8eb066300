/* SPDX-License-Identifier: Apache-2.0 */
/* In place of found.c, where there is no gRPC, which etcd speaks. */
#include <errno.h>

#include <gpuwire/error.h>

#include "src/fleet/client/impl.h"

int fleet_found_begin(struct fleet_client *c, const char *etcd)
{
    (void)c;
    return gw_error(-ENOTSUP, "etcd %s: built without gRPC; give the controllers' addresses", etcd);
}

void fleet_found_end(struct fleet_client *c)
{
    (void)c; /* it never begins */
}
