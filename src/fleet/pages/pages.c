/* SPDX-License-Identifier: Apache-2.0 */
/* The two arenas of pages, and the models whose weights go there. */
#include "src/fleet/pages/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/fleet/pages/pages_impl.h"
#include "src/fleet/plan/plan.h"

/* On an H200 (2026-11-29, pages_bench, 98 MiB) a load takes 1.22 times a plain copy in pieces of 16 MiB, 1.25
 * of 2 MiB, 1.36 of 1 MiB, 1.52 of 512 KiB. Another model's p99 is 1.6 times the quiet one's with 16 MiB, and
 * not larger with 2 MiB. */
#define PAGES_PIECE (2 << 20)

bool fleet_free_take(struct fleet_free *f, uint32_t n, uint32_t *of)
{
    if (n > f->n) return false;
    f->n -= n;
    memcpy(of, f->of + f->n, n * sizeof(*of));
    return true;
}

void fleet_free_give(struct fleet_free *f, uint32_t n, const uint32_t *of)
{
    memcpy(f->of + f->n, of, n * sizeof(*of));
    f->n += n;
}

/* All of them are free; room for `cap`. */
static int free_new(struct fleet_free *f, uint32_t n, uint32_t cap)
{
    f->of = (uint32_t *)calloc((size_t)cap + 1, sizeof(*f->of));
    if (!f->of) return -ENOMEM;
    for (f->n = 0; f->n < n; f->n++) f->of[f->n] = n - 1 - f->n;
    return 0;
}

/* ---- the arenas ---- */

/* Bytes of host memory that can be had without harm to others, as far as the kernel says; UINT64_MAX: it does
 * not. It would end processes rather than refuse. */
static uint64_t host_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f)) found = sscanf(line, "MemAvailable: %llu", &kib) == 1;
    if (f) fclose(f);
    return found ? kib * 1024 : UINT64_MAX;
}

static int pages_fit(const struct fleet_pages *p)
{
    const struct fleet_pages_opts *o = &p->opts;
    bool gpu = gw_exec_kind(o->exec) == GW_EXEC_GPU;
    uint64_t pages = (uint64_t)o->host_pages + (gpu ? 0 : o->gpu_pages), there = host_available();

    if (pages <= there / p->page) return 0;
    return gw_error(-ENOMEM, "%llu pages of %zu KiB do not fit into host memory, where %llu MiB are free",
                    (unsigned long long)pages, p->page >> 10, (unsigned long long)there >> 20);
}

static int pages_take(struct fleet_pages *p)
{
    const struct fleet_pages_opts *o = &p->opts;
    const struct fleet_place_opts place = {.exec = o->exec,
                                           .pages = o->gpu_pages,
                                           .page = p->page,
                                           .delay_ns = o->delay_ns,
                                           .piece = o->piece ? o->piece : PAGES_PIECE};
    const struct fleet_place_ops *ops =
        gw_exec_kind(o->exec) == GW_EXEC_GPU ? &fleet_place_gpu : &fleet_place_cpu;
    int err = pages_fit(p);

    if (!err) err = ops->open(&place, &p->gpu);
    p->made = o->gpu_pages;
    if (!err) err = gw_mem_alloc(o->exec, GW_MEM_HOST, o->host_pages * p->page, &p->host);
    if (!err) err = free_new(&p->free_gpu, o->gpu_pages, o->gpu_pages);
    if (!err) err = free_new(&p->free_host, o->host_pages, o->host_pages);
    if (!err) err = free_new(&p->spare, 0, o->gpu_pages);
    p->zeros = calloc(1, p->page);
    p->folder = strdup(o->folder);
    return err ? err : p->zeros && p->folder ? 0 : -ENOMEM;
}

