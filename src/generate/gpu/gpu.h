/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row program as a network on a GPU: kernels of our own, and cuBLASLt for products of many rows where it is
 * there. Weights are uploaded once. The same kernels run on a CPU executor with GEN_GPU_LANES lanes or more;
 * tests use that.
 */
#ifndef GW_GENERATE_GPU_GPU_H
#define GW_GENERATE_GPU_GPU_H

#include <stdbool.h>

#include "src/generate/net/net.h"
#include "src/generate/program/program.h"

#define GEN_GPU_LANES 128u /* that a block of the executor needs */

struct gen_gpu_options {
    struct gw_exec *exec;
    uint32_t max_rows, lanes; /* of a step, as struct gen_step has them */
    /*
     * Types of values and of the cache: GW_DTYPE_F32, GW_DTYPE_F16 or GW_DTYPE_BF16; 0: bf16, and the
     * values' type. Sums are floats in any case. With values of 16 bits, weights that are floats are
     * uploaded in the values' type, too. With values of 32 bits they stay as they are.
     */
    uint32_t type, cache_type;
    bool own; /* own kernels alone: no cuBLASLt */
    /*
     * A row's result is the same, bit for bit, whatever else is in the step: so a seed gives the same text
     * whatever else runs. Without it, steps of other sizes add up in another order, and rounding differs.
     * It costs speed where there are many rows: no cuBLASLt, and each row reads its pages alone.
     */
    bool same;
    /* Numbers of rows for which there will be graphs, ascending; `sizes` 0: 1, 2, 4, … 64, 256, 1024. Those
     * over max_rows are left out, and max_rows is added. */
    const uint32_t *size;
    uint32_t sizes;
};

/*
 * Makes a network of a program that has passed gen_program_check. The program must outlive this call alone:
 * all weights are copied. One thread. Errors: -EINVAL (options; a program whose heads are too large for the
 * kernels), -ENOMEM, -EIO (CUDA).
 */
int gen_gpu_net(const struct gen_program *p, const struct gen_gpu_options *o, struct gen_net *out);

/*
 * Runs the step that is in the bound memory, with the kernels for `size` rows: into a stream of the GPU, or
 * (NULL) on the executor; on CPU threads it waits for the end. For tests and measurements: loops get stages.
 * One thread. 0; -EINVAL (not bound; no such size), -EIO.
 */
int gen_gpu_enqueue(struct gen_net *net, uint32_t size, void *stream);

#endif
