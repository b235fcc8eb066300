/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: which status, code and text each fault has, and OpenAI's body for them. */
#include "src/generate/openai/refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/wire/wire.h"

#define REFUSAL_RETRY_NS UINT64_C(1000000000)

static int refusal_set(struct gen_refusal *r, unsigned status, const char *param, const char *format,
                       va_list args)
{
    r->status = status;
    r->code = NULL;
    snprintf(r->param, sizeof(r->param), "%s", param ? param : "");
    vsnprintf(r->message, sizeof(r->message), format, args);
    return -1;
}

int gen_refuse(struct gen_refusal *r, unsigned status, const char *param, const char *code,
               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refusal_set(r, status, param, format, args);
    va_end(args);
    r->code = code;
    return -1;
}

int gen_refuse_field(struct gen_refusal *r, const char *param, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refusal_set(r, 400, param, format, args);
    va_end(args);
    return -1;
}

static int refusal_full(struct gen_refusal *r, const char *why)
{
    r->retry_ns = REFUSAL_RETRY_NS;
    return gen_refuse(r, 429, NULL, "rate_limit_exceeded", "%s", why);
}

int gen_refuse_begin(struct gen_refusal *r, int err)
{
    switch (err) {
    case -EAGAIN:
    case -ETIMEDOUT:
        return refusal_full(r, "the server has no room for another request now; try again later");
    case -EDQUOT:
        return refusal_full(r, "this client has its share of requests; wait until one of them ends");
    case -ESHUTDOWN:
        return gen_refuse(r, 503, NULL, "closing", "the server is about to end; ask another one");
    case -EINVAL:
    case -E2BIG: return gen_refuse(r, 400, NULL, NULL, "%s", gw_last_error());
    case -ENOMEM:
    case -EMFILE: return gen_refuse(r, 503, NULL, NULL, "%s", gw_last_error());
    default: return gen_refuse(r, 500, NULL, NULL, "%s", gw_last_error());
    }
}

static const char *refusal_detail(uint16_t detail)
{
    switch (detail) {
    case GEN_BAD_TOKEN: return "a token id is not of the model's vocabulary";
    case GEN_TOO_LONG: return "prompt and max_tokens are longer than the model's context";
    case GEN_BAD_SAMPLING: return "a number for sampling is out of range";
    default: return "the generator does not take the request";
    }
}

int gen_refuse_event(struct gen_refusal *r, uint16_t status, uint16_t detail)
{
    switch (status) {
    case GEN_LATE:
        return gen_refuse(r, 504, NULL, "deadline_exceeded", "a token would have come after its deadline");
    case GEN_INVALID: return gen_refuse(r, 400, NULL, NULL, "%s", refusal_detail(detail));
    case GEN_CLOSING: return gen_refuse_begin(r, -ESHUTDOWN);
    case GEN_FULL: return refusal_full(r, "the queue is full, or the prompt needs more memory than there is");
    case GEN_CANCELLED: return gen_refuse(r, 503, NULL, "cancelled", "the request was taken back");
    default: return gen_refuse(r, 500, NULL, NULL, "the model failed; the server's log says more");
    }
}

static const char *refusal_type(unsigned status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
    }
}

/* The text without bytes that are no ASCII, where it is no UTF-8. */
static json_t *refusal_text(const char *text)
{
    char clean[sizeof(((struct gen_refusal *)0)->message)];
    json_t *value = json_string(text);
    if (value) return value;
    size_t n = 0;
    for (; text[n] && n < sizeof(clean) - 1; n++) clean[n] = text[n] & 0x80 ? '?' : text[n];
    clean[n] = 0;
    return json_string(clean);
}

json_t *gen_refusal_json(const struct gen_refusal *r)
{
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", refusal_text(r->message), "type",
                     refusal_type(r->status), "param", r->param[0] ? refusal_text(r->param) : json_null(),
                     "code", r->code);
}

json_t *gen_refusal_door(unsigned status, const char *why)
{
    struct gen_refusal r;
    gen_refuse(&r, status, NULL, status == 401 ? "invalid_api_key" : NULL, "%s", why);
    return gen_refusal_json(&r);
}
