/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the files that use NVIDIA's libraries: how a library is opened, and how its call becomes
 * a launch. */
#include <dlfcn.h>
#include <string.h>

#include "src/model/gpu/lib.h"

#include "src/model/gpu/launch.h"

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

int gwm_lib_call(struct gwm_gpu *p, struct gwm_call *call, const int buf[GWM_LIB_BUFS])
{
    for (int i = 0; i < GWM_LIB_BUFS; i++) {
        if (buf[i] >= 0 || buf[i] == GWM_NO_BUF) continue;
        call->free(call);
        return buf[i];
    }
    int err = gwm_gpu_call(p, call);
    for (size_t i = 0; i < GWM_LIB_BUFS && !err; i++)
        if (buf[i] != GWM_NO_BUF) err = gwm_gpu_fix(p, i, buf[i]);
    return err;
}
