/* SPDX-License-Identifier: Apache-2.0 */
/* Reads members of a tokenizer.json's parts, and walks lists of parts. */
#include "src/generate/text/spec.h"

#include <errno.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/regex.h"
#include "src/generate/text/utf8.h"

const char *gen_spec_type(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "";
}

bool gen_spec_flag(const json_t *part, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(part, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *gen_spec_text(const json_t *part, const char *name, size_t *bytes)
{
    const json_t *value = json_object_get(part, name);
    *bytes = json_string_length(value);
    return json_string_value(value);
}

uint32_t gen_spec_char(const json_t *part, const char *name, uint32_t otherwise)
{
    size_t bytes;
    const char *text = gen_spec_text(part, name, &bytes);
    if (!text || !bytes) return otherwise;
    uint32_t c;
    gen_utf8_get(text, &c); /* jansson takes valid UTF-8 only */
    return c;
}

int gen_spec_pattern(const json_t *part, struct gen_regex **out)
{
    const json_t *pattern = json_object_get(part, "pattern");
    size_t bytes;
    const char *text = gen_spec_text(pattern, "Regex", &bytes);
    if (text) return gen_regex_open(text, bytes, out);
    text = gen_spec_text(pattern, "String", &bytes);
    if (text) return gen_regex_open_plain(text, bytes, out);
    return gw_error(-EINVAL, "tokenizer.json: a part of type %.60s has no pattern", gen_spec_type(part));
}

struct spec_walk {
    const char *name;
    int (*each)(void *to, const json_t *part);
    void *to;
    unsigned parts;
};

static int spec_walk_part(struct spec_walk *w, const json_t *part, unsigned depth)
{
    if (!part || json_is_null(part)) return 0;
    if (depth > GEN_MAX_SPEC_DEPTH || ++w->parts > GEN_MAX_SPEC_PARTS)
        return gw_error(-EINVAL, "tokenizer.json: %s has more than %d parts, or lists deeper than %d",
                        w->name, GEN_MAX_SPEC_PARTS, GEN_MAX_SPEC_DEPTH);
    if (strcmp(gen_spec_type(part), "Sequence") != 0) return w->each(w->to, part);
    const json_t *list = json_object_get(part, w->name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int err = spec_walk_part(w, json_array_get(list, i), depth + 1);
        if (err) return err;
    }
    return 0;
}

int gen_spec_each(const json_t *part, const char *name, int (*each)(void *to, const json_t *part), void *to)
{
    struct spec_walk w = {.name = name, .each = each, .to = to};
    return spec_walk_part(&w, part, 0);
}

int gen_spec_unknown(const char *what, const json_t *part)
{
    return gw_error(-ENOTSUP, "tokenizer.json: a %s of type '%.60s' is not supported", what,
                    gen_spec_type(part));
}
