/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fields of a JSON object, and says what is wrong with one. */
#include "src/generate/openai/fields.h"

#include <inttypes.h>

bool gen_field_wrong(const struct gen_fields *f)
{
    return f->refusal->status != 0;
}

const json_t *gen_field(struct gen_fields *f, const char *name)
{
    const json_t *value = gen_field_wrong(f) ? NULL : json_object_get(f->object, name);
    return json_is_null(value) ? NULL : value;
}

bool gen_field_bool(struct gen_fields *f, const char *name, bool *out)
{
    const json_t *value = gen_field(f, name);
    if (!value) return false;
    if (json_is_boolean(value))
        *out = json_is_true(value);
    else
        gen_refuse_field(f->refusal, name, "%s: must be true or false", name);
    return true;
}

bool gen_field_text(struct gen_fields *f, const char *name, const char **out)
{
    const json_t *value = gen_field(f, name);
    if (!value) return false;
    if (json_is_string(value))
        *out = json_string_value(value);
    else
        gen_refuse_field(f->refusal, name, "%s: must be a string", name);
    return true;
}

bool gen_field_number(struct gen_fields *f, const char *name, double min, double max, double *out)
{
    const json_t *value = gen_field(f, name);
    if (!value) return false;
    double number = json_number_value(value);
    if (json_is_number(value) && number >= min && number <= max)
        *out = number;
    else
        gen_refuse_field(f->refusal, name, "%s: must be a number from %g to %g", name, min, max);
    return true;
}

bool gen_field_float(struct gen_fields *f, const char *name, double min, double max, float *out)
{
    double number = 0;
    if (!gen_field_number(f, name, min, max, &number)) return false;
    if (!gen_field_wrong(f)) *out = (float)number;
    return true;
}

/* 16.0 is an integer, too: JavaScript knows no other. */
static bool field_whole(const json_t *value, int64_t *out)
{
    double number = json_number_value(value);
    if (json_is_integer(value)) *out = json_integer_value(value);
    if (json_is_integer(value)) return true;
    if (!json_is_real(value) || number < -9e15 || number > 9e15 || number != (double)(int64_t)number)
        return false;
    *out = (int64_t)number;
    return true;
}

bool gen_field_integer(struct gen_fields *f, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = gen_field(f, name);
    int64_t number = 0;
    if (!value) return false;
    if (field_whole(value, &number) && number >= min && number <= max)
        *out = number;
    else
        gen_refuse_field(f->refusal, name, "%s: must be an integer from %" PRId64 " to %" PRId64, name, min,
                         max);
    return true;
}

bool gen_field_u32(struct gen_fields *f, const char *name, uint32_t min, uint32_t max, uint32_t *out)
{
    int64_t number = 0;
    if (!gen_field_integer(f, name, min, max, &number)) return false;
    if (!gen_field_wrong(f)) *out = (uint32_t)number;
    return true;
}
