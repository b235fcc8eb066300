/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver made of host memory, for tests. "GPU memory" is an array. Copies happen late, in stream
 * order: when their event is looked at for the second time. They read the staging memory only then, so a test
 * sees whether it was touched before. One thread per context at a time. The copy kernel is a thread that does
 * what it says in softnic/cuda/kernel.h, as soon as it is told. There are two GPUs, and the array is the
 * first one's.
 */
#ifndef TESTS_WIRE_FAKE_CUDA_H
#define TESTS_WIRE_FAKE_CUDA_H

#include "src/cuda/driver.h"

enum { FAKE_GPU_SIZE = 3 << 20, FAKE_GPUS = 2 };

extern uint8_t *fake_gpu;     /* FAKE_GPU_SIZE bytes of "GPU memory" */
extern int fake_peers;        /* the GPUs can reach each other */
extern int fake_faults;       /* atomic: kernels, and copies, that touched memory which is not let to them */
extern int fake_direct;       /* atomic: copies that are neither to nor from the host by name */
extern unsigned fake_managed; /* what the driver answers for IS_MANAGED */
extern int fake_fail_copies;  /* the next n copies are refused with an error */
extern int fake_dead;         /* every query answers with an unspecified launch failure */
extern _Thread_local unsigned fake_ctx_depth; /* contexts pushed and not popped */
extern unsigned fake_outside;                 /* calls made without a context */
extern unsigned fake_allocations;             /* of pinned memory */

enum fake_kernel {
    FAKE_KERNEL_REFUSED,   /* the driver loads no kernels */
    FAKE_KERNEL_NO_LAUNCH, /* it does, and launches none */
    FAKE_KERNEL_RUNS,
    FAKE_KERNEL_WAITS, /* and never begins: the GPU is full */
    FAKE_KERNEL_SLOW,  /* takes longer for a command than anybody would wait */
    FAKE_KERNEL_SHORT, /* ends after a few commands, without the next one */
};
extern enum fake_kernel fake_kernel;

/* Where the last copies to the GPU's memory, or within it, went to, in the order in which they were made. */
enum { FAKE_LOG = 64 };
extern uint64_t fake_log[FAKE_LOG];
extern unsigned fake_logged;

void fake_cuda_reset(void);
/* More of it, besides the array, of one GPU; opened: another process's. Its context is the current one, that
 * of the GPU if there is none. Not 0: there is too much. */
int fake_cuda_add_memory(void *at, size_t size, int gpu, int opened);
void fake_cuda_remove_memory(void *at);
const struct gw_cuda_driver *fake_cuda_api(void);
void fake_cuda_set_current(gw_cu_ctx ctx);
int fake_cuda_current(void);     /* the GPU whose context is current; 0 if none is */
int fake_cuda_retained(int gpu); /* is its primary context in use? */

#endif
