/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces keepalived's $NAME parameters before the file is parsed. */
#include "src/balance/control/params.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/config.h"

#define PARAM_DEPTH 8 /* values that name parameters themselves */

static size_t param_name(const char *at)
{
    size_t n = 0;
    if (isdigit((unsigned char)*at)) return 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

static const char *param_value(const struct gw_bal_param *p, const char *name, size_t n)
{
    for (; p; p = p->next)
        if (strlen(p->name) == n && !memcmp(p->name, name, n)) return p->value;
    return NULL;
}

/* The newest definition counts. */
static int param_define(struct gw_bal_param **params, const char *name, size_t n, const char *value,
                        size_t bytes)
{
    struct gw_bal_param *p = malloc(sizeof(*p) + n + bytes + 2);
    if (!p) return -ENOMEM;
    memcpy(p->name, name, n);
    p->name[n] = 0;
    p->value = p->name + n + 1;
    memcpy(p->value, value, bytes);
    p->value[bytes] = 0;
    p->next = *params;
    *params = p;
    return 0;
}

/* Copies until `end`, with values in place of names. Values may name others. 0, -ELOOP: too deep, -EFBIG. */
static int param_copy(FILE *out, const char *at, const char *end, const struct gw_bal_param *params,
                      int depth)
{
    int err = depth > PARAM_DEPTH ? -ELOOP : 0;
    while (at < end && !err) {
        int braced = *at == '$' && at + 1 < end && at[1] == '{';
        const char *name = at + 1 + braced;
        size_t n = *at == '$' ? param_name(name) : 0;
        const char *after = name + n + braced;
        int ends = braced ? name[n] == '}' : after >= end || isspace((unsigned char)*after);
        const char *value = n && ends && after <= end ? param_value(params, name, n) : NULL;
        if (value)
            err = param_copy(out, value, value + strlen(value), params, depth + 1);
        else
            fputc(*at, out);
        at = value ? after : at + 1;
        if (ftell(out) > GW_BAL_MAX) err = -EFBIG;
    }
    return err;
}

/* "$NAME=VALUE" in one line? Values of several lines are none, and stay in the text. */
static int param_line(const char *at, const char *end, struct gw_bal_param **params)
{
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    size_t n = at < end && *at == '$' ? param_name(at + 1) : 0;
    const char *value = at + n + 2;
    if (!n || value > end || value[-1] != '=') return 0;
    while (end > value && isspace((unsigned char)end[-1])) end--;
    if (end > value && end[-1] == '\\') return 0;
    return param_define(params, at + 1, n, value, (size_t)(end - value)) ? -ENOMEM : 1;
}

char *gw_bal_params_fill(const char *text, struct gw_bal_param **params)
{
    char *filled = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&filled, &bytes);
    int err = out ? 0 : -ENOMEM;
    for (const char *end; !err && *text; text = end + (*end == '\n')) {
        end = text + strcspn(text, "\n");
        int defined = param_line(text, end, params);
        if (defined < 0) err = defined;
        if (!defined) err = param_copy(out, text, end, *params, 0);
        if (*end && !err) fputc('\n', out);
    }
    if (out && fclose(out)) err = -ENOMEM;
    if (!err) return filled;
    free(filled);
    if (err == -ELOOP) gw_error(err, "parameters name each other more than %d deep", PARAM_DEPTH);
    if (err == -EFBIG) gw_error(err, "with the values of its parameters it is too long");
    if (err == -ENOMEM) gw_error(err, "no memory");
    return NULL;
}

void gw_bal_params_free(struct gw_bal_param *params)
{
    for (struct gw_bal_param *next; params; params = next) {
        next = params->next;
        free(params);
    }
}
