/* SPDX-License-Identifier: Apache-2.0 */
/* All of NVIDIA's libraries that plans use, opened together. */
#ifndef GW_MODEL_GPU_LIBS_H
#define GW_MODEL_GPU_LIBS_H

#include <stddef.h>

struct gwm_lib;

struct gwm_lib *gwm_lib_open(void);
void gwm_lib_close(struct gwm_lib *l);
void gwm_lib_versions(const struct gwm_lib *l, char *text, size_t size);

#endif
