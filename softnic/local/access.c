/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses to memory: ours to a peer's, inside the NIC's lock; and waiting for peers' to ours, outside it. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "softnic/local/cma.h"
#include "softnic/local/gate.h"
#include "softnic/local/meet.h"
#include "softnic/local/state.h"
#include "softnic/local/table.h"
#include "softnic/mem/pieces.h"

/* A peer that was last seen alive this long ago is asked again before its memory is touched: its number may
 * be another process's by then. */
#define ALIVE_NS 10000000u
/* When to look first whether an awaited peer stands still, and when to say that one has to be awaited. */
#define STILL_NS    10000000u
#define PATIENCE_NS 2000000000u

enum { SPINS = 1000 };

/* ---- ours ---------------------------------------------------------------------------------------------- */

/*
 * Its socket may be open in another process: a child that it made without telling libc. So its number, too,
 * is asked: by now it may be another process's, or the process may run another program.
 */
static bool is_there(const struct sn_peer *p)
{
    return sn_meet_alive(p->fd) && sn_cma_has(p->pid, p->nonce, p->nonce_addr);
}

bool sn_access_enter(void *ctx, struct sn_peer *p, uint64_t now)
{
    (void)ctx;
    if (now - p->seen_alive > ALIVE_NS) {
        if (!is_there(p)) {
            p->copies = false; /* the thread does the rest */
            return false;
        }
        p->seen_alive = now;
    }
    __atomic_store_n(&p->channel->epoch, ++p->epoch, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* before the table is read: see quiesce */
    return true;
}

bool sn_access_grant(void *ctx, struct sn_peer *p, const struct sn_peer_access *access, uint64_t *addr,
                     struct sn_reach *by)
{
    struct sn_local *h = ctx;
    struct sn_gpu_share gpu;
    uint64_t at;

    *by = (struct sn_reach){NULL, NULL};
    if (!sn_table_grants(p->table, access, addr, &gpu)) return false;
    if (!gpu.size) return true;
    if (!sn_gpu_find(h->gpu, p, access->rkey, &gpu, by, &at)) return false;
    *addr = at + (*addr - gpu.base);
    return true;
}

/* Plain memory at both ends, in one call. */
static int64_t copy_plain(const struct sn_peer *p, const struct sn_copy *c)
{
    int64_t n;

    if (!sn_gate_lay(p->channel, p->epoch, c->there, c->n_there)) return -EFAULT;
    n = sn_cma_copy(p->pid, c->write, c->here, c->n_here, p->channel->there, c->n_there);
    return n == -EINVAL && sn_gate_is_shut(p->channel) ? -EFAULT : n;
}

static int64_t copy_with(const struct sn_peer *p, const struct sn_copy *c, struct sn_copying *under_way)
{
    struct sn_copy by_parts = *c;

    if (under_way) under_way->to.dma = NULL;
    if (!p->inside && !c->by_here.dma && !c->by_there.dma) return copy_plain(p, c);
    if (!sn_gate_pass(p->channel, p->epoch)) return -EFAULT;
    if (!p->inside && !c->by_there.dma) by_parts.by_there = sn_cma_reach(p->pid);
    return sn_pieces_copy(&by_parts, under_way);
}

int64_t sn_access_copy(void *ctx, struct sn_peer *p, const struct sn_copy *c, struct sn_copying *under_way)
{
    struct sn_local *h = ctx;
    int64_t n = copy_with(p, c, under_way);

    /* Memory that is not there, or was taken back, is one request's affair; anything else will not work the
     * next time either. */
    if (n < 0 && n != -EFAULT) {
        p->copies = false;
        __atomic_store_n(&p->channel->pulls, 0, __ATOMIC_RELAXED);
        h->copy_error = (int)n;
    }
    return n;
}

void sn_access_leave(void *ctx, struct sn_peer *p)
{
    (void)ctx;
    /* Release: a thread that sees it knows that the copy has been made. */
    __atomic_store_n(&p->channel->epoch, ++p->epoch, __ATOMIC_RELEASE);
}

/* ---- theirs -------------------------------------------------------------------------------------------- */

/* Is this sender still in the access that it was in? Stores of the caller come before: see quiesce. */
static bool still_in(struct sn_local *h, uint64_t number, uint32_t epoch, pid_t *pid)
{
    bool in = false;

    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++) {
        struct sn_sender *s = h->sender[i];

        if (s->number != number) continue;
        *pid = s->pid;
        /* Acquire: what the access wrote was written before what follows here. A dead process accesses
         * nothing: its sockets close after its last system call. */
        in = __atomic_load_n(&s->channel->epoch, __ATOMIC_ACQUIRE) == epoch && sn_meet_alive(s->fd);
    }
    pthread_mutex_unlock(&h->senders_lock);
    return in;
}

/* Takes the access back, if that can be done. Not twice. */
static bool shut(struct sn_local *h, uint64_t number, uint32_t epoch)
{
    bool done = false;

    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++)
        if (h->sender[i]->number == number) done = sn_gate_shut(h->sender[i]->channel, epoch);
    pthread_mutex_unlock(&h->senders_lock);
    return done;
}

static void note_over(struct sn_local *h, uint64_t number, uint32_t epoch)
{
    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++)
        if (h->sender[i]->number == number) h->sender[i]->over = epoch;
    pthread_mutex_unlock(&h->senders_lock);
}

static void local_access_tell(pid_t pid)
{
    fprintf(stderr,
            "gpuwire: NIC: waiting for process %d, which does not get on in the middle of a copy to or from "
            "a region or queue pair that is to go\n",
            (int)pid);
}

/*
 * Memory is given back only when no process writes to it any more. If a process stands still, for an unknown
 * time, the access is taken back. One that runs, or is inside a system call, will finish.
 */
static void local_access_wait_for(struct sn_local *h, uint64_t number, uint32_t epoch)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t since = sn_now_ns(), waited, look = STILL_NS;
    bool told = false;
    pid_t pid = 0;

    for (int i = 0; still_in(h, number, epoch, &pid); i++) {
        if (i < SPINS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
        waited = sn_now_ns() - since;
        if (waited > look) {
            look = 2 * waited < waited + PATIENCE_NS ? 2 * waited : waited + PATIENCE_NS;
            /* In this order: what a thread does that is seen stopped comes after the access was shut. */
            if (shut(h, number, epoch) && sn_process_stands_still(pid)) {
                note_over(h, number, epoch);
                return;
            }
        }
        if (!told && waited > PATIENCE_NS) local_access_tell(pid);
        told |= waited > PATIENCE_NS;
    }
}

void sn_access_quiesce(void *ctx)
{
    struct sn_local *h = ctx;
    uint64_t number[SN_LOCAL_SENDERS];
    uint32_t epoch[SN_LOCAL_SENDERS];
    unsigned n = 0;

    /*
     * Sequentially consistent, with the fence in enter: either we see that a peer has begun an access, or it
     * sees that the entry is gone. Without the fences each could read before its own store was visible.
     */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++) {
        struct sn_sender *s = h->sender[i];

        if (!s->channel) continue;
        epoch[n] = __atomic_load_n(&s->channel->epoch, __ATOMIC_ACQUIRE);
        number[n] = s->number;
        n += (epoch[n] & 1) && epoch[n] != s->over;
    }
    pthread_mutex_unlock(&h->senders_lock);
    for (unsigned i = 0; i < n; i++) local_access_wait_for(h, number[i], epoch[i]);
}
