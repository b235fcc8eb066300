/* SPDX-License-Identifier: Apache-2.0 */
/* Triton's error codes as HTTP's and gRPC's. */
#include "src/server/requests/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include <gpuwire/error.h>

#include "src/exec/c_locale.h"

int gw_infer_fail(struct gw_infer_error *error, enum gw_infer_code code, const char *format, ...)
{
    va_list args;
    error->code = code;
    error->retry_ns = 0;
    va_start(args, format);
    locale_t before = gw_c_locale_enter();
    vsnprintf(error->text, sizeof(error->text), format, args);
    gw_c_locale_leave(before);
    va_end(args);
    return -1;
}

int gw_infer_fail_late(struct gw_infer_error *error, enum gw_infer_code code)
{
    return gw_infer_fail(error, code, "Request timeout expired");
}

int gw_infer_fail_errno(struct gw_infer_error *error, int err)
{
    enum gw_infer_code code = GW_INFER_INTERNAL;
    switch (err) {
    case -EINVAL: code = GW_INFER_INVALID; break;
    case -ENOENT: code = GW_INFER_NOT_FOUND; break;
    case -EEXIST: code = GW_INFER_EXISTS; break;
    case -ENOTSUP: code = GW_INFER_UNSUPPORTED; break;
    case -EAGAIN:
    case -EBUSY:
    case -ETIME:
    case -ETIMEDOUT:
    case -ESHUTDOWN: code = GW_INFER_UNAVAILABLE; break;
    default: break;
    }
    return gw_infer_fail(error, code, "%s", gw_last_error());
}

unsigned gw_infer_http_status(enum gw_infer_code code)
{
    switch (code) {
    case GW_INFER_NOT_FOUND: return 404;
    case GW_INFER_UNAVAILABLE: return 503;
    case GW_INFER_LATE: return 504;
    case GW_INFER_UNSUPPORTED: return 501;
    case GW_INFER_INTERNAL: return 500;
    default: return 400;
    }
}

int gw_infer_grpc_status(enum gw_infer_code code)
{
    switch (code) {
    case GW_INFER_LATE: return 4;
    case GW_INFER_NOT_FOUND: return 5;
    case GW_INFER_EXISTS: return 6;
    case GW_INFER_UNSUPPORTED: return 12;
    case GW_INFER_INTERNAL: return 13;
    case GW_INFER_UNAVAILABLE: return 14;
    default: return 3;
    }
}
