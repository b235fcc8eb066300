/* SPDX-License-Identifier: Apache-2.0 */
/* An inference request in JSON, as gw_infer knows requests. */
#ifndef GW_SERVER_HTTP_ASK_H
#define GW_SERVER_HTTP_ASK_H

#include "src/server/http/skeleton.h"
#include "src/server/requests/infer.h"

struct gw_http_ask {
    struct gw_skeleton skeleton; /* whose strings the request uses */
    const char *id;              /* the client's own; NULL: none */
    char *name;                  /* of the input of a request without JSON; else NULL */
    struct gw_infer_request request;
    struct gw_http_ask_input {
        uint64_t binary_bytes; /* after the JSON */
        int binary;
        const struct gw_span *json; /* or here; NULL with `binary` 0: in shared memory */
    } input[GW_MODEL_MAX_IO];
    uint8_t binary_output[GW_MODEL_MAX_IO]; /* the request's outputs: 1: after the answer's JSON */
    int binary_all;                         /* the same for a request that names no outputs */
};

/* `text` is followed by a zero and stays as long as the ask. The model and client in ask->request are the
 * caller's to fill in. 0, or -1 with *error; gw_http_ask_free either way. */
int gw_http_ask_parse(const char *text, size_t bytes, struct gw_http_ask *ask, struct gw_infer_error *error);
/* A request without any JSON: the body is the elements of the model's only input, the answer those of its
 * outputs. */
int gw_http_ask_raw(const struct gw_infer_model *m, uint64_t bytes, struct gw_http_ask *ask,
                    struct gw_infer_error *error);
void gw_http_ask_free(struct gw_http_ask *ask);

#endif
