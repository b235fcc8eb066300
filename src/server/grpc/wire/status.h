/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC's headers about a call: how it has ended, and how much time it has. */
#ifndef GW_SERVER_GRPC_WIRE_STATUS_H
#define GW_SERVER_GRPC_WIRE_STATUS_H

#include <stddef.h>
#include <stdint.h>

enum gw_grpc_status {
    GW_GRPC_OK = 0,
    GW_GRPC_CANCELLED,
    GW_GRPC_UNKNOWN,
    GW_GRPC_INVALID_ARGUMENT,
    GW_GRPC_DEADLINE_EXCEEDED,
    GW_GRPC_NOT_FOUND,
    GW_GRPC_ALREADY_EXISTS,
    GW_GRPC_PERMISSION_DENIED,
    GW_GRPC_RESOURCE_EXHAUSTED,
    GW_GRPC_FAILED_PRECONDITION,
    GW_GRPC_ABORTED,
    GW_GRPC_OUT_OF_RANGE,
    GW_GRPC_UNIMPLEMENTED,
    GW_GRPC_INTERNAL,
    GW_GRPC_UNAVAILABLE,
    GW_GRPC_DATA_LOSS,
    GW_GRPC_UNAUTHENTICATED,
};

/* "NOT_FOUND"; "unknown" of a number that is none. */
const char *gw_grpc_status_name(unsigned status);
/* The value of a grpc-status header: GW_GRPC_UNKNOWN when it is no number. */
unsigned gw_grpc_status_parse(const uint8_t *text, size_t n);

/* `grpc-message` is percent-encoded. `to` gets a string that is cut where `size` ends. */
void gw_grpc_percent_encode(char *to, size_t size, const char *text);
void gw_grpc_percent_decode(char *to, size_t size, const uint8_t *text, size_t n);

/* The value of a grpc-timeout header in nanoseconds; UINT64_MAX: more than there may be. -EINVAL: it is none.
 */
int gw_grpc_timeout_parse(const uint8_t *text, size_t n, uint64_t *ns);
/* The other way round; it is never shorter than `ns`. */
#define GW_GRPC_TIMEOUT 16
void gw_grpc_timeout_format(char to[GW_GRPC_TIMEOUT], uint64_t ns);

#endif
