/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the files that weights lie in, and keeps account of them. */
#include "src/generate/import/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

struct gen_map {
    void *at;
    size_t size;
};

struct gen_maps *gen_maps_new(void)
{
    return calloc(1, sizeof(struct gen_maps));
}

void gen_maps_free(void *maps)
{
    struct gen_maps *m = maps;

    if (!m) return;
    for (uint32_t i = 0; i < m->n; i++) munmap(m->map[i].at, m->map[i].size);
    free(m->map);
    free(m);
}

int gen_maps_file(struct gen_maps *m, int fd, const char *path, const uint8_t **at, size_t *size)
{
    struct gen_map *grown;
    struct stat st;

    if (fstat(fd, &st)) return gw_error_errno(-errno, "%s", path);
    if (!S_ISREG(st.st_mode)) return gw_error(-EINVAL, "%s: not a regular file", path);
    *at = NULL;
    *size = (size_t)st.st_size;
    if (!*size) return 0;
    if (!(grown = reallocarray(m->map, m->n + (size_t)1, sizeof(*grown))))
        return gw_error(-ENOMEM, "%s: no memory", path);
    m->map = grown;
    void *p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return gw_error_errno(-errno, "%s: cannot be mapped", path);
    m->map[m->n++] = (struct gen_map){p, *size};
    *at = p;
    return 0;
}

int gen_maps_path(struct gen_maps *m, const char *path, const uint8_t **at, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err; /* O_NONBLOCK: a FIFO is no reason to wait */

    if (fd < 0) return errno == ENOENT ? -ENOENT : gw_error_errno(-errno, "%s", path);
    err = gen_maps_file(m, fd, path, at, size);
    close(fd);
    return err;
}
