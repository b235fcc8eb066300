/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of the serving API's calls. Each call returns the HTTP status and sets *reply. `rest`
 * is what follows the call's own part of the path. */
#ifndef GW_SERVER_HTTP_CALLS_H
#define GW_SERVER_HTTP_CALLS_H

#include "src/server/http/api.h"

unsigned gw_http_fail(unsigned status, json_t **reply, const char *why);
unsigned gw_http_fail_infer(const struct gw_infer_error *error, json_t **reply);
/* 0, or the status of the refusal while the server drains. */
unsigned gw_http_draining(struct gw_api *api, json_t **reply);
/* The same while it is not ready, for whatever reason. */
unsigned gw_http_unready(struct gw_api *api, json_t **reply);
unsigned gw_http_done(unsigned status, json_t **reply, json_t *body); /* body NULL: memory was lacking */
unsigned gw_http_nothing(json_t **reply);                             /* no such call */

/* A tensor's name, datatype and shape. */
json_t *gw_http_tensor(const struct gw_infer_model *m, const struct gw_tensor_info *t);
/* The tensors of all its inputs (output 0), or outputs. */
json_t *gw_http_tensors(const struct gw_infer_model *m, int output);

unsigned gw_http_models(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                        json_t **reply);
unsigned gw_http_model_index(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                             json_t **reply);
unsigned gw_http_control(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply);
unsigned gw_http_sessions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                          json_t **reply);
unsigned gw_http_regions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply);
unsigned gw_http_cuda_regions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                              json_t **reply);
unsigned gw_http_metrics(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply);

#endif
