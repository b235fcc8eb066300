/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files in JSON, which strangers have written. A field that is missing, or null, leaves what
 * was there: callers set defaults first. A field of another type or out of its bounds is an error.
 */
#ifndef GW_GENERATE_IMPORT_JSON_H
#define GW_GENERATE_IMPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define GEN_JSON_MAX_CONFIG ((size_t)1 << 20)
#define GEN_JSON_MAX_INDEX  ((size_t)16 << 20)

/* An object, and where it stands: "FOLDER/config.json" or "FOLDER/config.json: rope_scaling". */
struct gen_json {
    json_t *at;
    char where[512];
};

/* Reads FOLDER/NAME of at most `max` bytes: an object, which gen_json_close frees. -ENOENT leaves
 * gw_last_error() as it was; -EFBIG, -EBADMSG, -ENOMEM and others set it. */
int gen_json_open(const char *folder, const char *name, size_t max, struct gen_json *out);
void gen_json_close(struct gen_json *j);
/* The same from memory, named `where`. */
int gen_json_parse(const char *where, const void *text, size_t bytes, struct gen_json *out);

/* The value of a field; NULL: missing or null. */
json_t *gen_json_get(const struct gen_json *j, const char *key);
/* A field that is an object, which lives as long as j does: 0, -ENOENT (missing), -EBADMSG. */
int gen_json_object(const struct gen_json *j, const char *key, struct gen_json *out);
/* Each: 0, or -EBADMSG. The bounds belong to the range. */
int gen_json_u32(const struct gen_json *j, const char *key, uint32_t min, uint32_t max, uint32_t *out);
int gen_json_number(const struct gen_json *j, const char *key, double min, double max, double *out);
int gen_json_float(const struct gen_json *j, const char *key, double min, double max, float *out);
int gen_json_bool(const struct gen_json *j, const char *key, bool *out);
/* A text that fits. */
int gen_json_text(const struct gen_json *j, const char *key, char *out, size_t size);

#endif
