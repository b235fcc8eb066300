/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for captured_gpu.cu when the program is built without nvcc. */
#include <errno.h>

#include "src/server/worker/captured.h"

static int absent(void)
{
    return gw_error(-ENODEV, "this build has no GPU executor, which runs captured graphs");
}

int gw_captured_clone(void *graph, void **copy)
{
    (void)graph, (void)copy;
    return absent();
}

void gw_captured_drop(void *graph)
{
    (void)graph;
}

int gw_captured_put(void *stream, void *graph)
{
    (void)stream, (void)graph;
    return absent();
}

int gw_captured_launch(void *stream, void *graph)
{
    (void)stream, (void)graph;
    return absent();
}
