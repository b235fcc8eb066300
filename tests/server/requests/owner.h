/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h: a process that owns memory on a GPU, and tells its handle; and calls of CUDA's driver by their
 * name. */
#ifndef TESTS_INFER_OWNER_H
#define TESTS_INFER_OWNER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/server/requests/cuda.h"

static uint8_t handle[GW_CUDA_HANDLE];
static int to_owner, from_owner;
static pid_t owner;

static int driver(const char *name, void *out)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *f = lib ? dlsym(lib, name) : NULL;
    memcpy(out, &f, sizeof(f));
    return f ? 0 : -1;
}

/* Makes the first GPU's primary context current. 0: there is one. */
static int use_gpu(void)
{
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*push)(void *), device = 0;
    void *ctx = NULL;
    return driver("cuInit", &init) || driver("cuDeviceGet", &get) ||
           driver("cuDevicePrimaryCtxRetain", &retain) || driver("cuCtxPushCurrent_v2", &push) || init(0) ||
           get(&device, 0) || retain(&ctx, device) || push(ctx);
}

/* 1, with a line: there is no GPU and no driver. A child looks: this process must not load the driver yet. */
static int no_gpu(void)
{
    int status = 0;
    pid_t child = fork();
    if (!child) _exit(use_gpu());
    waitpid(child, &status, 0);
    if (status) printf("skipped: there is no GPU and no CUDA driver\n");
    return status != 0;
}

/* Starts it: `own` writes the handle to `out`, does what it reads from `in`, and returns the exit code.
 * Before this process has loaded the driver. 0: the handle is there. */
static int start_owner(int (*own)(int in, int out))
{
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return -1;
    owner = fork();
    if (!owner) {
        close(in[1]);
        close(out[0]);
        _exit(own(in[0], out[1]));
    }
    close(in[0]);
    close(out[1]);
    to_owner = in[1];
    from_owner = out[0];
    return read(from_owner, handle, sizeof(handle)) == sizeof(handle) ? 0 : -1;
}

/* Its exit code. */
static int end_owner(void)
{
    int status = 0;
    close(to_owner);
    waitpid(owner, &status, 0);
    return status;
}

#endif
