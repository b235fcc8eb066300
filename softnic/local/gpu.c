/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that opens the GPU memory of peers, and closes it when it is no longer used. */
#include "softnic/local/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/spawn.h"
#include "softnic/cuda/cuda.h"
#include "softnic/local/lend.h"
#include "softnic/local/state.h"
#include "softnic/local/table.h"

enum { MAPS = 64 };   /* allocations open at once; those beyond are reached by packets */
enum { AGAIN_S = 1 }; /* between two looks at what may not be closed yet */

enum state {
    UNUSED,
    WANTED,
    OPEN,
    REFUSED, /* as long as its region is there: asking again would give the same answer */
    LEAVING, /* it is no longer used; the thread closes it as soon as possible */
};

struct map {
    enum state state;
    const struct sn_peer *peer;
    bool inside;
    uint8_t name[SN_MEET_NAME]; /* the peer's, and its process */
    pid_t pid;
    uint32_t key; /* a region in it */
    struct sn_gpu_share share;
    struct sn_cuda_region region; /* the thread's until it is OPEN */
};

/*
 * The lock is held for moments, never around a call of the driver. The thread makes the steps from WANTED to
 * OPEN or REFUSED, and from LEAVING to UNUSED. All other steps are made inside the NIC's lock, too. So what
 * is OPEN stays so while that is held, which is a whole access.
 */
struct sn_gpu {
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool started, ended;
    struct map map[MAPS];
    bool told; /* why something could not be opened */
};

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void wait_for_work(struct sn_gpu *g, bool some_must_stay)
{
    struct timespec again;

    GW_ASSERT_HELD(&g->lock);
    if (!some_must_stay) {
        pthread_cond_wait(&g->work, &g->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &again);
    again.tv_sec += AGAIN_S;
    pthread_cond_timedwait(&g->work, &g->lock, &again);
}

static struct map *next_work(struct sn_gpu *g)
{
    GW_ASSERT_HELD(&g->lock);
    for (;;) {
        bool some_must_stay = false;

        for (int i = 0; i < MAPS; i++) {
            struct map *m = &g->map[i];

            if (g->ended && m->state != UNUSED) m->state = LEAVING;
            if (m->state == WANTED) return m;
            if (m->state != LEAVING) continue;
            if (g->ended || m->inside || sn_cuda_may_close(&m->region)) return m;
            some_must_stay = true;
        }
        if (g->ended) return NULL;
        wait_for_work(g, some_must_stay);
    }
}

static bool open_by_files(const struct map *m, struct sn_cuda_region *region, char *why)
{
    struct sn_cuda_files files;
    bool ok = sn_borrow(m->name, m->pid, m->key, &m->share, &files);

    if (!ok) {
        snprintf(why, SN_CUDA_WHY, "its process (%d) did not hand over the files of it", (int)m->pid);
        return false;
    }
    ok = !sn_cuda_open(gw_cuda_driver_loaded(), &m->share, &files, region, why);
    sn_cuda_files_close(&files);
    return ok;
}

/* A peer that is another NIC of this process has memory that is open already. */
static bool local_gpu_open_one(const struct map *m, struct sn_cuda_region *region, char *why)
{
    const struct gw_cuda_driver *api = gw_cuda_driver_loaded();

    if (m->inside) return sn_cuda_region_init(api, m->share.base, m->share.size, region, why) == 1;
    if (m->share.way == SN_GPU_BY_FILES) return open_by_files(m, region, why);
    return !sn_cuda_open(api, &m->share, NULL, region, why);
}

static void local_gpu_close_one(bool inside, struct sn_cuda_region *region)
{
    if (inside && region->dev)
        sn_cuda_region_fini(region);
    else
        sn_cuda_close(region);
}

static void do_work(struct sn_gpu *g, struct map *m)
{
    enum state was = m->state;
    struct map copy = *m;
    char why[SN_CUDA_WHY] = "";
    bool ok = false;

    GW_ASSERT_HELD(&g->lock);
    pthread_mutex_unlock(&g->lock);
    if (was == WANTED)
        ok = local_gpu_open_one(&copy, &copy.region, why);
    else
        local_gpu_close_one(copy.inside,
                            &m->region); /* no other thread looks at it now; copies name it by its address */
    pthread_mutex_lock(&g->lock);
    if (was == WANTED) {
        if (ok) m->region = copy.region;
        if (!ok && !g->told)
            fprintf(stderr, "gpuwire: NIC: a peer's GPU memory is reached by packets: %s\n", why);
        g->told |= !ok;
        if (m->state == WANTED) m->state = ok ? OPEN : REFUSED; /* else it is LEAVING by now */
    } else {
        memset(m, 0, sizeof(*m));
    }
}

static void *local_gpu_work(void *arg)
{
    struct sn_gpu *g = arg;
    struct map *m;

    pthread_setname_np(pthread_self(), "gw-gpu");
    pthread_mutex_lock(&g->lock);
    while ((m = next_work(g))) do_work(g, m);
    pthread_mutex_unlock(&g->lock);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->work);
    free(g);
    return NULL;
}

