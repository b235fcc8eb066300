/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_mapped.h: of the driver made of host memory what cuMemCreate and cuMemMap make. It is strict: what the
 * real driver may refuse it refuses, and it counts what has not been given back.
 */
#ifndef TESTS_WIRE_FAKE_MAPPED_H
#define TESTS_WIRE_FAKE_MAPPED_H

#include "src/cuda/driver.h"

enum { FAKE_GRAIN = 65536 }; /* what sizes and places are multiples of */

int fake_mem_create(gw_cu_memory *memory, size_t size, const struct gw_cu_memory_prop *prop,
                    unsigned long long flags);
int fake_mem_retain(gw_cu_memory *memory, void *mapped_at);
int fake_mem_release(gw_cu_memory memory);
int fake_mem_properties(struct gw_cu_memory_prop *prop, gw_cu_memory memory);
int fake_mem_export(void *handle, gw_cu_memory memory, int type, unsigned long long flags);
int fake_mem_import(gw_cu_memory *memory, void *handle, int type);
int fake_mem_reserve(gw_cu_ptr *at, size_t size, size_t alignment, gw_cu_ptr wanted,
                     unsigned long long flags);
int fake_mem_unreserve(gw_cu_ptr at, size_t size);
int fake_mem_map(gw_cu_ptr at, size_t size, size_t offset, gw_cu_memory memory, unsigned long long flags);
int fake_mem_unmap(gw_cu_ptr at, size_t size);
int fake_mem_access(gw_cu_ptr at, size_t size, const struct gw_cu_access *access, size_t n);

/* Memory, reservations and mappings that there are. */
unsigned fake_mem_left(void);

#endif
