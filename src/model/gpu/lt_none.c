/* SPDX-License-Identifier: Apache-2.0 */
/* Built without cuBLASLt's header: its products are not tried. */
#include <errno.h>

#include "src/model/gpu/lt.h"

struct gwm_lt *gwm_lt_open(void)
{
    return NULL;
}

void gwm_lt_close(struct gwm_lt *t)
{
    (void)t;
}

size_t gwm_lt_version(const struct gwm_lt *t)
{
    (void)t;
    return 0;
}

int gwm_lib_pointwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    (void)p;
    (void)n;
    (void)to;
    (void)setting;
    return -ENOTSUP;
}

int gwm_lib_gemm(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    return gwm_lib_pointwise(p, n, to, setting);
}

int gwm_lt_product(struct gwm_lt *t, const struct gwm_lt_shape *s, struct gwm_call **call, size_t *work)
{
    (void)t;
    (void)s;
    (void)call;
    (void)work;
    return -ENOTSUP;
}
