/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c: errors of the fleet's client as codes and lines for the clients of doors. */
#include "src/fleet/router/refuse.h"

#include <errno.h>

#define REFUSE_RETRY_NS 1000000000u /* where the fleet does not say when to try again */

static enum gw_infer_code refuse_code(int err)
{
    switch (err) {
    case -ETIME:
    case -ETIMEDOUT: return GW_INFER_LATE;
    case -ENOENT: return GW_INFER_NOT_FOUND;
    case -EINVAL: return GW_INFER_INVALID;
    case -EAGAIN:
    case -EACCES: /* of the router itself, not of its client */
    case -ECONNRESET:
    case -ECANCELED: return GW_INFER_UNAVAILABLE;
    default: return GW_INFER_INTERNAL;
    }
}

int fleet_refuse(int err, const char *why, int64_t retry_ns, const char *model, struct gw_infer_error *error)
{
    enum gw_infer_code code = refuse_code(err);
    gw_infer_fail(error, code, "model '%.127s': %.160s", model, why && *why ? why : "the fleet refused it");
    if (code == GW_INFER_UNAVAILABLE) error->retry_ns = retry_ns > 0 ? (uint64_t)retry_ns : REFUSE_RETRY_NS;
    return -1;
}
