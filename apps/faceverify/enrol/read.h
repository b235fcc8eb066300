/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of people in files and folders become aligned views. */
#ifndef FACE_ENROL_READ_H
#define FACE_ENROL_READ_H

#include <stdbool.h>

#include "apps/faceverify/faces/crowd.h"

/* Where a picture's eyes are: as given, or as the file beside it says, or where they are found. */
struct face_read_opts {
    const struct face_eyes *eyes; /* NULL: not given */
    bool aligned;                 /* the picture is FACE_SIDE pixels wide and high, and is taken as it is */
};

/* Reads one picture and aligns it. *found, unless NULL, says where the eyes are. 0 or a negative errno with
 * gw_last_error(). */
int face_view_read(const char *path, const struct face_read_opts *opts, uint8_t pixels[FACE_PIXELS],
                   struct face_eyes *found);

/* Calls each(ctx, name, path) for the pictures in the folders FOLDER/NAME, .png, .jpg and .jpeg, in
 * order of their names. It ends when that returns something other than 0, and returns this. -ENOENT:
 * there are none; -EINVAL: a folder's name cannot be a person's. */
int face_folder_walk(const char *folder, int (*each)(void *ctx, const char *name, const char *path),
                     void *ctx);

/* Reads a whole folder: each person's first `enrolled` views are enrolled; 0: all. A picture that cannot be
 * read is told on standard error and left out; *skipped counts them. */
int face_folder_read(const char *folder, uint32_t enrolled, struct face_crowd *crowd, uint32_t *skipped);

#endif
