/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lend.h: files of GPU memory, from one process to another.
 *
 * Memory of cuMemCreate has no handle that could stand in a table. A process that wants to open it connects
 * to the owner's name, as it does to meet it. It asks for a region's files, and the answer ends the
 * connection.
 */
#ifndef SOFTNIC_LOCAL_LEND_H
#define SOFTNIC_LOCAL_LEND_H

#include <stdbool.h>
#include <sys/types.h>

#include "softnic/cuda/cuda.h"
#include "softnic/local/share.h"
#include "softnic/wire/slot.h"

/* The question. */
struct sn_want {
    uint64_t magic;
    uint32_t version, key; /* of a region, which has this memory */
    struct sn_gpu_share share;
};
#define SN_WANT_MAGIC UINT64_C(0x31544e4157475747)

/* Did the other end ask for files? Then *want is what it asks for. Takes nothing else from the socket, and
 * does not wait. */
bool sn_lend_asked(int fd, struct sn_want *want);
/* Hands over the files of memory of this process; nothing, if there are none (any more). Does not wait. */
void sn_lend(int fd, const struct sn_gpu_share *share);

/*
 * Asks the process of that name and number, and waits for the answer, for some seconds at most. True: *files
 * are the caller's, as many as the share says; their sizes are what the peer says.
 */
bool sn_borrow(const uint8_t name[SN_MEET_NAME], pid_t pid, uint32_t key, const struct sn_gpu_share *share,
               struct sn_cuda_files *files);

#endif
