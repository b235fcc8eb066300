/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroes memory that goes from one client to the next. */
#ifndef GW_EXEC_CLEAR_H
#define GW_EXEC_CLEAR_H

#include <string.h>

#include <gpuwire/exec.h>

#define GW_CLEAR_PAGE 4096u
#define GW_CLEAR_COPY (64u << 10) /* bytes of a GPU's memory cleared at once */

static uint8_t gw_clear_zeros[GW_CLEAR_COPY]; /* never written */

/* Memory that was never written is only read, so that it stays as small as it is. */
static inline void gw_clear_host(uint8_t *at, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += GW_CLEAR_PAGE) {
        size_t n = bytes - done < GW_CLEAR_PAGE ? bytes - done : GW_CLEAR_PAGE;
        if (memcmp(at + done, gw_clear_zeros, n)) memset(at + done, 0, n);
    }
}

/* Zeroes `bytes` of it from there on, also while a loop runs that does not use them. 0 or as gw_copy_in. Any
 * thread. */
static inline int gw_clear(const struct gw_mem *m, uint64_t from, uint64_t bytes)
{
    if (m->host) {
        gw_clear_host((uint8_t *)m->host + from, bytes);
        return 0;
    }
    int err = 0;
    for (uint64_t done = 0; !err && done < bytes; done += GW_CLEAR_COPY) {
        size_t n = bytes - done < GW_CLEAR_COPY ? bytes - done : GW_CLEAR_COPY;
        err = gw_copy_in(m->exec, (uint8_t *)m->dev + from + done, gw_clear_zeros, n);
    }
    return err;
}

#endif
