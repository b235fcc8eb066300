/* SPDX-License-Identifier: Apache-2.0 */
/* The choices of earlier plans, in a file per GPU and versions. */
#ifndef GW_MODEL_GPU_CACHE_H
#define GW_MODEL_GPU_CACHE_H

#include <stddef.h>

struct gwm_cache *gwm_cache_open(const char *machine);
/* The choice under that name ("way setting"), or NULL; and to keep it. */
const char *gwm_cache_get(const struct gwm_cache *c, const char *what);
void gwm_cache_put(struct gwm_cache *c, const char *what, const char *choice);
/* Writes the file if anything is new. NULL is allowed. */
void gwm_cache_close(struct gwm_cache *c);

#endif
