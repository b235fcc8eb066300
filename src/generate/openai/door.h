/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's API over HTTP, for one or more services. */
#ifndef GW_GENERATE_OPENAI_DOOR_H
#define GW_GENERATE_OPENAI_DOOR_H

#include "src/door/access.h"
#include "src/door/http_door.h"
#include "src/door/text.h"
#include "src/generate/openai/service.h"

struct gen_openai_door;

/* Calls of another part of the server, which the same port answers: those of `path`, and of what begins with
 * it and a slash. The functions are a gw_httpd_handler's. */
struct gen_openai_beside {
    const char *path; /* NULL: there are none */
    void *ctx;
    unsigned (*call)(void *ctx, const struct gw_http_request *request, json_t **reply);
    void (*closed)(void *ctx, const void *connection);
    bool (*stays)(void *ctx, const void *connection);
};

struct gen_openai_opts {
    struct gen_service **service; /* `services` of them, of different names; they outlive the door */
    uint32_t services;
    struct gw_http_door_opts http; /* max_body 0: GEN_OPENAI_MAX_BODY */
    struct gw_access *access;      /* NULL: none */
    const char *executor;          /* what the models run on, for metrics; NULL: not said */
    struct gen_openai_beside beside;
};
#define GEN_OPENAI_MAX_BODY (UINT64_C(16) << 20)

/* Listens, and answers on threads of its own. 0, or a negative errno with the reason in gw_last_error(). */
int gen_openai_open(const struct gen_openai_opts *opts, struct gen_openai_door **out);
/* The same without listening: for a server whose port answers other calls, too (src/door/http_door.h).
 * *handler gets what it must know. gen_openai_knows says which paths are this door's, with the handler's
 * ctx. */
int gen_openai_make(const struct gen_openai_opts *opts, struct gen_openai_door **out,
                    struct gw_httpd_handler *handler);
bool gen_openai_knows(void *door, const char *path);
/* A further service; opts.service has room for it after those that there are. One thread at a time, also
 * while the door answers. */
void gen_openai_add(struct gen_openai_door *d, struct gen_service *s);
/* Adds the models' part of /metrics. 0 or -ENOMEM. */
int gen_openai_metrics_models(const void *door, struct gw_text *t);
uint16_t gen_openai_port(const struct gen_openai_door *d);
/* To be called now and then, by one thread: connections that are silent for too long are closed. */
void gen_openai_tend(void *door);
/* Cuts what goes on. It may be called when the services drain, and gen_service_answers() is 0. */
void gen_openai_close(void *door);

#endif
