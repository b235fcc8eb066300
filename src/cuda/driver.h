/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few calls of the CUDA driver that the NIC's DMA needs, as a table. The inference server needs them for
 * memory that clients share with it.
 *
 * The driver's library is never linked and never loaded by us: a process that has memory on a GPU has loaded
 * it. Tests fill the table with functions of their own. The types and numbers are those of the driver's
 * stable ABI (cuda.h), set down here so that this builds where there is no CUDA.
 */
#ifndef GW_CUDA_DRIVER_H
#define GW_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int gw_cu_result;
typedef int gw_cu_device;
typedef unsigned long long gw_cu_ptr;
typedef struct {
    char bytes[64];
} gw_cu_ipc;
typedef struct CUctx_st *gw_cu_ctx;
typedef struct CUstream_st *gw_cu_stream;
typedef struct CUevent_st *gw_cu_event;
typedef struct CUmod_st *gw_cu_module;
typedef struct CUfunc_st *gw_cu_function;
typedef unsigned long long gw_cu_memory; /* an allocation of cuMemCreate */

struct gw_cu_location {
    int type, id;
};
struct gw_cu_memory_prop {
    int type, handle_types;
    struct gw_cu_location location;
    void *unused;
    uint8_t flags[8];
};
struct gw_cu_access {
    struct gw_cu_location location;
    int flags;
};

enum {
    GW_CU_SUCCESS = 0,
    GW_CU_OUT_OF_MEMORY = 2,
    GW_CU_NOT_READY = 600,
    GW_CU_PEER_ACCESS_ALREADY_ENABLED = 704,

    GW_CU_ATTR_CONTEXT = 1,
    GW_CU_ATTR_MEMORY_TYPE = 2,
    GW_CU_ATTR_IS_MANAGED = 8,
    GW_CU_ATTR_DEVICE_ORDINAL = 9,
    GW_CU_ATTR_IPC_CAPABLE = 10,
    GW_CU_ATTR_RANGE_START = 11,
    GW_CU_ATTR_RANGE_SIZE = 12,
    GW_CU_ATTR_MAPPING_SIZE = 18,
    GW_CU_ATTR_MAPPING_BASE = 19,

    GW_CU_MAJOR = 75, /* of a device */
    GW_CU_HOST_ATOMICS = 86,
    GW_CU_HOST_PAGE_TABLES = 100,
    GW_CU_WRITES_ORDERING = 118,
    GW_CU_ORDERING_OWNER = 100,
    GW_CU_ORDERED_FROM = 9, /* a major number */

    GW_CU_MEMORY_HOST = 1,
    GW_CU_MEMORY_DEVICE = 2,

    GW_CU_STREAM_NON_BLOCKING = 1,
    GW_CU_EVENT_DISABLE_TIMING = 2,
    GW_CU_HOST_ALLOC_PORTABLE = 1,
    GW_CU_IPC_LAZY_PEER_ACCESS = 1,
    GW_CU_LOCATION_DEVICE = 1,
    GW_CU_PINNED = 1,      /* CU_MEM_ALLOCATION_TYPE_PINNED */
    GW_CU_HANDLE_FILE = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    GW_CU_ACCESS_READ_WRITE = 3,
};

