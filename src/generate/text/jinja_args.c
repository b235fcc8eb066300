/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the arguments of calls. */
#include "src/generate/text/jinja_args.h"

#include <errno.h>

const struct gen_jvalue *gen_j_arg(const struct gen_jargs *args, size_t place, const char *name)
{
    if (place < args->values.count) return &args->values.at[place];
    for (size_t i = 0; name && i < args->names.count; i++) {
        if (gen_j_is(&args->names.at[i].text, name)) return &args->named.at[i];
    }
    return NULL;
}

bool gen_j_arg_text(struct gen_jinja *j, const struct gen_jargs *args, size_t place, const char *name,
                    struct gen_jtext *out)
{
    const struct gen_jvalue *v = gen_j_arg(args, place, name);
    if (!v || v->kind == GEN_J_NONE) return true;
    if (v->kind != GEN_J_TEXT)
        return gen_j_fail(j, -EINVAL, "argument %zu must be a string, not %s", place + 1, gen_j_type(v));
    *out = v->text;
    return true;
}

bool gen_j_arg_int(struct gen_jinja *j, const struct gen_jargs *args, size_t place, const char *name,
                   int64_t *out)
{
    const struct gen_jvalue *v = gen_j_arg(args, place, name);
    if (!v || v->kind == GEN_J_NONE) return true;
    if (v->kind != GEN_J_INT && v->kind != GEN_J_BOOL)
        return gen_j_fail(j, -EINVAL, "argument %zu must be an integer, not %s", place + 1, gen_j_type(v));
    *out = v->number;
    return true;
}

bool gen_j_arg_flag(const struct gen_jargs *args, size_t place, const char *name, bool otherwise)
{
    const struct gen_jvalue *v = gen_j_arg(args, place, name);
    return v ? gen_j_truth(v) : otherwise;
}

struct gen_jargs gen_j_arg_rest(const struct gen_jargs *args, size_t count)
{
    struct gen_jargs rest = *args;
    if (count > rest.values.count) count = rest.values.count;
    rest.values.at = count ? rest.values.at + count : rest.values.at;
    rest.values.count -= count;
    return rest;
}
