/* SPDX-License-Identifier: Apache-2.0 */
/* fake_kernel.h: the copy kernel of the driver made of host memory: a thread. */
#ifndef TESTS_WIRE_FAKE_KERNEL_H
#define TESTS_WIRE_FAKE_KERNEL_H

#include "softnic/mem/cuda_kernel.h"
#include "tests/wire/fake_cuda.h"

struct fake_launch {
    struct sn_kernel_ring *ring;
    uint64_t next, number, idle_ns, life_ns;
    enum fake_kernel how;
    int on; /* atomic: it runs, or waits to */
};

int fake_kernel_launch(struct fake_launch *k, void **args); /* 0, or the driver's error */
int fake_kernel_on(const struct fake_launch *k);
void fake_kernel_end_all(void); /* and waits for it */

void fake_cuda_note(const void *dst); /* in fake_log */

#endif
