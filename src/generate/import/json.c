/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of configuration files, each with its bounds. */
#include "src/generate/import/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/import/maps.h"

int gen_json_parse(const char *where, const void *text, size_t bytes, struct gen_json *out)
{
    json_error_t e;

    snprintf(out->where, sizeof(out->where), "%s", where);
    if (!(out->at = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &e)))
        return gw_error(-EBADMSG, "%s: line %d: %s", where, e.line, e.text);
    if (json_is_object(out->at)) return 0;
    gen_json_close(out);
    return gw_error(-EBADMSG, "%s: not a JSON object", where);
}

int gen_json_open(const char *folder, const char *name, size_t max, struct gen_json *out)
{
    struct gen_maps *maps = gen_maps_new();
    const uint8_t *at = NULL;
    size_t size = 0;
    char path[4096];
    int err = maps ? 0 : gw_error(-ENOMEM, "%s/%s: no memory", folder, name);

    out->at = NULL;
    if (!err && snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) err = -ENAMETOOLONG;
    if (!err) err = gen_maps_path(maps, path, &at, &size);
    if (!err && size > max)
        err = gw_error(-EFBIG, "%s: %zu bytes; there must be at most %zu", path, size, max);
    if (!err) err = gen_json_parse(path, at ? (const void *)at : "", size, out);
    gen_maps_free(maps);
    return err;
}

void gen_json_close(struct gen_json *j)
{
    json_decref(j->at);
    j->at = NULL;
}

json_t *gen_json_get(const struct gen_json *j, const char *key)
{
    json_t *v = json_object_get(j->at, key);

    return json_is_null(v) ? NULL : v;
}

int gen_json_object(const struct gen_json *j, const char *key, struct gen_json *out)
{
    json_t *v = gen_json_get(j, key);

    if (!v) return -ENOENT;
    if (!json_is_object(v)) return gw_error(-EBADMSG, "%s: %s: expected an object", j->where, key);
    out->at = v;
    snprintf(out->where, sizeof(out->where), "%.400s: %.100s", j->where, key);
    return 0;
}

int gen_json_u32(const struct gen_json *j, const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
    json_t *v = gen_json_get(j, key);
    json_int_t n = json_integer_value(v);

    if (!v) return 0;
    if (!json_is_integer(v) || n < (json_int_t)min || n > (json_int_t)max)
        return gw_error(-EBADMSG, "%s: %s: expected an integer from %u to %u", j->where, key, min, max);
    *out = (uint32_t)n;
    return 0;
}

int gen_json_number(const struct gen_json *j, const char *key, double min, double max, double *out)
{
    json_t *v = gen_json_get(j, key);
    double n = json_number_value(v);

    if (!v) return 0;
    if (!json_is_number(v) || !isfinite(n) || n < min || n > max)
        return gw_error(-EBADMSG, "%s: %s: expected a number from %g to %g", j->where, key, min, max);
    *out = n;
    return 0;
}

int gen_json_float(const struct gen_json *j, const char *key, double min, double max, float *out)
{
    double n = (double)*out;
    int err = gen_json_number(j, key, min, max, &n);

    if (!err) *out = (float)n;
    return err;
}

int gen_json_bool(const struct gen_json *j, const char *key, bool *out)
{
    json_t *v = gen_json_get(j, key);

    if (!v) return 0;
    if (!json_is_boolean(v)) return gw_error(-EBADMSG, "%s: %s: expected true or false", j->where, key);
    *out = json_is_true(v);
    return 0;
}

int gen_json_text(const struct gen_json *j, const char *key, char *out, size_t size)
{
    json_t *v = gen_json_get(j, key);

    if (!v) return 0;
    if (!json_is_string(v) || json_string_length(v) >= size ||
        strlen(json_string_value(v)) != json_string_length(v))
        return gw_error(-EBADMSG, "%s: %s: expected a string of less than %zu bytes", j->where, key, size);
    memcpy(out, json_string_value(v), json_string_length(v) + 1);
    return 0;
}
