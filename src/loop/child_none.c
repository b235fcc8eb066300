/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for child_gpu.cu when the program is built without nvcc. */
#include <errno.h>

#include "src/loop/child.h"

static int absent(void)
{
    return gw_error(-ENODEV, "this build has no GPU executor, which runs captured graphs");
}

int gw_child_clone(void *graph, void **copy)
{
    (void)graph, (void)copy;
    return absent();
}

void gw_child_drop(void *graph)
{
    (void)graph;
}

int gw_child_put(void *stream, void *graph)
{
    (void)stream, (void)graph;
    return absent();
}

int gw_child_launch(void *stream, void *graph)
{
    (void)stream, (void)graph;
    return absent();
}