int fleet_pages_create(const struct fleet_pages_opts *opts, struct fleet_pages **out)
{
    struct fleet_pages *p;

    *out = NULL;
    if (!opts->gpu_pages || !opts->host_pages || opts->page % 8)
        return gw_error(-EINVAL, "the arenas must have pages");
    if (access(opts->folder, W_OK | X_OK))
        return gw_error(-errno, "%s: cannot keep weights there: %s", opts->folder, strerror(errno));
    p = (struct fleet_pages *)calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->opts = *opts;
    p->page = opts->page ? opts->page : FLEET_PAGE;
    pthread_mutex_init(&p->lock, NULL);
    int err = pages_take(p);
    if (!err) err = fleet_lane_create("gw-weights-disk", &p->disk);
    if (!err) err = fleet_lane_create("gw-weights-bus", &p->bus);
    if (!err) err = fleet_lane_create("gw-weights-map", &p->map);
    if (err)
        fleet_pages_destroy(p);
    else
        *out = p;
    return err;
}

static void weights_free(struct fleet_weights *w)
{
    struct fleet_pages *p = w->pages;
    uint32_t mapped = w->backed ? w->backed : w->where == FLEET_GPU ? w->n : 0;

    if (mapped) p->gpu->ops->unmap(p->gpu, w->at, mapped * p->page);
    if (w->at) p->gpu->ops->unreserve(p->gpu, w->at, w->range.most);
    free(w->gpu);
    free(w->host);
    free(w->name);
    free(w);
}

void fleet_pages_serve(struct fleet_pages *p)
{
    pthread_mutex_lock(&p->lock);
    p->serving = true;
    pthread_mutex_unlock(&p->lock);
}

void fleet_pages_stop(struct fleet_pages *p)
{
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_mutex_unlock(&p->lock);
    fleet_lane_destroy(p->disk); /* in this order: each gives jobs to the next */
    fleet_lane_destroy(p->bus);
    fleet_lane_destroy(p->map);
    p->disk = p->bus = p->map = NULL;
}

void fleet_pages_destroy(struct fleet_pages *p)
{
    if (!p) return;
    fleet_pages_stop(p);
    for (struct fleet_weights *w = p->weights, *next; w; w = next) {
        next = w->next;
        weights_free(w);
    }
    if (p->gpu) p->gpu->ops->close(p->gpu);
    gw_mem_free(&p->host);
    free(p->free_gpu.of);
    free(p->free_host.of);
    free(p->spare.of);
    free(p->zeros);
    free(p->folder);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void fleet_pages_used(const struct fleet_pages *p, uint32_t *gpu, uint32_t *host)
{
    struct fleet_pages *locked = (struct fleet_pages *)p;

    pthread_mutex_lock(&locked->lock);
    *gpu = p->opts.gpu_pages - p->free_gpu.n;
    *host = p->opts.host_pages - p->free_host.n;
    pthread_mutex_unlock(&locked->lock);
}

/* ---- a model's weights ---- */

/* A page for plans: of the arena at first; later a spare one, or one more. */
static int plan_page(struct fleet_pages *p, uint32_t *page)
{
    pthread_mutex_lock(&p->lock);
    bool got = fleet_free_take(&p->spare, 1, page) || (!p->serving && fleet_free_take(&p->free_gpu, 1, page));
    pthread_mutex_unlock(&p->lock);
    if (got) return 0;
    /* One at a time makes plans; so the spare list's room is enough. */
    int err = p->gpu->ops->more(p->gpu);
    if (!err) *page = p->made++;
    return err;
}

static void give_plan_pages(struct fleet_weights *w)
{
    struct fleet_pages *p = w->pages;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < w->backed; i++)
        fleet_free_give(w->gpu[i] < p->opts.gpu_pages ? &p->free_gpu : &p->spare, 1, &w->gpu[i]);
    pthread_mutex_unlock(&p->lock);
    w->backed = 0;
}

