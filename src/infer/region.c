/* SPDX-License-Identifier: Apache-2.0 */
#include "src/infer/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/serve/who.h"

#define MOST      256u /* regions in all; each holds a descriptor */
#define MOST_EACH 64u

struct region {
    struct region *next;
    struct gw_region_info info;
    char who[GW_WHO_TEXT];
    int fd;
};

struct gw_regions {
    pthread_mutex_t lock;
    struct region *first;
};

struct gw_regions *gw_regions_create(void)
{
    struct gw_regions *r = calloc(1, sizeof(*r));
    if (!r) return NULL;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void drop(struct region *g)
{
    close(g->fd);
    free(g);
}

void gw_regions_destroy(struct gw_regions *r)
{
    if (!r) return;
    for (struct region *g = r->first, *next; g; g = next) {
        next = g->next;
        drop(g);
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- registering ---- */

/* May this client have the server open that object? */
static int may_use(const char *who, const struct stat *st)
{
    unsigned uid;
    int open_to_all = (st->st_mode & (S_IROTH | S_IWOTH)) == (S_IROTH | S_IWOTH);
    if (!S_ISREG(st->st_mode)) return 0;
    if (sscanf(who, "user %u", &uid) == 1) return uid == 0 || st->st_uid == uid || open_to_all;
    return 0;
}

static int open_object(const char *who, const struct gw_region_info *info, struct gw_infer_error *error)
{
    struct stat st;
    if (info->key[0] != '/' || !info->key[1] || strchr(info->key + 1, '/'))
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "shared memory key '%s': a name of the form /NAME is wanted", info->key);
    int fd = shm_open(info->key, O_RDWR | O_NONBLOCK, 0); /* a FIFO of that name must not keep us */
    if (fd < 0 || fstat(fd, &st) || !may_use(who, &st)) {
        if (fd >= 0) close(fd);
        /* Whether an object of somebody else's exists is not told. */
        return gw_infer_fail(
            error, GW_INFER_INVALID,
            "Unable to open shared memory region '%s': it must exist on the server's host, and "
            "be the client's own",
            info->key);
    }
    uint64_t size = (uint64_t)st.st_size;
    if (info->offset <= size && info->bytes <= size - info->offset) return fd;
    close(fd);
    return gw_infer_fail(error, GW_INFER_INVALID,
                         "shared memory '%s' has %llu bytes, offset and byte_size go beyond", info->key,
                         (unsigned long long)size);
}

static struct region *find(const struct gw_regions *r, const char *who, const char *name)
{
    struct region *g = r->first;
    while (g && (strcmp(g->info.name, name) || strcmp(g->who, who))) g = g->next;
    return g;
}

/* With the lock held. */
static int add(struct gw_regions *r, struct region *g, struct gw_infer_error *error)
{
    uint32_t all = 0, own = 0;
    if (find(r, g->who, g->info.name))
        return gw_infer_fail(error, GW_INFER_EXISTS, "shared memory region '%s' is registered already",
                             g->info.name);
    for (const struct region *o = r->first; o; o = o->next) {
        all++;
        own += !strcmp(o->who, g->who);
    }
    if (all >= MOST || own >= MOST_EACH)
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                             "too many shared memory regions are registered: one client may have %u, all %u",
                             MOST_EACH, MOST);
    g->next = r->first;
    r->first = g;
    return 0;
}

int gw_region_register(struct gw_regions *r, const char *who, const struct gw_region_info *info,
                       struct gw_infer_error *error)
{
    if (!info->name[0] || !info->bytes)
        return gw_infer_fail(error, GW_INFER_INVALID, "a shared memory region has a name and a byte_size");
    int fd = open_object(who, info, error);
    if (fd < 0) return -1;
    struct region *g = calloc(1, sizeof(*g));
    if (!g) {
        close(fd);
        return gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    }
    g->info = *info;
    g->fd = fd;
    snprintf(g->who, sizeof(g->who), "%s", who);
    pthread_mutex_lock(&r->lock);
    int failed = add(r, g, error);
    pthread_mutex_unlock(&r->lock);
    if (failed) drop(g);
    return failed;
}

void gw_region_unregister(struct gw_regions *r, const char *who, const char *name)
{
    pthread_mutex_lock(&r->lock);
    for (struct region **link = &r->first, *g; (g = *link);) {
        if (strcmp(g->who, who) || (*name && strcmp(g->info.name, name))) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        drop(g);
    }
    pthread_mutex_unlock(&r->lock);
}

int gw_region_status(struct gw_regions *r, const char *who, const char *name, uint32_t i,
                     struct gw_region_info *info)
{
    pthread_mutex_lock(&r->lock);
    const struct region *g = r->first;
    for (; g; g = g->next)
        if (!strcmp(g->who, who) && (!*name || !strcmp(g->info.name, name)) && !i--) break;
    if (g) *info = g->info;
    pthread_mutex_unlock(&r->lock);
    return g != NULL;
}

/* ---- using ---- */

/* A descriptor of its own for the copy, which needs no lock; *at is where the bytes are in the object. */
static int open_part(struct gw_regions *r, const char *who, const char *name, uint64_t *at, uint64_t bytes,
                     struct gw_infer_error *error)
{
    int fd = -1, fits = 0;
    uint64_t has = 0, offset = *at;
    pthread_mutex_lock(&r->lock);
    const struct region *g = find(r, who, name);
    if (g) {
        has = g->info.bytes;
        fits = offset <= has && bytes <= has - offset;
        *at = g->info.offset + offset;
        fd = fits ? fcntl(g->fd, F_DUPFD_CLOEXEC, 0) : -1;
    }
    pthread_mutex_unlock(&r->lock);
    if (!g)
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "Unable to find shared memory region: '%s' is not registered by this client",
                             name);
    if (!fits)
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "shared memory region '%s' has %llu bytes, offset %llu and %llu bytes go beyond",
                             name, (unsigned long long)has, (unsigned long long)offset,
                             (unsigned long long)bytes);
    if (fd < 0)
        return gw_infer_fail(error, GW_INFER_INTERNAL, "shared memory region '%s': %s", name,
                             strerror(errno));
    return fd;
}

