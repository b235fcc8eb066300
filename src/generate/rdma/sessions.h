/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA sessions that clients open over HTTP: the calls under /v2/generate, which any HTTP door may pass on.
 *
 *   GET    /v2/generate                the models: names, vocabularies, lengths; the server's CPU time
 *   POST   /v2/generate/sessions       opens a session
 *   PUT    /v2/generate/sessions/ID    200: it is there still
 *   DELETE /v2/generate/sessions/ID    closes it
 *
 * POST takes {"model", "slots", "ring", "endpoint", "event_addr", "event_stride", "event_rkey"}: the client's
 * queue pair (gw_endpoint_format) and where its rings of events lie; addresses are texts "0x…". It answers
 * {"id", "slots", "endpoint", "request_addr", "request_stride", "request_rkey"}: the generator's queue pair
 * and where the slots for requests lie. From then on src/generate/wire/wire.h holds.
 *
 * A session ends with the connection that opened it, or when it breaks.
 */
#ifndef GW_GENERATE_RDMA_SESSIONS_H
#define GW_GENERATE_RDMA_SESSIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/door/httpd.h"
#include "src/generate/worker/worker.h"

#define GEN_RDMA_PATH "/v2/generate"

struct gen_rdma;

struct gen_rdma_opts {
    struct gen_worker *const *worker; /* `workers` of them; they outlive it */
    uint32_t workers;
    uint32_t each; /* sessions of one model that one client may have; 0: all but a quarter */
};

/* 0 or a negative errno with the reason in gw_last_error(). */
int gen_rdma_create(const struct gen_rdma_opts *opts, struct gen_rdma **out);
/* When no call can come any more. NULL is allowed. */
void gen_rdma_destroy(struct gen_rdma *t);
/* From now on no session is opened. Any thread. */
void gen_rdma_drain(struct gen_rdma *t);

/* Answers a call whose path begins with GEN_RDMA_PATH; ctx is the struct gen_rdma. These three are functions
 * of a struct gw_httpd_handler. */
unsigned gen_rdma_call(void *ctx, const struct gw_http_request *r, json_t **reply);
void gen_rdma_closed(void *ctx, const void *connection);
bool gen_rdma_stays(void *ctx, const void *connection);

#endif
