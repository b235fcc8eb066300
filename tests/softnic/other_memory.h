/* SPDX-License-Identifier: Apache-2.0 */
/* other_memory.h: an end's memory once more, as a GPU's would be: at addresses from 0, which are no memory of
 * this process, and reached by functions alone. */
#ifndef TESTS_SOFTNIC_OTHER_MEMORY_H
#define TESTS_SOFTNIC_OTHER_MEMORY_H

#include "tests/softnic/rig.h"

static inline int other_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                             uint64_t request)
{
    (void)ahead;
    (void)request;
    memcpy(dst, (char *)ctx + addr, len);
    return 0;
}

static inline int other_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    memcpy((char *)ctx + addr, src, len);
    return 0;
}

static inline struct sn_mr *other_region(struct end *e, const struct sn_dma_ops *ops)
{
    struct sn_mr_init init = {
        .length = RIG_MEM, .access = (uint32_t)rig_access, .dma = ops, .dma_ctx = e->mem};
    struct sn_mr *mr;

    assert_int_equal(sn_mr_create(e->pd, &init, &mr), 0);
    return mr;
}

#endif
