/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in other files. */
#ifndef GW_MODEL_IMPORT_EXTERNAL_H
#define GW_MODEL_IMPORT_EXTERNAL_H

#include "src/model/import/source.h"

/* Reads the external tensors of the folder `dir` into the messages. */
int gwm_external(struct gwm_source *s, int dir, const struct gwm_msg *msg);

#endif
