/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, items and parts of values. */
#ifndef GW_GENERATE_TEXT_JINJA_MEMBER_H
#define GW_GENERATE_TEXT_JINJA_MEMBER_H

#include "src/generate/text/jinja_value.h"

/* A `for` as its body sees it. */
struct gen_jloop {
    struct gen_jlist items;
    size_t index;               /* from 0 */
    struct gen_jvalue *changed; /* what loop.changed saw last, or NULL */
};

/* of.name: what is not there is undefined; of an undefined value it fails. */
bool gen_j_attribute(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jtext *name,
                     struct gen_jvalue *out);
/* of[index] */
bool gen_j_item(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *index,
                struct gen_jvalue *out);
/* of[from:to:step]; each is none where it is not given. */
bool gen_j_slice(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue bounds[3],
                 struct gen_jvalue *out);
/* A path such as "function.name", as filters name attributes. */
bool gen_j_path(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *path,
                struct gen_jvalue *out);
#endif
