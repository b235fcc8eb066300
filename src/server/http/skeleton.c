/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a request's JSON without the elements of its tensors. */
#include "src/server/http/skeleton.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/door/text.h"

#define MAX_DEPTH 16 /* jansson calls itself for each level, on the connection's small stack */
#define MAX_BYTES (64u << 10)

struct scan {
    const char *p, *end;
    const char *copied; /* so far into the skeleton */
    struct gw_text text;
    struct gw_skeleton *out;
    uint32_t depth;
    char opened[MAX_DEPTH]; /* '{' or '[' of each level */
    int in_inputs;          /* the outermost object's last key was "inputs" */
};

/* The place after the string that begins at p, or NULL. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '"')
            return p + 1;
    }
    return NULL;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

/* The place after the value that begins at p, or NULL. An array is not looked into: its reader does. */
static const char *skeleton_skip_value(const char *p, const char *end)
{
    uint64_t depth = 0;
    for (; p && p < end; p++) {
        if (*p == '"') {
            p = skip_string(p, end);
            if (!p || !depth) return p;
            p--;
            continue;
        }
        if (!depth && (*p == ',' || *p == '}' || *p == ']')) return p;
        if (*p == '[' || *p == '{') depth++;
        if ((*p == ']' || *p == '}') && !--depth) return p + 1;
    }
    return NULL;
}

static bool is_string(const char *from, const char *to, const char *text)
{
    return (size_t)(to - from) == strlen(text) + 2 && !memcmp(from + 1, text, strlen(text));
}

/* inputs[i].data: its value becomes a number. */
static int cut_out(struct scan *s, const char *value)
{
    const char *behind = skeleton_skip_value(value, s->end);
    if (!behind || s->out->spans == GW_MODEL_MAX_IO) return -1;
    gw_text_add(&s->text, s->copied, (size_t)(value - s->copied));
    gw_text_printf(&s->text, "%u", s->out->spans);
    s->out->span[s->out->spans++] = (struct gw_span){value, (size_t)(behind - value)};
    s->copied = s->p = behind;
    return 0;
}

static int take_string(struct scan *s)
{
    const char *behind = skip_string(s->p, s->end), *from = s->p;
    if (!behind) return -1;
    s->p = behind;
    const char *colon = skip_space(behind, s->end);
    if (colon == s->end || *colon != ':' || s->opened[s->depth ? s->depth - 1 : 0] != '{') return 0;
    if (s->depth == 1) s->in_inputs = is_string(from, behind, "inputs");
    if (s->depth == 3 && s->in_inputs && is_string(from, behind, "data"))
        return cut_out(s, skip_space(colon + 1, s->end));
    return 0;
}

static int skeleton_scan(struct scan *s)
{
    while (s->p < s->end) {
        char c = *s->p;
        if (c == '"') {
            if (take_string(s)) return -1;
            continue;
        }
        if (c == '{' || c == '[') {
            if (s->depth == MAX_DEPTH) return -1;
            s->opened[s->depth++] = c;
        }
        if (c == '}' || c == ']') {
            if (!s->depth) return -1;
            s->depth--;
        }
        s->p++;
    }
    gw_text_add(&s->text, s->copied, (size_t)(s->end - s->copied));
    return s->text.broken || s->text.bytes > MAX_BYTES ? -1 : 0;
}

int gw_skeleton_parse(const char *text, size_t bytes, struct gw_skeleton *out, const char **why)
{
    struct scan s = {.p = text, .end = text + bytes, .copied = text, .out = out};
    json_error_t where;
    memset(out, 0, sizeof(*out));
    *why = "failed to parse the request JSON buffer: it is damaged, nested too deeply or too long";
    if (!skeleton_scan(&s)) out->json = json_loadb(s.text.at, s.text.bytes, JSON_REJECT_DUPLICATES, &where);
    free(s.text.at);
    if (json_is_object(out->json)) return 0;
    gw_skeleton_free(out);
    return -1;
}

void gw_skeleton_free(struct gw_skeleton *s)
{
    json_decref(s->json);
    s->json = NULL;
}
