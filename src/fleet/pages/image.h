/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in a file, ready to be copied to where plans read them. The file's name says what it holds, so a
 * damaged one, or another one, is not taken for it. */
#ifndef GW_FLEET_PAGES_IMAGE_H
#define GW_FLEET_PAGES_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "src/model/graph/share.h"

/* The file's path below `folder`. */
void fleet_image_path(const struct gwm_key *key, const char *folder, char *out, size_t size);

/* Opens the file. -ENOENT; -EBADMSG: it has another length. */
int fleet_image_open(const struct gwm_key *key, const char *folder, int *fd);
/* Reads the next bytes of an open file. 0; -EBADMSG: it ends early; -EIO and its like. */
int fleet_image_read(int fd, void *to, size_t bytes);

/* A file that is being written; it appears under its name at the end, whole or not at all. */
struct fleet_image_writer {
    const char *folder;
    struct gwm_key key; /* of what has been written */
    int fd;
    char path[512];
};
int fleet_image_begin(struct fleet_image_writer *w, const char *folder);
int fleet_image_write(struct fleet_image_writer *w, const void *data, size_t bytes);
/* 0, and w->key names it; -ENOSPC and its like. The writer is over in any case. */
int fleet_image_end(struct fleet_image_writer *w, int err);

#endif