/* Plans of the model want the first `bytes` bytes of its addresses. */
static int weights_back(void *ctx, uint64_t bytes)
{
    struct fleet_weights *w = (struct fleet_weights *)ctx;
    struct fleet_pages *p = w->pages;
    int err = 0;

    while (!err && w->backed * p->page < bytes) {
        char *at = w->at + w->backed * p->page;
        err = plan_page(p, &w->gpu[w->backed]);
        if (err) break;
        w->backed++;
        if (!(err = p->gpu->ops->map(p->gpu, at, w->gpu[w->backed - 1])))
            err = gw_copy_in(p->opts.exec, at, p->zeros, p->page); /* between constants: always the same */
    }
    return err;
}

int fleet_weights_create(struct fleet_pages *p, const char *name, void *user, struct fleet_weights **out)
{
    struct fleet_weights *w = (struct fleet_weights *)calloc(1, sizeof(*w));
    size_t most = p->opts.gpu_pages * p->page;

    *out = NULL;
    if (!w) return -ENOMEM;
    w->pages = p;
    w->user = user;
    w->where = FLEET_ON_DISK;
    w->last = &w->first;
    w->name = strdup(name);
    w->gpu = (uint32_t *)calloc(p->opts.gpu_pages, sizeof(*w->gpu));
    w->host = (uint32_t *)calloc(p->opts.gpu_pages, sizeof(*w->host));
    int err = w->name && w->gpu && w->host ? p->gpu->ops->reserve(p->gpu, most, &w->at) : -ENOMEM;
    if (err) {
        w->at = NULL;
        weights_free(w);
        return err;
    }
    w->range = (struct gw_range){.at = w->at, .most = most, .back = weights_back, .ctx = w};
    w->next = p->weights;
    p->weights = w;
    *out = w;
    return 0;
}

const struct gw_range *fleet_weights_range(const struct fleet_weights *w)
{
    return &w->range;
}

/* Hashes the weights where plans have put them; into a file too, if there is one. */
static int read_back(struct fleet_weights *w, uint64_t bytes, struct fleet_image_writer *file)
{
    struct fleet_pages *p = w->pages;
    void *part = malloc(p->page);
    int err = part ? 0 : -ENOMEM;

    w->key = gwm_key_of(NULL, 0);
    for (uint64_t at = 0; at < bytes && !err; at += p->page) {
        size_t n = bytes - at < p->page ? bytes - at : p->page;
        err = gw_copy_out(p->opts.exec, part, w->at + at, n);
        if (!err) gwm_key_more(&w->key, part, n);
        if (!err && file) err = fleet_image_write(file, part, n);
    }
    free(part);
    return err;
}

static int weights_keep(struct fleet_weights *w, uint64_t bytes)
{
    struct fleet_image_writer file;
    int fd, err = read_back(w, bytes, NULL);

    if (err || !bytes) return err; /* nothing needs no file */
    if (!fleet_image_open(&w->key, w->pages->folder, &fd)) return close(fd), 0;
    err = fleet_image_begin(&file, w->pages->folder);
    return err ? err : fleet_image_end(&file, read_back(w, bytes, &file));
}

int fleet_weights_seal(struct fleet_weights *w, uint64_t bytes)
{
    struct fleet_pages *p = w->pages;
    uint64_t n = (bytes + p->page - 1) / p->page;
    int err = 0;

    if (n > p->opts.gpu_pages)
        err = gw_error(-EFBIG, "model %s: its weights take %llu pages, the arena has %u", w->name,
                       (unsigned long long)n, p->opts.gpu_pages);
    if (!err) err = weights_keep(w, bytes);
    if (w->backed) p->gpu->ops->unmap(p->gpu, w->at, w->backed * p->page);
    give_plan_pages(w);
    w->n = err ? 0 : n ? (uint32_t)n : 1;
    return err;
}

uint32_t fleet_weights_pages(const struct fleet_weights *w)
{
    return w->n;
}

uint32_t fleet_weights_where(const struct fleet_weights *w)
{
    pthread_mutex_lock(&w->pages->lock);
    uint32_t where = w->where;
    pthread_mutex_unlock(&w->pages->lock);
    return where;
}
