/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a program's weights lie in, mapped for as long as the program lives. */
#ifndef GW_GENERATE_IMPORT_MAPS_H
#define GW_GENERATE_IMPORT_MAPS_H

#include <stddef.h>
#include <stdint.h>

struct gen_maps {
    struct gen_map *map;
    uint32_t n;
};

/* NULL: no memory. */
struct gen_maps *gen_maps_new(void);
/* Unmaps all files. A gen_program's `release`. */
void gen_maps_free(void *maps);
/* Maps the open file fd, which stays the caller's; `path` is for messages. 0; -EINVAL: no regular file;
 * -ENOMEM, …, with gw_last_error(). An empty file has no bytes at *at. */
int gen_maps_file(struct gen_maps *m, int fd, const char *path, const uint8_t **at, size_t *size);
/* Opens and maps the file of that path. -ENOENT is no reason to say anything: gw_last_error() stays. */
int gen_maps_path(struct gen_maps *m, const char *path, const uint8_t **at, size_t *size);

#endif
