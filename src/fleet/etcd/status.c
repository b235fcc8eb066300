/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd's refusals mean. Its texts tell more than gRPC's numbers. */
#include "src/fleet/etcd/status.h"

#include <errno.h>
#include <string.h>

#include "src/server/grpc/wire/status.h"

bool fleet_etcd_is_members_fault(unsigned status, const char *why)
{
    static const char *const said[] = {"no leader", "leader changed", "not capable", "server stopped",
                                       "timed out", "unhealthy",      "not started", "learner"};
    if (status != GW_GRPC_UNAVAILABLE && status != GW_GRPC_FAILED_PRECONDITION) return false;
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        if (strstr(why, said[i])) return true;
    return status == GW_GRPC_UNAVAILABLE;
}

int fleet_etcd_errno(unsigned status, const char *why)
{
    switch (status) {
    case GW_GRPC_UNAUTHENTICATED:
    case GW_GRPC_PERMISSION_DENIED: return -EACCES;
    case GW_GRPC_DEADLINE_EXCEEDED: return -ETIMEDOUT;
    case GW_GRPC_UNAVAILABLE:
    case GW_GRPC_ABORTED: return -EAGAIN;
    case GW_GRPC_OUT_OF_RANGE: return -ERANGE;
    case GW_GRPC_NOT_FOUND: return -ENOENT;
    case GW_GRPC_RESOURCE_EXHAUSTED: return strstr(why, "space") ? -ENOSPC : -EBUSY;
    case GW_GRPC_FAILED_PRECONDITION: return strstr(why, "already exists") ? -EEXIST : -EINVAL;
    case GW_GRPC_INVALID_ARGUMENT:
        /* "user name is empty", "authentication failed, invalid user ID or password" */
        return strstr(why, "user") || strstr(why, "authentication") ? -EACCES : -EINVAL;
    case GW_GRPC_UNIMPLEMENTED: return -EINVAL;
    default: return -EREMOTEIO;
    }
}
