/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h: the few calls of the CUDA driver that the NIC's DMA needs, and the inference server for memory that
 * clients share with it, as a table.
 *
 * The driver's library is never linked and never loaded by us: a process that has memory on a GPU has loaded
 * it. Tests fill the table with functions of their own. The types and numbers are those of the driver's
 * stable ABI (cuda.h), set down here so that this builds where there is no CUDA.
 */
#ifndef SOFTNIC_CUDA_API_H
#define SOFTNIC_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int sn_cu_result;
typedef int sn_cu_device;
typedef unsigned long long sn_cu_ptr;
typedef struct {
    char bytes[64];
} sn_cu_ipc;
typedef struct CUctx_st *sn_cu_ctx;
typedef struct CUstream_st *sn_cu_stream;
typedef struct CUevent_st *sn_cu_event;
typedef struct CUmod_st *sn_cu_module;
typedef struct CUfunc_st *sn_cu_function;
typedef unsigned long long sn_cu_memory; /* an allocation of cuMemCreate */

struct sn_cu_location {
    int type, id;
};
struct sn_cu_memory_prop {
    int type, handle_types;
    struct sn_cu_location location;
    void *unused;
    uint8_t flags[8];
};
struct sn_cu_access {
    struct sn_cu_location location;
    int flags;
};

enum {
    SN_CU_SUCCESS = 0,
    SN_CU_OUT_OF_MEMORY = 2,
    SN_CU_NOT_READY = 600,
    SN_CU_PEER_ACCESS_ALREADY_ENABLED = 704,

    SN_CU_ATTR_CONTEXT = 1,
    SN_CU_ATTR_MEMORY_TYPE = 2,
    SN_CU_ATTR_IS_MANAGED = 8,
    SN_CU_ATTR_DEVICE_ORDINAL = 9,
    SN_CU_ATTR_IPC_CAPABLE = 10,
    SN_CU_ATTR_RANGE_START = 11,
    SN_CU_ATTR_RANGE_SIZE = 12,
    SN_CU_ATTR_MAPPING_SIZE = 18,
    SN_CU_ATTR_MAPPING_BASE = 19,

    SN_CU_MAJOR = 75, /* of a device */
    SN_CU_HOST_ATOMICS = 86,
    SN_CU_HOST_PAGE_TABLES = 100,
    SN_CU_WRITES_ORDERING = 118,
    SN_CU_ORDERING_OWNER = 100,
    SN_CU_ORDERED_FROM = 9, /* a major number */

    SN_CU_MEMORY_HOST = 1,
    SN_CU_MEMORY_DEVICE = 2,

    SN_CU_STREAM_NON_BLOCKING = 1,
    SN_CU_EVENT_DISABLE_TIMING = 2,
    SN_CU_HOST_ALLOC_PORTABLE = 1,
    SN_CU_IPC_LAZY_PEER_ACCESS = 1,
    SN_CU_LOCATION_DEVICE = 1,
    SN_CU_HANDLE_FILE = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    SN_CU_ACCESS_READ_WRITE = 3,
};

