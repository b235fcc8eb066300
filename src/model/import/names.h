/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a file's values. */
#ifndef GW_MODEL_IMPORT_NAMES_H
#define GW_MODEL_IMPORT_NAMES_H

#include "src/model/import/ops.h"

#define GWM_NOT_COMPUTED (-1) /* the result of an operator that we do not compute */
#define GWM_UNKNOWN      (-2) /* what a node that failed would have made */

struct gwm_name {
    const char *name;
    int value;
};

/* Room for that many; NULL: no memory. */
struct gwm_names *gwm_names_new(size_t count);
/* A name, or a place without one: nothing has that name yet. */
const struct gwm_name *gwm_names_find(const struct gwm_names *t, const char *name);
/* Gives a value its name in the file; 0 or an error. */
int gwm_define(struct gwm_import *im, const char *name, int value);

#endif
