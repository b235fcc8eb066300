/* SPDX-License-Identifier: Apache-2.0 */
/* Files of models. */
#ifndef GW_MODEL_IMPORT_FILE_H
#define GW_MODEL_IMPORT_FILE_H

#include <sys/types.h>

#include "src/model/graph/msg.h"

#define GWM_MAX_FILE ((size_t)1 << 30)

/* A whole file in memory (free it), its size or an error. */
ssize_t gwm_read_file(const char *path, const struct gwm_msg *msg, void **bytes);
/* The folder that a file lies in: a descriptor, or -1. */
int gwm_open_folder(const char *path);

#endif
