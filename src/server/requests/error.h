/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request of the Open Inference Protocol failed: Triton's codes, and a line for the client. */
#ifndef GW_SERVER_REQUESTS_ERROR_H
#define GW_SERVER_REQUESTS_ERROR_H

#include <stdint.h>

enum gw_infer_code {
    GW_INFER_INVALID,     /* the request makes no sense */
    GW_INFER_NOT_FOUND,   /* no such model, version or region */
    GW_INFER_EXISTS,      /* a region of that name is registered */
    GW_INFER_UNAVAILABLE, /* not now: the time is over, the server stops, everything is taken */
    GW_INFER_LATE,        /* the time is over, where a backend tells that apart */
    GW_INFER_UNSUPPORTED, /* the protocol has it, this server has not */
    GW_INFER_INTERNAL,    /* the model failed, or the server */
};

struct gw_infer_error {
    enum gw_infer_code code;
    char text[512];
    uint64_t retry_ns; /* of GW_INFER_UNAVAILABLE: when it is worth trying again; 0: unknown */
};

/* Fills it in and returns -1. */
int gw_infer_fail(struct gw_infer_error *error, enum gw_infer_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The request's time is over, which has this code. */
int gw_infer_fail_late(struct gw_infer_error *error, enum gw_infer_code code);
/* The same from a negative errno and gw_last_error(). */
int gw_infer_fail_errno(struct gw_infer_error *error, int err);

/* As HTTP and gRPC number them. */
unsigned gw_infer_http_status(enum gw_infer_code code);
int gw_infer_grpc_status(enum gw_infer_code code);

#endif
