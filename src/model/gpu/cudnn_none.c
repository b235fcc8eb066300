/* SPDX-License-Identifier: Apache-2.0 */
/* Built without cuDNN's header: its convolutions are not tried. */
#include <errno.h>

#include "src/model/gpu/cudnn.h"

struct gwm_cudnn *gwm_cudnn_open(void)
{
    return NULL;
}

void gwm_cudnn_close(struct gwm_cudnn *d)
{
    (void)d;
}

size_t gwm_cudnn_version(const struct gwm_cudnn *d)
{
    (void)d;
    return 0;
}

int gwm_lib_cudnn(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    (void)p;
    (void)n;
    (void)to;
    (void)setting;
    return -ENOTSUP;
}
