/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/fake_nic.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "softnic/nic/introspect.h"

struct fake_nic fake = {.next = SN_NEVER};

#define GET(x)    __atomic_load_n(&fake.x, __ATOMIC_SEQ_CST)
#define SET(x, v) __atomic_store_n(&fake.x, v, __ATOMIC_SEQ_CST)
#define ADD(x, v) __atomic_fetch_add(&fake.x, v, __ATOMIC_SEQ_CST)

uint64_t fake_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int sn_nic_create(const struct sn_nic_config *config, struct sn_nic **nic)
{
    fake.config = *config;
    ADD(alive, 1);
    *nic = (struct sn_nic *)&fake;
    return 0;
}

int sn_nic_destroy(struct sn_nic *nic)
{
    (void)nic;
    ADD(alive, -1u);
    return 0;
}

uint64_t sn_nic_posted(struct sn_nic *nic, uint64_t now)
{
    return sn_nic_progress(nic, now);
}

/* One at a time, as in a real one. */
static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER;

uint64_t sn_nic_progress(struct sn_nic *nic, uint64_t now)
{
    struct sn_frame frames[16];
    static _Thread_local char name[16];
    bool more = true;
    int n;

    (void)nic;
    if (!name[0]) pthread_getname_np(pthread_self(), name, sizeof(name));
    if (strcmp(name, "gw-nic") == 0) {
        ADD(looks_thread, 1);
    } else {
        ADD(looks_others, 1);
    }
    if (GET(contended) || pthread_mutex_trylock(&inside)) return SN_CONTENDED;
    if (__atomic_exchange_n(&fake.rung, 0, __ATOMIC_SEQ_CST)) {
        SET(taken_at, now);
        ADD(activity, 1);
    }
    while (more) {
        n = fake.config.wire->recv(fake.config.wire_ctx, frames, 16, &more);
        ADD(frames, (unsigned)n);
        ADD(activity, (unsigned)n);
    }
    uint64_t next = GET(next);
    if (next <= now) { /* the timer has run */
        next = SN_NEVER;
        SET(next, SN_NEVER);
    }
    pthread_mutex_unlock(&inside);
    if (GET(in_look) && strcmp(name, "gw-nic") == 0)
        __atomic_exchange_n(&fake.in_look, NULL, __ATOMIC_SEQ_CST)();
    return next;
}

void sn_nic_lock(struct sn_nic *nic)
{
    (void)nic;
    pthread_mutex_lock(&inside);
}

bool sn_nic_trylock(struct sn_nic *nic)
{
    (void)nic;
    return pthread_mutex_trylock(&inside) == 0;
}

unsigned sn_nic_ringable(const struct sn_nic *nic)
{
    (void)nic;
    return GET(ringable);
}

uint64_t sn_nic_activity(const struct sn_nic *nic)
{
    (void)nic;
    return GET(activity);
}

void sn_nic_counters(const struct sn_nic *nic, struct sn_counters *out)
{
    (void)nic;
    memset(out, 0, sizeof(*out));
}

/* ---- nothing to be seen in it -------------------------------------------------------------------------- */

void sn_nic_unlock(struct sn_nic *nic)
{
    (void)nic;
    pthread_mutex_unlock(&inside);
}

int sn_introspect_lock(struct sn_nic *nic, uint64_t wait_ns)
{
    (void)nic;
    (void)wait_ns;
    pthread_mutex_lock(&inside);
    return 0;
}

int sn_introspect_qps(struct sn_nic *nic, uint32_t *cursor, struct sn_qp_view *out, int max, uint64_t wait_ns)
{
    (void)nic, (void)cursor, (void)out, (void)max, (void)wait_ns;
    return 0;
}

int sn_introspect_cqs(struct sn_nic *nic, uint32_t *cursor, struct sn_cq_view *out, int max, uint64_t wait_ns)
{
    (void)nic, (void)cursor, (void)out, (void)max, (void)wait_ns;
    return 0;
}

int sn_introspect_totals(struct sn_nic *nic, struct sn_totals *out, uint64_t wait_ns)
{
    (void)nic, (void)wait_ns;
    memset(out, 0, sizeof(*out));
    return 0;
}

const char *sn_qp_state_text(enum ibv_qp_state state)
{
    (void)state;
    return "?";
}

const char *sn_qp_type_text(enum ibv_qp_type type)
{
    (void)type;
    return "?";
}

bool sn_nic_deaf(const struct sn_nic *nic)
{
    (void)nic;
    return false;
}

void sn_nic_fail(struct sn_nic *nic)
{
    (void)nic;
}
