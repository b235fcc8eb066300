/* SPDX-License-Identifier: Apache-2.0 */
/* enrol_none.c: a build without gRPC, which etcd speaks, has no registry. */
#include <errno.h>

#include <gpuwire/error.h>

#include "src/fleet/worker/enrol.h"

int fleet_enrol_open(const struct fleet_enrol_opts *opts, struct fleet_enrol **out)
{
    (void)opts;
    (void)out;
    return gw_error(-ENOTSUP, "this gpuwire was built without gRPC, which etcd speaks: name the controllers");
}

void fleet_enrol_close(struct fleet_enrol *e)
{
    (void)e;
}
