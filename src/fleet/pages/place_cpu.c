/* SPDX-License-Identifier: Apache-2.0 */
/* Pages on the CPU: parts of one file in memory, mapped where a model's weights belong. The bus between host
 * memory and a GPU is a delay for each page. */
#include "src/fleet/pages/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct place_cpu {
    struct fleet_place_memory memory;
    int fd;
    uint32_t pages;
    size_t page;
    int64_t delay_ns, busy_until; /* the bus */
};

static int64_t place_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int place_cpu_open(const struct fleet_place_opts *opts, struct fleet_place_memory **out)
{
    struct place_cpu *p = (struct place_cpu *)calloc(1, sizeof(*p));
    int err;

    if (!p) return -ENOMEM;
    *p = (struct place_cpu){.memory = {&fleet_place_cpu},
                            .fd = memfd_create("gpuwire-pages", MFD_CLOEXEC),
                            .pages = opts->pages,
                            .page = opts->page,
                            .delay_ns = opts->delay_ns};
    /* All of it now: a page that cannot be had later would end the process. */
    err = p->fd < 0 ? -errno : -posix_fallocate(p->fd, 0, (off_t)(opts->pages * opts->page));
    if (err) {
        if (p->fd >= 0) close(p->fd);
        free(p);
        return gw_error(err, "cannot take %u pages of %zu MiB of memory: %s", opts->pages, opts->page >> 20,
                        strerror(-err));
    }
    *out = &p->memory;
    return 0;
}

static void place_cpu_close(struct fleet_place_memory *m)
{
    struct place_cpu *p = (struct place_cpu *)m;

    close(p->fd);
    free(p);
}

static int place_cpu_reserve(struct fleet_place_memory *m, size_t bytes, char **at)
{
    (void)m;
    *at = (char *)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *at == MAP_FAILED ? gw_error(-ENOMEM, "no %zu MiB of addresses are free", bytes >> 20) : 0;
}

static void place_cpu_unreserve(struct fleet_place_memory *m, char *at, size_t bytes)
{
    (void)m;
    munmap(at, bytes);
}

static int place_cpu_more(struct fleet_place_memory *m)
{
    struct place_cpu *p = (struct place_cpu *)m;
    int err = -posix_fallocate(p->fd, (off_t)(p->pages * p->page), (off_t)p->page);

    if (err) return gw_error(-ENOMEM, "no memory for one more page: %s", strerror(-err));
    p->pages++;
    return 0;
}

static int place_cpu_map(struct fleet_place_memory *m, char *at, uint32_t page)
{
    struct place_cpu *p = (struct place_cpu *)m;
    void *got = mmap(at, p->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, p->fd,
                     (off_t)(page * p->page));

    return got == MAP_FAILED ? gw_error(-errno, "cannot map a page: %s", strerror(errno)) : 0;
}

/* The addresses stay reserved: what is wrong and touches them dies at once. */
static int place_cpu_unmap(struct fleet_place_memory *m, char *at, size_t bytes)
{
    (void)m;
    void *got = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return got == MAP_FAILED ? gw_error(-errno, "cannot unmap pages: %s", strerror(errno)) : 0;
}

static int place_cpu_copy(struct fleet_place_memory *m, char *at, const void *from, size_t bytes)
{
    struct place_cpu *p = (struct place_cpu *)m;
    int64_t now = p->delay_ns ? place_now() : 0;

    memcpy(at, from, bytes);
    if (p->delay_ns) p->busy_until = (p->busy_until > now ? p->busy_until : now) + p->delay_ns;
    return 0;
}

static int place_cpu_wait(struct fleet_place_memory *m)
{
    struct place_cpu *p = (struct place_cpu *)m;
    const struct timespec at = {p->busy_until / 1000000000, p->busy_until % 1000000000};

    while (p->busy_until && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) continue;
    return 0;
}

const struct fleet_place_ops fleet_place_cpu = {.open = place_cpu_open,
                                                .close = place_cpu_close,
                                                .reserve = place_cpu_reserve,
                                                .unreserve = place_cpu_unreserve,
                                                .more = place_cpu_more,
                                                .map = place_cpu_map,
                                                .unmap = place_cpu_unmap,
                                                .copy = place_cpu_copy,
                                                .wait = place_cpu_wait};
