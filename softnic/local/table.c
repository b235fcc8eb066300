/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the table of memory regions and queue pairs that peers may use. */
#include "softnic/local/table.h"

#include <string.h>

enum { TRIES = 4 };

static void local_table_put32(uint32_t *to, uint32_t v)
{
    __atomic_store_n(to, v, __ATOMIC_RELAXED);
}

static void put64(uint64_t *to, uint64_t v)
{
    __atomic_store_n(to, v, __ATOMIC_RELAXED);
}

static uint32_t get32(const uint32_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

static uint64_t get64(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* The fence keeps the entry's stores after that of the odd number: a reader that sees one of them sees it
 * too. */
static void local_table_begin(uint32_t *seq)
{
    local_table_put32(seq, *seq | 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Release: a reader that sees the even number sees the entry. */
static void local_table_end(uint32_t *seq)
{
    __atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
}

/* Word by word, as all that two processes look at at once. */
static void put_share(struct sn_gpu_share *to, const struct sn_gpu_share *from)
{
    uint64_t words[sizeof(*from) / 8], *at = (uint64_t *)(void *)to;

    memcpy(words, from, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / 8; i++) put64(at + i, words[i]);
}

static void get_share(struct sn_gpu_share *to, const struct sn_gpu_share *from)
{
    uint64_t words[sizeof(*from) / 8];
    const uint64_t *at = (const uint64_t *)(const void *)from;

    for (size_t i = 0; i < sizeof(words) / 8; i++) words[i] = get64(at + i);
    memcpy(to, words, sizeof(words));
}

void sn_table_region(struct sn_table *t, uint32_t key, const struct sn_peer_region *region)
{
    uint32_t index = key >> SN_SHARE_KEY_SHIFT;
    struct sn_share_region *e = &t->region[index % SN_SHARE_REGIONS];

    if (index >= SN_SHARE_REGIONS) return;
    local_table_begin(&e->seq);
    local_table_put32(&e->key, region ? key : 0);
    if (region) {
        put64(&e->iova, region->iova);
        put64(&e->addr, region->addr);
        put64(&e->length, region->length);
        local_table_put32(&e->access, region->access);
        local_table_put32(&e->pd, region->pd);
        local_table_put32(&e->gpu, region->gpu != NULL);
        if (region->gpu) put_share(&t->gpu[index], region->gpu);
    }
    local_table_end(&e->seq);
}

static void put_terms(struct sn_share_queue *e, const struct sn_peer_terms *t)
{
    uint64_t gid[2];

    memcpy(gid, t->gid, sizeof(gid));
    put64(&e->gid[0], gid[0]);
    put64(&e->gid[1], gid[1]);
    local_table_put32(&e->psn, t->psn);
    local_table_put32(&e->mtu, t->mtu);
    local_table_put32(&e->pkey, t->pkey);
    local_table_put32(&e->reads, t->reads);
}

static void get_terms(struct sn_peer_terms *t, const struct sn_share_queue *e)
{
    const uint64_t gid[2] = {get64(&e->gid[0]), get64(&e->gid[1])};

    memcpy(t->gid, gid, sizeof(gid));
    t->psn = get32(&e->psn);
    t->mtu = get32(&e->mtu);
    t->pkey = (uint16_t)get32(&e->pkey);
    t->reads = (uint16_t)get32(&e->reads);
}

void sn_table_queue(struct sn_table *t, uint32_t qpn, const struct sn_peer_queue *queue)
{
    struct sn_share_queue *e = &t->queue[qpn % SN_SHARE_QUEUES];

    local_table_begin(&e->seq);
    local_table_put32(&e->qpn, queue ? qpn : 0);
    if (queue) {
        local_table_put32(&e->dest_qpn, queue->dest_qpn);
        local_table_put32(&e->access, queue->access);
        local_table_put32(&e->pd, queue->pd);
        put_terms(e, &queue->terms);
    }
    local_table_end(&e->seq);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Acquire: the entry is read after its number. */
static uint32_t seq_before(const uint32_t *seq)
{
    return __atomic_load_n(seq, __ATOMIC_ACQUIRE);
}

/* The fence keeps the entry's loads before this one: had one of them seen a later store, this would see the
 * number that was stored before it. */
static bool unchanged(const uint32_t *seq, uint32_t before)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !(before & 1) && get32(seq) == before;
}

static bool read_queue(const struct sn_table *t, uint32_t qpn, struct sn_peer_queue *q)
{
    const struct sn_share_queue *e = &t->queue[qpn % SN_SHARE_QUEUES];

    for (int i = 0; i < TRIES; i++) {
        uint32_t seq = seq_before(&e->seq), number = get32(&e->qpn);

        q->dest_qpn = get32(&e->dest_qpn);
        q->access = get32(&e->access);
        q->pd = get32(&e->pd);
        get_terms(&q->terms, e);
        if (unchanged(&e->seq, seq)) return number == qpn;
    }
    return false;
}

static bool local_table_read_region(const struct sn_table *t, uint32_t key, struct sn_share_region *r,
                                    struct sn_gpu_share *gpu)
{
    uint32_t index = key >> SN_SHARE_KEY_SHIFT;
    const struct sn_share_region *e = &t->region[index % SN_SHARE_REGIONS];

    if (index >= SN_SHARE_REGIONS) return false;
    for (int i = 0; i < TRIES; i++) {
        uint32_t seq = seq_before(&e->seq);

        r->key = get32(&e->key);
        r->iova = get64(&e->iova);
        r->addr = get64(&e->addr);
        r->length = get64(&e->length);
        r->access = get32(&e->access);
        r->pd = get32(&e->pd);
        r->gpu = get32(&e->gpu);
        gpu->size = 0;
        if (r->gpu) get_share(gpu, &t->gpu[index]);
        if (unchanged(&e->seq, seq)) return r->key == key;
    }
    return false;
}

bool sn_table_shares(const struct sn_table *t, uint32_t key, const struct sn_gpu_share *gpu)
{
    struct sn_share_region r;
    struct sn_gpu_share now;

    return local_table_read_region(t, key, &r, &now) && r.gpu && !memcmp(&now, gpu, sizeof(now));
}

bool sn_table_on_gpu(const struct sn_table *t, uint32_t key)
{
    struct sn_share_region r;
    struct sn_gpu_share gpu;

    return local_table_read_region(t, key, &r, &gpu) && r.gpu;
}

static bool local_table_lies_in(const struct sn_gpu_share *gpu, uint64_t addr, uint64_t length)
{
    return addr >= gpu->base && length <= gpu->size && addr - gpu->base <= gpu->size - length;
}

bool sn_table_grants(const struct sn_table *t, const struct sn_peer_access *a, uint64_t *addr,
                     struct sn_gpu_share *gpu)
{
    struct sn_share_region r;
    struct sn_peer_queue q;

    *addr = 0;
    gpu->size = 0;
    if (!read_queue(t, a->dst_qpn, &q) || !sn_peer_queue_takes(&q, a)) return false;
    if (!a->length) return true;
    if (!local_table_read_region(t, a->rkey, &r, gpu)) return false;
    if (r.pd != q.pd || (r.access & a->access) != a->access) return false;
    /* Written so that nothing can overflow. */
    if (a->va < r.iova || a->length > r.length || a->va - r.iova > r.length - a->length) return false;
    if (__builtin_add_overflow(r.addr, a->va - r.iova, addr)) return false;
    return !r.gpu || local_table_lies_in(gpu, *addr, a->length);
}
