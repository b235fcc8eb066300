/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that clients register under a name, so that messages name it instead of carrying tensors.
 *
 * System shared memory is a POSIX object of this host (shm_open). A client names it, and the server opens it
 * with its own rights. So only a user of this host may register one. It must be that user's own, or one that
 * everybody may read and write. Only that user's requests may name the region afterwards.
 *
 * The server reads and writes it as a file. A mapping would end the server when its owner makes the object
 * smaller.
 */
#ifndef GW_SERVER_REQUESTS_REGION_H
#define GW_SERVER_REQUESTS_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "src/server/requests/cuda.h"
#include "src/server/requests/error.h"

struct gw_regions;

struct gw_regions *gw_regions_create(void);    /* NULL: out of memory */
void gw_regions_destroy(struct gw_regions *r); /* NULL is allowed */

enum gw_region_kind { GW_REGION_SYSTEM, GW_REGION_CUDA };

struct gw_region_info {
    char name[256], key[256]; /* key: of system shared memory */
    uint64_t offset, bytes;
    uint64_t device; /* of CUDA shared memory: the GPU, by its CUDA number */
};

/* Registers bytes [offset, offset + bytes) of the object `key` ("/NAME") as `name`, for the client `who`. 0
 * or -1 with *error. */
int gw_region_register(struct gw_regions *r, const char *who, const struct gw_region_info *info,
                       struct gw_infer_error *error);
/* Nothing tells whose memory a handle of CUDA's names. So only the server's own user, and root, may register
 * one. 0, or -1 with *error: this client may not. */
int gw_region_may_map(const char *who, struct gw_infer_error *error);
/* The same with memory on a GPU that the server uses: the allocation of a cudaIpcMemHandle. Under
 * gw_control_paused. */
int gw_region_register_cuda(struct gw_regions *r, const char *who, const struct gw_region_info *info,
                            const uint8_t handle[GW_CUDA_HANDLE], struct gw_infer_error *error);
/* Forgets the region of that name and kind, or all ("") of this client's. A name that is not registered is no
 * error. CUDA's under gw_control_paused. */
void gw_region_unregister(struct gw_regions *r, enum gw_region_kind kind, const char *who, const char *name);
/* The client's i-th region of that kind, by name when `name` is not "". False: there is none. */
bool gw_region_status(struct gw_regions *r, enum gw_region_kind kind, const char *who, const char *name,
                      uint32_t i, struct gw_region_info *info);

/* Bytes of a region, as a request of the client `who` names them. */
struct gw_region_part {
    const char *who, *name;
    uint64_t offset, bytes;
};

/* Copies the part out or in. 0 or -1 with *error. */
int gw_region_read(struct gw_regions *r, const struct gw_region_part *part, void *to,
                   struct gw_infer_error *error);
int gw_region_write(struct gw_regions *r, const struct gw_region_part *part, const void *from,
                    struct gw_infer_error *error);
/* May gw_region_copy be called with that address? No for system shared memory, and for addresses that no GPU
 * reaches. */
int gw_region_reaches(struct gw_regions *r, const char *who, const char *name, const void *at,
                      uint64_t bytes);
/* As gw_region_read (out 1) and gw_region_write, of CUDA shared memory. gw_region_reaches has said yes to the
 * other address: the GPU copies. */
int gw_region_copy(struct gw_regions *r, const struct gw_region_part *part, void *other, int out,
                   struct gw_infer_error *error);
/* Does the region exist, and has it these bytes? 0 or -1 with *error. */
int gw_region_check(struct gw_regions *r, const struct gw_region_part *part, struct gw_infer_error *error);

#endif
