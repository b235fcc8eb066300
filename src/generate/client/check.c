/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a request asks for before it is sent: the generator would refuse the same with a number. */
#include <errno.h>
#include <math.h>

#include <gpuwire/error.h>

#include "src/generate/client/client.h"

static int check_count(const char *what, uint64_t n, uint64_t min, uint64_t max)
{
    if (n >= min && n <= max) return 0;
    return gw_error(-EINVAL, "%s: must be %llu to %llu, not %llu", what, (unsigned long long)min,
                    (unsigned long long)max, (unsigned long long)n);
}

static int check_tokens(const char *what, const uint32_t *token, uint32_t n, uint32_t vocab)
{
    for (uint32_t i = 0; i < n; i++)
        if (token[i] >= vocab)
            return gw_error(-EINVAL, "%s: token %u is %u, and the model has %u", what, i, token[i], vocab);
    return 0;
}

static int check_number(const char *what, float n, float min, float max)
{
    if (n >= min && n <= max) return 0; /* not a number is neither */
    return gw_error(-EINVAL, "%s: must be %g to %g", what, (double)min, (double)max);
}

static int check_sampling(const struct gen_request *r)
{
    int err = check_number("temperature", r->temperature, 0, 1000);
    if (!err && !(r->top_p > 0 && r->top_p <= 1))
        err = gw_error(-EINVAL, "top_p: must be above 0, 1 at most");
    if (!err && !(r->min_p >= 0 && r->min_p < 1))
        err = gw_error(-EINVAL, "min_p: must be 0 or more, below 1");
    if (!err) err = check_number("repetition penalty", r->repetition, 0.01f, 100);
    if (!err) err = check_number("presence penalty", r->presence, -100, 100);
    if (!err) err = check_number("frequency penalty", r->frequency, -100, 100);
    return err;
}

static int check_biases(const struct gen_source_ask *ask, uint32_t vocab)
{
    for (uint32_t i = 0; i < ask->request.biases; i++) {
        if (ask->bias[i].token >= vocab)
            return gw_error(-EINVAL, "bias: token %u, and the model has %u", ask->bias[i].token, vocab);
        if (!isfinite(ask->bias[i].logprob)) return gw_error(-EINVAL, "bias: must be a finite number");
    }
    return 0;
}

int gen_source_check(const struct gen_source_shape *shape, const struct gen_source_ask *ask)
{
    const struct gen_request *r = &ask->request;
    int err = check_count("max_tokens", r->max_tokens, 1, shape->max_tokens);
    if (!err) err = check_count("tokens of the prompt", r->prompt, 1, shape->context - 1);
    if (!err && (uint64_t)r->prompt + r->max_tokens > shape->context)
        err = gw_error(-EINVAL, "the prompt's %u tokens and max_tokens %u exceed the context of %u",
                       r->prompt, r->max_tokens, shape->context);
    if (!err) err = check_count("stop tokens", r->stops, 0, GEN_MAX_STOPS);
    if (!err) err = check_count("biases", r->biases, 0, GEN_MAX_BIAS);
    if (!err) err = check_count("min_tokens", r->min_tokens, 0, r->max_tokens);
    if (!err) err = check_count("top logprobs", r->tops, 0, GEN_MAX_TOPS);
    if (!err && r->flags & ~GEN_FLAGS) err = gw_error(-EINVAL, "flags: unknown ones");
    if (!err) err = check_tokens("prompt", ask->prompt, r->prompt, shape->vocab);
    if (!err) err = check_tokens("stop", ask->stop, r->stops, shape->vocab);
    if (!err) err = check_biases(ask, shape->vocab);
    return err ? err : check_sampling(r);
}
