/* SPDX-License-Identifier: Apache-2.0 */
/* Why a call gets no answer, as OpenAI's clients read it. */
#ifndef GW_GENERATE_OPENAI_REFUSAL_H
#define GW_GENERATE_OPENAI_REFUSAL_H

#include <jansson.h>
#include <stdint.h>

struct gen_refusal {
    unsigned status;  /* of HTTP; 0: none */
    char param[64];   /* the field; "": it is about none */
    const char *code; /* NULL: none */
    char message[512];
    uint64_t retry_ns; /* when it is worth trying again; 0: it does not say */
};

/* Sets all but retry_ns, and returns -1. `param` may be a stranger's text; NULL: none. */
int gen_refuse(struct gen_refusal *r, unsigned status, const char *param, const char *code,
               const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A 400 about a field; returns -1. */
int gen_refuse_field(struct gen_refusal *r, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a negative errno of gen_answer_begin means, with gw_last_error()'s text; returns -1. */
int gen_refuse_begin(struct gen_refusal *r, int err);
/* What the last event of a stream means that made no more tokens: its status and detail (wire.h); returns
 * -1. */
int gen_refuse_event(struct gen_refusal *r, uint16_t status, uint16_t detail);

/* {"error": {"message", "type", "param", "code"}}: a new reference; NULL: no memory. */
json_t *gen_refusal_json(const struct gen_refusal *r);
/* The same of a status and a text: for gw_httpd_handler. */
json_t *gen_refusal_door(unsigned status, const char *why);

#endif
