/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h: the commands of <rdma/rdma_user_cm.h>, and the open files they come through. */
#ifndef SOFTNIC_CM_ABI_H
#define SOFTNIC_CM_ABI_H

#include "softnic/cm/core.h"

/* The largest command is a header and two socket addresses, or 256 bytes of private data and a little more.
 */
enum { CM_IN_ROOM = 512 };

/* One command: its input in our memory, zeros after what was given. */
struct cm_call {
    struct cm_file *file;
    union {
        uint64_t aligned;
        uint8_t bytes[CM_IN_ROOM];
    } in;
    uint16_t out_len; /* room for the answer, as the caller said */
};

/* 0 or a negative errno. */
int cm_command(struct cm_call *c, uint32_t command);

/* Another open file of this process, by its fd; to be put when done. NULL: there is none. */
struct cm_file *cm_file_get(int fd);
void cm_file_put(struct cm_file *file);

#endif
