/* SPDX-License-Identifier: Apache-2.0 */
/* What a filter, test, method or function is called with. */
#ifndef GW_GENERATE_TEXT_JINJA_ARGS_H
#define GW_GENERATE_TEXT_JINJA_ARGS_H

#include "src/generate/text/jinja_value.h"

struct gen_jargs {
    struct gen_jlist values;       /* by place */
    struct gen_jlist names, named; /* by name */
};

/* The argument at a place, or with the name; NULL: neither. `name` may be NULL. */
const struct gen_jvalue *gen_j_arg(const struct gen_jargs *args, size_t place, const char *name);
/* The same, of a kind: a text, a number. False after gen_j_fail. Where it is absent (or none), *out stays. */
bool gen_j_arg_text(struct gen_jinja *j, const struct gen_jargs *args, size_t place, const char *name,
                    struct gen_jtext *out);
bool gen_j_arg_int(struct gen_jinja *j, const struct gen_jargs *args, size_t place, const char *name,
                   int64_t *out);
/* Whether the argument is there and true. */
bool gen_j_arg_flag(const struct gen_jargs *args, size_t place, const char *name, bool otherwise);
/* The same arguments without the first `count` by place. */
struct gen_jargs gen_j_arg_rest(const struct gen_jargs *args, size_t count);

#endif
