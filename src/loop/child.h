/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that another program has captured, PyTorch say, as parts of a loop's. A graph is a cudaGraph_t, a
 * stream a cudaStream_t. Functions return 0 or a negative errno, with the reason in gw_last_error(); -ENODEV:
 * built without CUDA. */
#ifndef GW_LOOP_CHILD_H
#define GW_LOOP_CHILD_H

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

int gw_child_clone(void *graph, void **copy);
void gw_child_drop(void *graph);
/* Puts it after all that the stream, which is being captured, has so far. */
int gw_child_put(void *stream, void *graph);
/* Runs it once, and waits for its end. */
int gw_child_launch(void *stream, void *graph);

#ifdef __cplusplus
}
#endif
#endif
