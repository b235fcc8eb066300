/* SPDX-License-Identifier: Apache-2.0 */
/* fake_kernel.h: the copy kernel of the driver made of host memory: a thread. */
#ifndef TESTS_WIRE_FAKE_KERNEL_H
#define TESTS_WIRE_FAKE_KERNEL_H

#include "softnic/cuda/kernel.h"
#include "tests/wire/fake_cuda.h"

/* gpu: on which; on: atomic, how many run in the stream, or wait to. 0, or the driver's error. */
int fake_kernel_launch(int gpu, int *on, void **args);
void fake_kernel_end_all(void); /* and waits for it */

void fake_cuda_note(const void *dst); /* in fake_log */
/* May a kernel of the GPU's touch it? Host memory always. Otherwise it is a fault. */
int fake_cuda_lets(int gpu, const void *at);

#endif
