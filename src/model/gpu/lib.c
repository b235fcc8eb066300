/* SPDX-License-Identifier: Apache-2.0 */
#include "src/model/gpu/lib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *gwm_lib_load(const char *name, const struct gwm_symbol *symbols, void *to)
{
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    for (; lib && symbols->name; symbols++) {
        void *f = dlsym(lib, symbols->name);
        if (!f) return NULL; /* not closed: such libraries do not survive that well */
        memcpy((char *)to + symbols->at, &f, sizeof(f));
    }
    return lib;
}

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

int gwm_lib_call(struct gwm_gpu *p, struct gwm_call *call, const int buf[GWM_LIB_BUFS])
{
    for (int i = 0; i < GWM_LIB_BUFS; i++) {
        if (buf[i] >= 0 || buf[i] == GWM_NO_BUF) continue;
        call->free(call);
        return buf[i];
    }
    int rc = gwm_gpu_call(p, call);
    for (size_t i = 0; i < GWM_LIB_BUFS && !rc; i++)
        if (buf[i] != GWM_NO_BUF) rc = gwm_gpu_fix(p, i, buf[i]);
    return rc;
}