struct gw_cuda_driver {
    gw_cu_result (*pointer_get_attributes)(unsigned n, int *attributes, void **data, gw_cu_ptr ptr);
    gw_cu_result (*primary_ctx_retain)(gw_cu_ctx *ctx, gw_cu_device dev);
    gw_cu_result (*ctx_push)(gw_cu_ctx ctx);
    gw_cu_result (*ctx_pop)(gw_cu_ctx *ctx);
    gw_cu_result (*ctx_get_id)(gw_cu_ctx ctx, unsigned long long *id); /* NULL before CUDA 12 */
    gw_cu_result (*host_alloc)(void **p, size_t size, unsigned flags);
    gw_cu_result (*host_free)(void *p);
    gw_cu_result (*stream_create)(gw_cu_stream *stream, unsigned flags);
    gw_cu_result (*stream_destroy)(gw_cu_stream stream);
    gw_cu_result (*event_create)(gw_cu_event *event, unsigned flags);
    gw_cu_result (*event_destroy)(gw_cu_event event);
    gw_cu_result (*event_record)(gw_cu_event event, gw_cu_stream stream);
    gw_cu_result (*event_query)(gw_cu_event event);
    gw_cu_result (*copy_to_device)(gw_cu_ptr dst, const void *src, size_t len, gw_cu_stream stream);
    gw_cu_result (*copy_to_host)(void *dst, gw_cu_ptr src, size_t len, gw_cu_stream stream);
    gw_cu_result (*copy)(gw_cu_ptr dst, gw_cu_ptr src, size_t len, gw_cu_stream stream); /* or NULL */
    gw_cu_result (*error_name)(gw_cu_result error, const char **name);
    /* For memory of another process; NULL where the driver has no such calls. */
    gw_cu_result (*device_count)(int *n);
    gw_cu_result (*device_get)(gw_cu_device *dev, int ordinal);
    gw_cu_result (*device_attribute)(int *value, int attribute, gw_cu_device dev);
    gw_cu_result (*device_uuid)(void *uuid, gw_cu_device dev); /* 16 bytes */
    gw_cu_result (*primary_ctx_state)(gw_cu_device dev, unsigned *flags, int *active);
    gw_cu_result (*ipc_get)(gw_cu_ipc *handle, gw_cu_ptr ptr);
    gw_cu_result (*ipc_open)(gw_cu_ptr *ptr, gw_cu_ipc handle, unsigned flags);
    gw_cu_result (*ipc_close)(gw_cu_ptr ptr);
    /* The same for memory of cuMemCreate; NULL likewise. */
    gw_cu_result (*mem_retain)(gw_cu_memory *memory, void *mapped_at);
    gw_cu_result (*mem_release)(gw_cu_memory memory);
    gw_cu_result (*mem_properties)(struct gw_cu_memory_prop *prop, gw_cu_memory memory);
    gw_cu_result (*mem_export)(void *handle, gw_cu_memory memory, int type, unsigned long long flags);
    gw_cu_result (*mem_import)(gw_cu_memory *memory, void *handle,
                               int type); /* the handle's value, as a pointer */
    gw_cu_result (*mem_reserve)(gw_cu_ptr *at, size_t size, size_t alignment, gw_cu_ptr wanted,
                                unsigned long long flags);
    gw_cu_result (*mem_unreserve)(gw_cu_ptr at, size_t size);
    gw_cu_result (*mem_map)(gw_cu_ptr at, size_t size, size_t offset, gw_cu_memory memory,
                            unsigned long long flags);
    gw_cu_result (*mem_unmap)(gw_cu_ptr at, size_t size);
    gw_cu_result (*mem_access)(gw_cu_ptr at, size_t size, const struct gw_cu_access *access, size_t n);
    /* For memory that is mapped where it is needed; NULL likewise. */
    gw_cu_result (*mem_create)(gw_cu_memory *memory, size_t size, const struct gw_cu_memory_prop *prop,
                               unsigned long long flags);
    gw_cu_result (*stream_wait)(gw_cu_stream stream);
    /* For copies between GPUs; NULL likewise. */
    gw_cu_result (*can_access_peer)(int *can, gw_cu_device dev, gw_cu_device peer);
    gw_cu_result (*enable_peer)(gw_cu_ctx peer, unsigned flags); /* for the current context */
    gw_cu_result (*copy_peer)(gw_cu_ptr dst, gw_cu_ctx dst_ctx, gw_cu_ptr src, gw_cu_ctx src_ctx, size_t len,
                              gw_cu_stream stream);
    /* For a kernel of our own; NULL likewise. */
    gw_cu_result (*module_load)(gw_cu_module *module, const void *image);
    gw_cu_result (*module_function)(gw_cu_function *function, gw_cu_module module, const char *name);
    gw_cu_result (*function_load)(gw_cu_function function); /* NULL before CUDA 12.4 */
    gw_cu_result (*launch)(gw_cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                           unsigned by, unsigned bz, unsigned shared, gw_cu_stream stream, void **args,
                           void **extra);
};

/*
 * The driver this process has loaded, NULL if it has loaded none (then it has no memory on a GPU) or one too
 * old to have these calls. Any thread; the answer may change from NULL to a table once.
 */
const struct gw_cuda_driver *gw_cuda_driver_loaded(void);

/* In a forked child, while it has one thread: the lock may be held by one that is not here. */
void gw_cuda_driver_forked(void);

#endif
