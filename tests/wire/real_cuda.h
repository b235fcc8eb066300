/* SPDX-License-Identifier: Apache-2.0 */
/* real_cuda.h: for tests that run on a GPU and are built without CUDA: its driver's calls, and what they
 * count. */
#ifndef TESTS_WIRE_REAL_CUDA_H
#define TESTS_WIRE_REAL_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "src/cuda/driver.h"

/* Calls of the driver that the NIC does not need. */
struct real_cuda {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*device_count)(int *);
    int (*can_access_peer)(int *, int, int);
    int (*device_name)(char *, int, int);
    int (*device_attribute)(int *, int, int);
    int (*ctx_retain)(gw_cu_ctx *, int);
    int (*ctx_set)(gw_cu_ctx);
    int (*mem_alloc)(gw_cu_ptr *, size_t);
    int (*mem_alloc_managed)(gw_cu_ptr *, size_t, unsigned);
    int (*mem_free)(gw_cu_ptr);
    int (*memset8)(gw_cu_ptr, unsigned char, size_t);
    int (*copy_in)(gw_cu_ptr, const void *, size_t);
    int (*copy_out)(void *, gw_cu_ptr, size_t);
    int (*module_load)(void **, const void *);
    int (*module_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, gw_cu_stream,
                  void **, void **);
    int (*sync)(void);
};
extern struct real_cuda cu;

/* Loads the driver and makes GPU 0's context current. 0: there is no GPU. */
int real_cuda_find(void);
/* A kernel out of PTX text; NULL and a line if that fails. */
void *real_cuda_kernel(const char *ptx, const char *name);

/* A kernel that fills GPU `gpu`, whose context is current, until page[0] is not 0. No other kernel fits
 * beside it. Each of its blocks adds 1 to page[1] when it begins. page: 8 bytes that are pinned for all. How
 * many blocks; 0: it failed. */
int real_cuda_fill(int gpu, uint32_t *page);

extern int failures;
void check(int ok, const char *what);
uint64_t now_ns(void);
enum { TIMES = 201 };
void print_median(const char *what, double *us, double bytes); /* of TIMES; sorts them */

#endif
