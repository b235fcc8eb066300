/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MLPs. */
#ifndef GW_GENERATE_IMPORT_ACT_H
#define GW_GENERATE_IMPORT_ACT_H

#include "src/generate/import/json.h"
#include "src/generate/program/program.h"

/* The function that a field names: 0, -EBADMSG or -ENOTSUP. A missing field leaves *act. */
int gen_act_read(const struct gen_json *config, const char *key, enum gen_act *act);

#endif
