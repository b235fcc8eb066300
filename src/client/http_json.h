/* SPDX-License-Identifier: Apache-2.0 */
/* The Open Inference Protocol's JSON: the head of a request, and tensors that a server gives as text. */
#ifndef GW_CLIENT_HTTP_JSON_H
#define GW_CLIENT_HTTP_JSON_H

#include <jansson.h>

#include "src/client/impl.h"

/* The head of a request whose tensors follow in binary, as text; the caller frees it. NULL: no memory. */
char *gw_json_request(const struct gw_client *c, const struct gw_client_request *r);

/* Reads the numbers of `data` (nested lists, or a flat one) into `count` elements of that type. 0; -EPROTO:
 * there are more or fewer, or some are no numbers of that type. */
int gw_json_numbers(const json_t *data, uint32_t dtype, void *to, uint64_t count);

#endif
