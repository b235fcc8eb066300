/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of the door share. */
#ifndef GW_GENERATE_OPENAI_SHARED_H
#define GW_GENERATE_OPENAI_SHARED_H

#include <time.h>

#include "src/door/room.h"
#include "src/door/text.h"
#include "src/generate/openai/door.h"
#include "src/generate/openai/refusal.h"

struct gen_openai_door {
    struct gw_http_ports ports;
    struct gen_service **service;
    uint32_t services; /* it grows while the door answers: gen_openai_services reads it */
    struct gw_access *access;
    const char *executor;
    struct gen_openai_beside beside;
    uint64_t max_body;
    struct gw_room room; /* for bodies that are being received */
    int64_t since;       /* seconds since 1970 */
};

/* How many services there are; those are whole. */
static inline uint32_t gen_openai_services(const struct gen_openai_door *d)
{
    /* Acquire, with gen_openai_add's release: a service is seen as it was put there. */
    return __atomic_load_n(&d->services, __ATOMIC_ACQUIRE);
}

/* The service of that name; NULL as the name: the only one. NULL and *refusal: there is none. */
struct gen_service *gen_openai_find(const struct gen_openai_door *d, const char *model,
                                    struct gen_refusal *refusal);

/* Calls without a long body: the functions of a gw_httpd_handler. */
unsigned gen_openai_call(void *ctx, const struct gw_http_request *r, json_t **reply);
unsigned gen_openai_call_metrics(void *ctx, const struct gw_http_request *r, json_t **reply);
/* The text of /metrics, as a new reference; NULL: no memory. */
json_t *gen_openai_metrics(const struct gen_openai_door *d);

/* Does a POST of that path have a body that may be long? */
bool gen_openai_is_post(const char *path);
/* Calls with one: further functions of a gw_httpd_handler. */
void *gen_openai_post(void *ctx, const struct gw_http_request *r);
void gen_openai_post_piece(void *stream, const char *data, size_t bytes);
void gen_openai_post_finish(void *stream, struct gw_http_answer *answer);
void gen_openai_post_refuse(void *stream, unsigned status, const char *why);
void gen_openai_post_drop(void *stream);

#endif
