/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's libraries, found when a plan is made: a machine may lack them, or the build their headers. */
#ifndef GW_MODEL_GPU_LIB_H
#define GW_MODEL_GPU_LIB_H

#include "src/model/gpu/gpu.h"

struct gwm_cudnn;
struct gwm_lt;

#define GWM_LIB_BUFS     6                  /* that a call takes */
#define GWM_LIB_SETTINGS 8                  /* of a way */
#define GWM_LIB_WORK     ((size_t)64 << 20) /* bytes of scratch memory that a call may ask for */

struct gwm_lib {
    struct gwm_cudnn *cudnn; /* either may be NULL */
    struct gwm_lt *lt;
};

struct gwm_symbol {
    const char *name;
    size_t at; /* of a function pointer in a struct */
};

/* Opens the library of that name and fills the pointers in `to`; a list of symbols ends with a NULL name.
 * NULL when it or a symbol is missing. */
void *gwm_lib_load(const char *name, const struct gwm_symbol *symbols, void *to);

/* Adds a call, which is handed over, with its buffers in the order of its addresses; GWM_NO_BUF is left out,
 * other negative ones are errors. */
int gwm_lib_call(struct gwm_gpu *p, struct gwm_call *call, const int buf[GWM_LIB_BUFS]);
#define GWM_NO_BUF (-4096)

#endif
