/* SPDX-License-Identifier: Apache-2.0 */
/*
 * baseline.h: the jobs on CPU threads, without the engine: what the kernels are compared with. It writes the
 * same bytes.
 */
#ifndef MAPREDUCE_BASELINE_H
#define MAPREDUCE_BASELINE_H

#include <stdbool.h>
#include <stdio.h>

#include "../formats.h"

/* An input file in memory. */
struct input {
    const char *name;
    const uint8_t *bytes;
    uint64_t size;
};

struct work {
    struct input *input;
    uint32_t inputs, threads;
    uint32_t clusters, rounds; /* k-means */
    struct input vector;       /* matrix-vector product */
    FILE *out;
};

/* Runs f(arg, i) for i from 0 up to n, on all threads at once; each takes the next i. */
void parallel(const struct work *w, uint64_t n, void (*f)(void *arg, uint64_t i), void *arg);

/* The jobs. Each returns 0 or a negative errno, with gw_last_error(). */
int words_count(const struct work *w);
int words_index(const struct work *w);
int records_sort(const struct work *w);
int points_kmeans(const struct work *w);
int matrix_vector(const struct work *w);

/* A thing to sort: by `key`, then by the bytes from `bytes` on, as the order given says. */
struct item {
    uint64_t key; /* its first eight bytes, the first one uppermost */
    const uint8_t *bytes;
    uint64_t extra;
};

/* Sorts on all threads. `less` decides between equal keys. 0 or -ENOMEM. */
int items_sort(const struct work *w, struct item *item, uint64_t n,
               bool (*less)(const struct item *a, const struct item *b));

#endif
