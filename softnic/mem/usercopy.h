/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the caller's memory the way the kernel does: a bad pointer is -EFAULT, never a crash.
 */
#ifndef SOFTNIC_MEM_USERCOPY_H
#define SOFTNIC_MEM_USERCOPY_H

#include <stddef.h>
#include <stdint.h>

/* Any thread. Both return 0, or -EFAULT when not all of it could be copied (a part may have been). */
int uv_copy_in(void *to, uint64_t from, size_t bytes);
int uv_copy_out(uint64_t to, const void *from, size_t bytes);

/*
 * uv_range_ok - whether [va, va+bytes) is mapped in this process throughout, and if `write` is set, writable.
 * For memory that the NIC will touch later on its own. 0 or -EFAULT; zero bytes are always all right.
 */
int uv_range_ok(uint64_t va, uint64_t bytes, int write);

#endif
