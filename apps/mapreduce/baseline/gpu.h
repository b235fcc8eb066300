/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h: what the baselines on one GPU share: reading a file into the GPU, and telling how long the parts
 * took. */
#ifndef MAPREDUCE_GPU_H
#define MAPREDUCE_GPU_H

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            fprintf(stderr, "gpuwire-mapreduce-gpu: %s: %s\n", #call, cudaGetErrorString(e_));               \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Seconds on CLOCK_MONOTONIC. */
double gpu_seconds(void);

/* Reads a file into GPU memory with several threads, each through pinned buffers of its own, so that
 * reading and copying overlap. Returns the GPU's address; *size: bytes. head: its first 64 KiB, or what
 * there is of them. */
uint8_t *gpu_read(const char *path, uint64_t *size, uint8_t *head);

/* Writes n bytes of GPU memory to a file, in the same way. offset: where in the file. */
void gpu_write(const char *path, uint64_t offset, const uint8_t *from, uint64_t n);

void gpu_sort(const char *in, const char *out);
void gpu_kmeans(const char *in, const char *out, uint32_t k, uint32_t rounds);

#endif
