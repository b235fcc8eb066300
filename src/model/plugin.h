/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects that hold a back-end. */
#ifndef GW_MODEL_PLUGIN_H
#define GW_MODEL_PLUGIN_H

#include <gpuwire/model.h>

#include "src/model/graph/msg.h"

struct gwm_plugin {
    const struct gw_model_backend *table;
    void *object;  /* what its load has made */
    void *library; /* the loader's handle; NULL: the table is part of this program */
};

/* As gw_model_open_plugin: checks who may have written the file, loads it, and has it make its model. */
int gwm_plugin_load(const char *path, struct gwm_plugin *out, const struct gwm_msg *msg);
/* Unloads the object, and then the code. */
void gwm_plugin_unload(const struct gwm_plugin *p);

#endif
