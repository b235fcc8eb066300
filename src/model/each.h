/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU plan tells what each of its launches takes. */
#ifndef GW_MODEL_EACH_H
#define GW_MODEL_EACH_H

#include <gpuwire/model.h>

/* A launch: its kernel or library, the file's node ("": none), microseconds (negative: it failed alone). */
typedef void (*gwm_each)(void *arg, const char *kernel, const char *node, float us);

/* Measures each launch alone, eight in a row, and tells of them in order. Their results are spoilt: run the
 * plan anew. -ENOTSUP: it runs on a CPU, or in one launch. */
int gwm_plan_each(struct gw_plan *plan, gwm_each one, void *arg);
/* The same of the importer's own object. */
int gwm_onnx_each(void *plan, gwm_each one, void *arg);

#endif
