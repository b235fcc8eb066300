/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_side.h: one end of a connection, with memory of a GPU and of the host. A test has two of them, in one
 * process or two. One drives, and tells the other which bytes to put into its memory, and to look for there.
 * With a GPU's driver, or with the fake one that the build links it to (libcuda.so.1 is whichever is there).
 */
#ifndef TESTS_LOCAL_GPU_SIDE_H
#define TESTS_LOCAL_GPU_SIDE_H

#include <gpuwire/verbs.h>

#include "tests/child.h"

enum { SIDE_BYTES = 1 << 20, SIDE_POSTS = 64 };
#define SIDE_LIMIT 60000000000u

typedef unsigned long long cu_ptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *dev, int ordinal);
int cuDeviceGetCount(int *n);
int cuDeviceCanAccessPeer(int *can, int dev, int peer);
int cuDevicePrimaryCtxRetain(void **ctx, int dev);
int cuCtxSetCurrent(void *ctx);
int cuMemAlloc_v2(cu_ptr *p, size_t size);
int cuMemFree_v2(cu_ptr p);
int cuMemcpyHtoD_v2(cu_ptr to, const void *from, size_t n);
int cuMemcpyDtoH_v2(void *to, cu_ptr from, size_t n);
int cuStreamSynchronize(void *stream);

/* Where memory of the GPU comes from: cuMemAlloc; cuMemMap, two allocations that can be shared by files; or
 * that cannot. */
enum side_memory { SIDE_ALLOCATED, SIDE_MAPPED, SIDE_PRIVATE };
/* Of its name, as a word of a command line; -1: there is none. */
int side_memory_named(const char *word);

struct cu_prop { /* CUmemAllocationProp */
    int type, handle_types, location, gpu;
    void *unused;
    uint64_t flags;
};
struct cu_access { /* CUmemAccessDesc */
    int location, gpu, flags;
};
int cuMemGetAllocationGranularity(size_t *size, const struct cu_prop *prop, int option);
int cuMemCreate(unsigned long long *memory, size_t size, const struct cu_prop *prop,
                unsigned long long flags);
int cuMemAddressReserve(cu_ptr *at, size_t size, size_t alignment, cu_ptr wanted, unsigned long long flags);
int cuMemMap(cu_ptr at, size_t size, size_t offset, unsigned long long memory, unsigned long long flags);
int cuMemSetAccess(cu_ptr at, size_t size, const struct cu_access *access, size_t n);
int cuMemRelease(unsigned long long memory);

enum kind { GPU, HOST, KINDS };
enum mode { PUT, PUT_IMM, GET, SEND, FETCH_ADD, CMP_SWAP };

struct card { /* what a side tells the other */
    char ep[GW_ENDPOINT_TEXT];
    uint64_t addr[KINDS];
    uint32_t rkey[KINDS];
};

struct side {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr[KINDS];
    uint8_t *host, *want;
    void *ctx;
    cu_ptr gpu;
    enum side_memory memory; /* before it is opened */
    struct card peer;
    struct side *other; /* the peer, where it is in this process; else */
    int fd;             /* a socket to it */
};

struct order {
    char what; /* f fill, h holds?, r a receive, g what it got, d deregister, watch the memory, e end */
    uint32_t kind, seed, other, at, len;
};

/* Makes all there is of a side, on that GPU, whose context becomes the current one. */
int side_open(struct side *s, const char *device, int gpu, int fd);
int side_meet(struct side *s); /* both sides do; of one process: the first, for both */
int side_fill(struct side *s, enum kind k, uint32_t seed);
int side_image(const struct side *s, enum kind k, uint8_t *to);
/* [at, at + len) holds seed's bytes, and all around it other's. */
int side_holds(struct side *s, enum kind k, uint32_t seed, uint32_t other, uint32_t at, uint32_t len);
int side_tell(struct side *s, struct order o); /* and waits until it is done */
int side_serve(struct side *s);                /* until it is told to end */

/* A request that is signalled, or not, as number 1; the second operand of atomics follows from the first. */
int side_post(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len,
              int signaled);
/* The completion of request `number`, or of one that failed. */
int side_wait(struct side *s, uint64_t number, struct ibv_wc *wc);
int side_request(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len,
                 struct ibv_wc *wc);
enum { SIDE_ADD = 77, SIDE_SWAP = 4711 }; /* of atomics: what is added, and what is swapped in */
/* A request between memory that is filled before and looked at afterwards, every byte of it, on both
 * sides. */
int side_one(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len);
/* The median time of a request, with its completion. */
int side_measure(struct side *s, enum mode mode, uint32_t len, double *us);
enum { SIDE_TIMES = 501 };

/* Of what `gpuwire nic` says of this process: the sum of all counters of that name. */
long long side_counter(const char *name);

#endif