struct sn_cuda_api {
    sn_cu_result (*pointer_get_attributes)(unsigned n, int *attributes, void **data, sn_cu_ptr ptr);
    sn_cu_result (*primary_ctx_retain)(sn_cu_ctx *ctx, sn_cu_device dev);
    sn_cu_result (*ctx_push)(sn_cu_ctx ctx);
    sn_cu_result (*ctx_pop)(sn_cu_ctx *ctx);
    sn_cu_result (*ctx_get_id)(sn_cu_ctx ctx, unsigned long long *id); /* NULL before CUDA 12 */
    sn_cu_result (*host_alloc)(void **p, size_t size, unsigned flags);
    sn_cu_result (*host_free)(void *p);
    sn_cu_result (*stream_create)(sn_cu_stream *stream, unsigned flags);
    sn_cu_result (*stream_destroy)(sn_cu_stream stream);
    sn_cu_result (*event_create)(sn_cu_event *event, unsigned flags);
    sn_cu_result (*event_destroy)(sn_cu_event event);
    sn_cu_result (*event_record)(sn_cu_event event, sn_cu_stream stream);
    sn_cu_result (*event_query)(sn_cu_event event);
    sn_cu_result (*copy_to_device)(sn_cu_ptr dst, const void *src, size_t len, sn_cu_stream stream);
    sn_cu_result (*copy_to_host)(void *dst, sn_cu_ptr src, size_t len, sn_cu_stream stream);
    sn_cu_result (*copy)(sn_cu_ptr dst, sn_cu_ptr src, size_t len, sn_cu_stream stream); /* or NULL */
    sn_cu_result (*error_name)(sn_cu_result error, const char **name);
    /* For memory of another process; NULL where the driver has no such calls. */
    sn_cu_result (*device_count)(int *n);
    sn_cu_result (*device_get)(sn_cu_device *dev, int ordinal);
    sn_cu_result (*device_attribute)(int *value, int attribute, sn_cu_device dev);
    sn_cu_result (*device_uuid)(void *uuid, sn_cu_device dev); /* 16 bytes */
    sn_cu_result (*primary_ctx_state)(sn_cu_device dev, unsigned *flags, int *active);
    sn_cu_result (*ipc_get)(sn_cu_ipc *handle, sn_cu_ptr ptr);
    sn_cu_result (*ipc_open)(sn_cu_ptr *ptr, sn_cu_ipc handle, unsigned flags);
    sn_cu_result (*ipc_close)(sn_cu_ptr ptr);
    /* The same for memory of cuMemCreate; NULL likewise. */
    sn_cu_result (*mem_retain)(sn_cu_memory *memory, void *mapped_at);
    sn_cu_result (*mem_release)(sn_cu_memory memory);
    sn_cu_result (*mem_properties)(struct sn_cu_memory_prop *prop, sn_cu_memory memory);
    sn_cu_result (*mem_export)(void *handle, sn_cu_memory memory, int type, unsigned long long flags);
    sn_cu_result (*mem_import)(sn_cu_memory *memory, void *handle,
                               int type); /* the handle's value, as a pointer */
    sn_cu_result (*mem_reserve)(sn_cu_ptr *at, size_t size, size_t alignment, sn_cu_ptr wanted,
                                unsigned long long flags);
    sn_cu_result (*mem_unreserve)(sn_cu_ptr at, size_t size);
    sn_cu_result (*mem_map)(sn_cu_ptr at, size_t size, size_t offset, sn_cu_memory memory,
                            unsigned long long flags);
    sn_cu_result (*mem_unmap)(sn_cu_ptr at, size_t size);
    sn_cu_result (*mem_access)(sn_cu_ptr at, size_t size, const struct sn_cu_access *access, size_t n);
    /* For copies between GPUs; NULL likewise. */
    sn_cu_result (*can_access_peer)(int *can, sn_cu_device dev, sn_cu_device peer);
    sn_cu_result (*enable_peer)(sn_cu_ctx peer, unsigned flags); /* for the current context */
    sn_cu_result (*copy_peer)(sn_cu_ptr dst, sn_cu_ctx dst_ctx, sn_cu_ptr src, sn_cu_ctx src_ctx, size_t len,
                              sn_cu_stream stream);
    /* For a kernel of our own; NULL likewise. */
    sn_cu_result (*module_load)(sn_cu_module *module, const void *image);
    sn_cu_result (*module_function)(sn_cu_function *function, sn_cu_module module, const char *name);
    sn_cu_result (*function_load)(sn_cu_function function); /* NULL before CUDA 12.4 */
    sn_cu_result (*launch)(sn_cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                           unsigned by, unsigned bz, unsigned shared, sn_cu_stream stream, void **args,
                           void **extra);
};

/*
 * The driver this process has loaded, NULL if it has loaded none (then it has no memory on a GPU) or one too
 * old to have these calls. Any thread; the answer may change from NULL to a table once.
 */
const struct sn_cuda_api *sn_cuda_api_loaded(void);

/* In a forked child, while it has one thread: the lock may be held by one that is not here. */
void sn_cuda_api_forked(void);

#endif