static int cut_short(const char *name, struct gw_infer_error *error)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "shared memory region '%s' has become smaller", name);
}

int gw_region_read(struct gw_regions *r, const char *who, const char *name, uint64_t offset, uint64_t bytes,
                   void *to, struct gw_infer_error *error)
{
    int fd = open_part(r, who, name, &offset, bytes, error);
    if (fd < 0) return -1;
    uint64_t done = 0;
    for (ssize_t n = 1; done < bytes && n > 0; done += n > 0 ? (uint64_t)n : 0)
        n = pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));
    close(fd);
    return done < bytes ? cut_short(name, error) : 0;
}

int gw_region_write(struct gw_regions *r, const char *who, const char *name, uint64_t offset, uint64_t bytes,
                    const void *from, struct gw_infer_error *error)
{
    struct stat st;
    int fd = open_part(r, who, name, &offset, bytes, error);
    if (fd < 0) return -1;
    uint64_t done = 0;
    /* Writing beyond its end would make it larger: what its owner has cut off stays so. */
    int fits = !fstat(fd, &st) && (uint64_t)st.st_size >= offset + bytes;
    for (ssize_t n = fits; done < bytes && n > 0; done += n > 0 ? (uint64_t)n : 0)
        n = pwrite(fd, (const uint8_t *)from + done, bytes - done, (off_t)(offset + done));
    close(fd);
    return done < bytes ? cut_short(name, error) : 0;
}

int gw_region_check(struct gw_regions *r, const char *who, const char *name, uint64_t offset, uint64_t bytes,
                    struct gw_infer_error *error)
{
    int fd = open_part(r, who, name, &offset, bytes, error);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}
