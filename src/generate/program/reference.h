/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program means: a slow evaluation, in double precision, without a cache or any tricks. Tests compare
 * networks with it.
 */
#ifndef GW_GENERATE_PROGRAM_REFERENCE_H
#define GW_GENERATE_PROGRAM_REFERENCE_H

#include "src/generate/program/program.h"

/*
 * Evaluates a checked program for one sequence: the logits after each of its n tokens, [n][vocab]. PICK keeps
 * all rows. Keys and values are rounded to cache_dtype, as in a cache of that type; GW_DTYPE_F32 is one that
 * does not round to less than float. Tokens must be below the vocabulary, n at most max_position. Any thread.
 * 0, -ENOMEM.
 */
int gen_reference(const struct gen_program *p, const uint32_t *token, uint32_t n, uint32_t cache_dtype,
                  float *logits);

#endif
