/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of texts, mappings and lists. Those that would change a value do not exist here: chat templates
 * run where values cannot be changed. */
#ifndef GW_GENERATE_TEXT_JINJA_METHOD_H
#define GW_GENERATE_TEXT_JINJA_METHOD_H

#include "src/generate/text/jinja_args.h"

/* Whether values of this kind have such a method. */
bool gen_jmethod_exists(const struct gen_jvalue *of, const struct gen_jtext *name);
bool gen_jmethod_call(struct gen_jinja *j, const struct gen_jmethod *m, const struct gen_jargs *args,
                      struct gen_jvalue *out);

#endif
