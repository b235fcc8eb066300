/* SPDX-License-Identifier: Apache-2.0 */
/* The table of shared memory that clients have registered. */
#include "src/server/requests/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/door/who.h"

#define MAX_REGIONS 256u /* regions in all; each holds a descriptor */
#define MAX_EACH    64u

struct region {
    struct region *next;
    struct gw_region_info info;
    char who[GW_WHO_TEXT];
    int fd;                      /* -1: it lies on a GPU */
    struct gw_cuda_memory *cuda; /* NULL: it does not */
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

static void region_drop(struct region *g)
{
    if (g->fd >= 0) close(g->fd);
    gw_cuda_unmap(g->cuda);
    free(g);
}

void gw_regions_destroy(struct gw_regions *r)
{
    if (!r) return;
    for (struct region *g = r->first, *next; g; g = next) {
        next = g->next;
        region_drop(g);
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- registering ---- */

/* May this client have the server open that object? */
static bool may_use(const char *who, const struct stat *st)
{
    uint32_t uid;
    int open_to_all = (st->st_mode & (S_IROTH | S_IWOTH)) == (S_IROTH | S_IWOTH);
    if (!S_ISREG(st->st_mode)) return false;
    return gw_who_user(who, &uid) && (uid == 0 || st->st_uid == uid || open_to_all);
}

static int open_object(const char *who, const struct gw_region_info *info, struct gw_infer_error *error)
{
    struct stat st;
    if (info->key[0] != '/' || !info->key[1] || strchr(info->key + 1, '/'))
        return gw_infer_fail(error, GW_INFER_INVALID,
                             "shared memory key '%s': must be a name of the form /NAME", info->key);
    int fd = shm_open(info->key, O_RDWR | O_NONBLOCK, 0); /* a FIFO of that name must not keep us */
    if (fd < 0 || fstat(fd, &st) || !may_use(who, &st)) {
        if (fd >= 0) close(fd);
        /* The answer does not say whether another user's object exists. */
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

static struct region *region_find(const struct gw_regions *r, const char *who, const char *name)
{
    GW_ASSERT_HELD(&r->lock);
    struct region *g = r->first;
    while (g && (strcmp(g->info.name, name) || strcmp(g->who, who))) g = g->next;
    return g;
}

static int region_add(struct gw_regions *r, struct region *g, struct gw_infer_error *error)
{
    GW_ASSERT_HELD(&r->lock);
    uint32_t all = 0, own = 0;
    if (region_find(r, g->who, g->info.name))
        return gw_infer_fail(error, GW_INFER_EXISTS, "shared memory region '%s' is registered already",
                             g->info.name);
    for (const struct region *o = r->first; o; o = o->next) {
        all++;
        own += !strcmp(o->who, g->who);
    }
    if (all >= MAX_REGIONS || own >= MAX_EACH)
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                             "too many shared memory regions are registered: one client may have %u, all %u",
                             MAX_EACH, MAX_REGIONS);
    g->next = r->first;
    r->first = g;
    return 0;
}

/* The common part of both kinds. NULL with *error. */
static struct region *region_make(const char *who, const struct gw_region_info *info,
                                  struct gw_infer_error *error)
{
    struct region *g = NULL;
    if (!info->name[0] || !info->bytes)
        gw_infer_fail(error, GW_INFER_INVALID, "a shared memory region has a name and a byte_size");
    else if (!(g = calloc(1, sizeof(*g))))
        gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    if (!g) return NULL;
    g->info = *info;
    g->fd = -1;
    snprintf(g->who, sizeof(g->who), "%s", who);
    return g;
}

/* Adds it, or frees it. */
static int region_enlist(struct gw_regions *r, struct region *g, int failed, struct gw_infer_error *error)
{
    if (!failed) {
        pthread_mutex_lock(&r->lock);
        failed = region_add(r, g, error);
        pthread_mutex_unlock(&r->lock);
    }
    if (failed) region_drop(g);
    return failed;
}

int gw_region_register(struct gw_regions *r, const char *who, const struct gw_region_info *info,
                       struct gw_infer_error *error)
{
    struct region *g = region_make(who, info, error);
    if (!g) return -1;
    g->fd = open_object(who, info, error);
    return region_enlist(r, g, g->fd < 0 ? -1 : 0, error);
}

int gw_region_may_map(const char *who, struct gw_infer_error *error)
{
    uint32_t uid;
    if (gw_who_user(who, &uid) && (uid == 0 || uid == geteuid())) return 0;
    return gw_infer_fail(error, GW_INFER_INVALID,
                         "CUDA shared memory: only processes of the server's host and user may register it");
}

int gw_region_register_cuda(struct gw_regions *r, const char *who, const struct gw_region_info *info,
                            const uint8_t handle[GW_CUDA_HANDLE], struct gw_infer_error *error)
{
    struct region *g = region_make(who, info, error);
    if (!g) return -1;
    int failed = gw_region_may_map(who, error);
    if (!failed) failed = gw_cuda_map(handle, info->device, info->bytes, &g->cuda, error);
    return region_enlist(r, g, failed, error);
}

static bool is_kind(const struct region *g, enum gw_region_kind kind)
{
    return (g->cuda != NULL) == (kind == GW_REGION_CUDA);
}

void gw_region_unregister(struct gw_regions *r, enum gw_region_kind kind, const char *who, const char *name)
{
    pthread_mutex_lock(&r->lock);
    for (struct region **link = &r->first, *g; (g = *link);) {
        if (!is_kind(g, kind) || strcmp(g->who, who) || (*name && strcmp(g->info.name, name))) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        region_drop(g);
    }
    pthread_mutex_unlock(&r->lock);
}

bool gw_region_status(struct gw_regions *r, enum gw_region_kind kind, const char *who, const char *name,
                      uint32_t i, struct gw_region_info *info)
{
    pthread_mutex_lock(&r->lock);
    const struct region *g = r->first;
    for (; g; g = g->next)
        if (is_kind(g, kind) && !strcmp(g->who, who) && (!*name || !strcmp(g->info.name, name)) && !i--)
            break;
    if (g) *info = g->info;
    pthread_mutex_unlock(&r->lock);
    return g != NULL;
}

/* ---- using ---- */

/* The region, when it has those bytes. NULL with *error. */
static struct region *find_part(struct gw_regions *r, const struct gw_region_part *part,
                                struct gw_infer_error *error)
{
    struct region *g = region_find(r, part->who, part->name);
    if (g && part->offset <= g->info.bytes && part->bytes <= g->info.bytes - part->offset) return g;
    if (!g)
        gw_infer_fail(error, GW_INFER_INVALID,
                      "Unable to find shared memory region: '%s' is not registered by this client",
                      part->name);
    else
        gw_infer_fail(error, GW_INFER_INVALID,
                      "shared memory region '%s' has %llu bytes, offset %llu and %llu bytes go beyond",
                      part->name, (unsigned long long)g->info.bytes, (unsigned long long)part->offset,
                      (unsigned long long)part->bytes);
    return NULL;
}

/* A part that is being copied: a descriptor of its own needs no lock. Memory on a GPU is copied with the lock
 * held, so that it stays mapped. */
struct open_part {
    struct gw_cuda_memory *cuda; /* NULL: */
    int fd;
    uint64_t at;
};

/* close_part follows when it succeeds. */
static int open_part(struct gw_regions *r, const struct gw_region_part *part, struct open_part *p,
                     struct gw_infer_error *error)
{
    pthread_mutex_lock(&r->lock);
    const struct region *g = find_part(r, part, error);
    int wrong = g ? 0 : -1;
    if (g) *p = (struct open_part){g->cuda, -1, g->info.offset + part->offset};
    if (g && !g->cuda && (p->fd = fcntl(g->fd, F_DUPFD_CLOEXEC, 0)) < 0)
        wrong = gw_infer_fail(error, GW_INFER_INTERNAL, "shared memory region '%s': %s", part->name,
                              strerror(errno));
    if (wrong || !p->cuda) pthread_mutex_unlock(&r->lock);
    return wrong;
}

static void close_part(struct gw_regions *r, const struct open_part *p)
{
    if (p->cuda)
        pthread_mutex_unlock(&r->lock);
    else
        close(p->fd);
}

static int region_cut_short(const char *name, struct gw_infer_error *error)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "shared memory region '%s' has become smaller", name);
}

static int gpu_failed(const char *name, struct gw_infer_error *error)
{
    return gw_infer_fail(error, GW_INFER_INTERNAL,
                         "shared memory region '%s': the GPU's driver did not copy it", name);
}

int gw_region_read(struct gw_regions *r, const struct gw_region_part *part, void *to,
                   struct gw_infer_error *error)
{
    struct open_part p;
    uint64_t done = 0, bytes = part->bytes;
    if (open_part(r, part, &p, error)) return -1;
    int failed = p.cuda && gw_cuda_read(p.cuda, p.at, bytes, to);
    for (ssize_t n = 1; !p.cuda && done < bytes && n > 0; done += n > 0 ? (uint64_t)n : 0)
        n = pread(p.fd, (uint8_t *)to + done, bytes - done, (off_t)(p.at + done));
    close_part(r, &p);
    if (p.cuda) return failed ? gpu_failed(part->name, error) : 0;
    return done < bytes ? region_cut_short(part->name, error) : 0;
}

int gw_region_write(struct gw_regions *r, const struct gw_region_part *part, const void *from,
                    struct gw_infer_error *error)
{
    struct stat st;
    struct open_part p;
    uint64_t done = 0, bytes = part->bytes;
    if (open_part(r, part, &p, error)) return -1;
    int failed = p.cuda && gw_cuda_write(p.cuda, p.at, bytes, from);
    /* Writing beyond its end would make it larger: what its owner has cut off stays so. */
    int fits = !p.cuda && !fstat(p.fd, &st) && (uint64_t)st.st_size >= p.at + bytes;
    for (ssize_t n = fits; done < bytes && n > 0; done += n > 0 ? (uint64_t)n : 0)
        n = pwrite(p.fd, (const uint8_t *)from + done, bytes - done, (off_t)(p.at + done));
    close_part(r, &p);
    if (p.cuda) return failed ? gpu_failed(part->name, error) : 0;
    return done < bytes ? region_cut_short(part->name, error) : 0;
}

int gw_region_check(struct gw_regions *r, const struct gw_region_part *part, struct gw_infer_error *error)
{
    pthread_mutex_lock(&r->lock);
    int wrong = find_part(r, part, error) ? 0 : -1;
    pthread_mutex_unlock(&r->lock);
    return wrong;
}

int gw_region_reaches(struct gw_regions *r, const char *who, const char *name, const void *at, uint64_t bytes)
{
    pthread_mutex_lock(&r->lock);
    const struct region *g = region_find(r, who, name);
    int reaches = g && g->cuda && gw_cuda_reaches(g->cuda, at, bytes);
    pthread_mutex_unlock(&r->lock);
    return reaches;
}

int gw_region_copy(struct gw_regions *r, const struct gw_region_part *part, void *other, int out,
                   struct gw_infer_error *error)
{
    struct open_part p;
    if (open_part(r, part, &p, error)) return -1;
    int failed = !p.cuda || gw_cuda_copy(p.cuda, p.at, part->bytes, other, out);
    close_part(r, &p);
    return failed ? gpu_failed(part->name, error) : 0;
}
