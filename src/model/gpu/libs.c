/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's libraries are opened together: a plan may do with one of them, or with none. */
#include <stdio.h>
#include <stdlib.h>

#include "src/model/gpu/libs.h"

#include "src/model/gpu/cudnn.h"
#include "src/model/gpu/lt.h"

struct gwm_lib *gwm_lib_open(void)
{
    struct gwm_lib *l = (struct gwm_lib *)calloc(1, sizeof(*l));

    if (!l) return NULL;
    l->cudnn = gwm_cudnn_open();
    l->lt = gwm_lt_open();
    if (l->cudnn || l->lt) return l;
    free(l);
    return NULL;
}

void gwm_lib_close(struct gwm_lib *l)
{
    if (!l) return;
    if (l->cudnn) gwm_cudnn_close(l->cudnn);
    if (l->lt) gwm_lt_close(l->lt);
    free(l);
}

void gwm_lib_versions(const struct gwm_lib *l, char *text, size_t size)
{
    snprintf(text, size, "; cudnn %zu cublasLt %zu", l && l->cudnn ? gwm_cudnn_version(l->cudnn) : 0,
             l && l->lt ? gwm_lt_version(l->lt) : 0);
}