/* Detached: no thread joins it, since it may be waiting for the driver. */
static bool local_gpu_start(struct sn_gpu *g)
{
    pthread_t id;

    GW_ASSERT_HELD(&g->lock);
    if (g->started) return true;
    g->started = !sn_spawn(&id, 0, local_gpu_work, g);
    if (g->started) pthread_detach(id);
    return g->started;
}

/* ---- the NIC's side ------------------------------------------------------------------------------------ */

struct sn_gpu *sn_gpu_new(void)
{
    struct sn_gpu *g = calloc(1, sizeof(*g));

    if (!g) return NULL;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->work, NULL);
    return g;
}

void sn_gpu_end(struct sn_gpu *g)
{
    bool started;

    if (!g) return;
    pthread_mutex_lock(&g->lock);
    started = g->started;
    g->ended = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock); /* from here on it is the thread's */
    if (started) return;
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->work);
    free(g);
}

static struct map *find_map(struct sn_gpu *g, const struct sn_peer *peer, const struct sn_gpu_share *share)
{
    struct map *unused = NULL;

    GW_ASSERT_HELD(&g->lock);
    for (int i = 0; i < MAPS; i++) {
        struct map *m = &g->map[i];

        if (m->state == UNUSED) unused = m;
        if (m->state == UNUSED || m->state == LEAVING || m->peer != peer) continue;
        if (!memcmp(&m->share, share, sizeof(*share))) return m;
    }
    return unused;
}

bool sn_gpu_find(struct sn_gpu *g, const struct sn_peer *peer, uint32_t key, const struct sn_gpu_share *share,
                 struct sn_reach *by, uint64_t *at)
{
    struct map *m;
    bool open = false;

    if (!g) return false;
    pthread_mutex_lock(&g->lock);
    m = find_map(g, peer, share);
    if (m && m->state == UNUSED && local_gpu_start(g)) {
        *m = (struct map){.state = WANTED,
                          .peer = peer,
                          .inside = peer->inside,
                          .pid = peer->pid,
                          .key = key,
                          .share = *share};
        memcpy(m->name, peer->name, SN_MEET_NAME);
        pthread_cond_signal(&g->work);
    }
    if (m) {
        m->key = key;
        open = m->state == OPEN;
        *by = (struct sn_reach){&sn_cuda_dma, &m->region};
        *at = m->region.addr;
    }
    pthread_mutex_unlock(&g->lock);
    return open;
}

void sn_gpu_sweep(struct sn_gpu *g, const struct sn_peer *peer, const struct sn_table *table)
{
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < MAPS; i++) {
        struct map *m = &g->map[i];

        if (m->state == UNUSED || m->state == LEAVING || m->peer != peer) continue;
        if (table && sn_table_shares(table, m->key, &m->share)) continue;
        m->state = LEAVING;
        pthread_cond_signal(&g->work);
    }
    pthread_mutex_unlock(&g->lock);
}
