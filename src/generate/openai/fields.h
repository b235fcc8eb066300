/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of a JSON object, with their types and bounds. A field that is absent or null leaves *out as it is.
 * The first field that is wrong sets the refusal; the others are then not looked at. All return whether the
 * field is there.
 */
#ifndef GW_GENERATE_OPENAI_FIELDS_H
#define GW_GENERATE_OPENAI_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/generate/openai/refusal.h"

struct gen_fields {
    const json_t *object;
    struct gen_refusal *refusal;
};

/* The field; NULL: it is absent or null, or an earlier one was wrong. */
const json_t *gen_field(struct gen_fields *f, const char *name);
bool gen_field_wrong(const struct gen_fields *f);
bool gen_field_bool(struct gen_fields *f, const char *name, bool *out);
bool gen_field_text(struct gen_fields *f, const char *name, const char **out);
bool gen_field_number(struct gen_fields *f, const char *name, double min, double max, double *out);
bool gen_field_float(struct gen_fields *f, const char *name, double min, double max, float *out);
bool gen_field_integer(struct gen_fields *f, const char *name, int64_t min, int64_t max, int64_t *out);
bool gen_field_u32(struct gen_fields *f, const char *name, uint32_t min, uint32_t max, uint32_t *out);

#endif
