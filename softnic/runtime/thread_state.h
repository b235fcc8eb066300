/* SPDX-License-Identifier: Apache-2.0 */
/* thread_state.h: what thread.c, the thread and its sleep, thread_plan.c, how long to sleep, and workers.c
 * share. */
#ifndef SOFTNIC_RUNTIME_THREAD_STATE_H
#define SOFTNIC_RUNTIME_THREAD_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/clock.h"
#include "softnic/runtime/thread.h"

enum { SN_DISTRUST_MIN = 64 };

enum sleep {
    AWAKE,
    WATCHING, /* for a limited time, packets end it */
    AWAY,     /* for a limited time, packets do not end it: another thread takes them */
    UNLIMITED /* until a packet or a kick */
};

struct sn_thread {
    struct sn_nic *nic;
    struct sn_port *port;
    enum sn_poll poll;
    int cpu, kick_fd;
    bool few_cpus;
    pthread_t id;

    /* Shared with other threads: atomic. */
    int stop;
    int sleep;          /* enum sleep */
    int brief;          /* the sleep is no longer than SN_GATHER_NS */
    int gathering;      /* posts wait for it, or for their thread to come back */
    uint64_t looked_at; /* when it last looked, if it will again at once; 0: it sleeps, or may */
    uint32_t drives;    /* by application threads */
    uint32_t kicks;

    /* The thread's own. */
    uint64_t active_at; /* when a look last brought something */
    uint32_t drives_seen;
    uint32_t kicks_begun; /* kicks, as its last look began */
    uint32_t kicks_seen;  /* those that a look has answered */
    uint64_t away_ns;     /* how long it stayed away the last time; 0: it did not */
    int credit;
    uint32_t distrust, distrust_next; /* looks for which it does not stay away */
    uint32_t relied;                  /* times in a row that it stayed away rightly */
    unsigned linger;                  /* times more that it lingers for nothing */
    bool heard;                       /* packets ended its last sleep, and it has not been inside since */
    bool overslept;                   /* its last sleep was long, and nothing ended it */
    bool napped;                      /* its last sleep was short, and nothing ended it */
    bool unannounced; /* after such a sleep there was a post: a thread posts without an announcement */
};

/* One that takes no signals of the application's. 0 or a negative errno. */
int sn_thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *), void *arg);
/* Waits for its end: 0, or -ETIMEDOUT after wait_ms. */
int sn_thread_join(pthread_t id, int wait_ms);

struct plan {
    enum sleep sleep;
    uint64_t ns; /* SN_NEVER: no limit */
    bool deaf;   /* packets do not end it: a thread that is inside takes them before it leaves */
};

/* All of them the thread's own. Has a thread said that it goes to sleep, and no look has answered it? */
bool sn_thread_kicked(const struct sn_thread *t);
/* After it stayed away: lets others run, and sees whether one of them polls. */
bool sn_thread_still_polls(struct sn_thread *t);
void sn_thread_relied(struct sn_thread *t); /* one did */
/*
 * It stayed away for a thread that polls, and then found work that no thread was about to do. Such a program
 * polls for its completions in turn with watching memory, as latency tests do.
 */
void sn_thread_deserted(struct sn_thread *t);
/* Relaxed: a hint to application threads. */
static inline void sn_thread_looked(struct sn_thread *t, uint64_t at)
{
    __atomic_store_n(&t->looked_at, at, __ATOMIC_RELAXED);
}
/* The time after which packets ended a sleep; 0: work was found at the end of a short one. */
void sn_thread_woken(struct sn_thread *t, uint64_t ns);
/*
 * Before a sleep. Where work has been coming, one piece after the other, looking on for a moment costs less
 * than sleeping and being woken. That holds for us and for the peer that would wake us. True: something came.
 */
bool sn_thread_linger(struct sn_thread *t);
/* After a look, once. next: what sn_nic_progress said. */
struct plan sn_thread_plan(struct sn_thread *t, uint64_t now, uint64_t next);

#endif
