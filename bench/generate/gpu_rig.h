/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks of networks on a GPU share: memory, a step, its graph, and the memory's bandwidth. */
#ifndef GW_BENCH_GENERATE_GPU_RIG_H
#define GW_BENCH_GENERATE_GPU_RIG_H

#include "src/generate/gpu/gpu.h"

/* A step for `lanes` lanes, each of which has `tokens` tokens. All functions end the program on an error. */
struct rig {
    struct gw_exec *exec;
    struct gen_net net;
    struct gen_net_shape shape;
    struct gw_mem memory, cache, logits, read;
    uint32_t lanes, tokens, max_rows;
    char *host;            /* of `memory`: what the GPU gets a copy of */
    struct gen_step *step; /* in there */
};

/* The first GPU; exit code 77: there is none. */
struct gw_exec *rig_exec(void);

/* Makes the network of the program, which is checked and freed, and memory for it. */
void rig_open(struct rig *r, struct gen_program *p);
void rig_close(struct rig *r);

/* The median time of one run of the step as a graph of `size` rows, of as many lanes; microseconds. */
double rig_time(struct rig *r, uint32_t size);

/* Reads of the GPU's memory by all its multiprocessors: bytes a second, the best of several. */
double rig_bandwidth(struct rig *r);

/* Numbers for weights: each has its own address, but they share most of the memory. Type bf16. */
struct gen_weight rig_weight(uint32_t n, uint32_t k);

/* An operator whose result is `width` elements wide; the result's value. */
int32_t rig_add(struct gen_program *p, struct gen_op op, uint32_t width);
/* All of a value. */
struct gen_part rig_all(const struct gen_program *p, int32_t value);

/* The number that follows an option, or `usual`. */
uint32_t rig_option(int argc, char **argv, const char *name, uint32_t usual);

#endif
