/* SPDX-License-Identifier: Apache-2.0 */
/* One thread's loop: descriptors by epoll, a heap of timers, and calls from other threads. */
#include "src/fleet/wire/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/fleet/wire/timer.h"

#define SECOND INT64_C(1000000000)
enum { AT_ONCE = 256 }; /* events of one turn */

struct fleet_watch {
    struct fleet_member member;
    struct fleet_errand errand; /* frees it */
    int fd;
    void (*f)(void *ctx); /* NULL: dropped */
    void *ctx;
};

struct loop_call {
    struct loop_call *next;
    void (*f)(void *ctx);
    void *ctx;
};

struct fleet_loop {
    int epoll, wake, alarm;
    int64_t now, armed; /* armed: what the alarm is set to; 0: to nothing */
    bool stopped;
    struct fleet_timers timers;
    struct fleet_errand *first_errand, **last_errand;
    struct fleet_member members; /* the head of a ring */
    struct fleet_scratch_room scratch;
    pthread_mutex_t lock; /* of the calls */
    struct loop_call *first_call, **last_call;
};

int64_t fleet_clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

int64_t fleet_loop_now(const struct fleet_loop *l)
{
    return l->now;
}

struct fleet_scratch_room *fleet_loop_scratch(struct fleet_loop *l)
{
    return &l->scratch;
}

/* ---- errands and members */

void fleet_errand_queue(struct fleet_loop *l, struct fleet_errand *e)
{
    if (e->queued) return;
    e->queued = true;
    e->next = NULL;
    *l->last_errand = e;
    l->last_errand = &e->next;
}

static void loop_run_errands(struct fleet_loop *l)
{
    for (struct fleet_errand *e; (e = l->first_errand);) {
        l->first_errand = e->next;
        if (!l->first_errand) l->last_errand = &l->first_errand;
        e->queued = false;
        e->f(e);
    }
}

void fleet_member_add(struct fleet_loop *l, struct fleet_member *m)
{
    m->prev = l->members.prev;
    m->next = &l->members;
    m->prev->next = m->next->prev = m;
}

void fleet_member_remove(struct fleet_member *m)
{
    m->prev->next = m->next;
    m->next->prev = m->prev;
}

/* ---- timers */

int fleet_timer_set(struct fleet_loop *l, struct fleet_timer *t, int64_t at, void (*f)(void *ctx), void *ctx)
{
    t->f = f;
    t->ctx = ctx;
    return fleet_timers_put(&l->timers, t, at);
}

void fleet_timer_clear(struct fleet_loop *l, struct fleet_timer *t)
{
    fleet_timers_take(&l->timers, t);
}

/* A timer that sets itself to now again fires in the next turn, so that descriptors have theirs. */
static void loop_run_timers(struct fleet_loop *l)
{
    for (uint32_t most = l->timers.n; most && l->timers.n && l->timers.heap[0]->at <= l->now; most--) {
        struct fleet_timer *t = l->timers.heap[0];
        fleet_timers_take(&l->timers, t);
        t->f(t->ctx);
    }
}

static void loop_set_alarm(struct fleet_loop *l, int64_t at)
{
    struct itimerspec when = {.it_value = {at / SECOND, at % SECOND}};
    if (l->armed == at || at == INT64_MAX) return;
    timerfd_settime(l->alarm, TFD_TIMER_ABSTIME, &when, NULL);
    l->armed = at;
}

static void loop_alarm(void *arg)
{
    struct fleet_loop *l = arg;
    uint64_t times;
    if (read(l->alarm, &times, sizeof(times)) > 0) l->armed = 0;
}

/* ---- descriptors */

static void watch_free(struct fleet_errand *e)
{
    struct fleet_watch *w = (void *)((char *)e - offsetof(struct fleet_watch, errand));
    fleet_member_remove(&w->member);
    free(w);
}

static void watch_destroy(struct fleet_member *m)
{
    free((void *)((char *)m - offsetof(struct fleet_watch, member)));
}

int fleet_watch_add(struct fleet_loop *l, int fd, void (*f)(void *ctx), void *ctx, struct fleet_watch **out)
{
    struct fleet_watch *w = calloc(1, sizeof(*w));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = w};
    if (!w) return gw_error(-ENOMEM, "no memory to watch a descriptor");
    *w = (struct fleet_watch){.fd = fd, .f = f, .ctx = ctx};
    w->errand.f = watch_free;
    w->member.destroy = watch_destroy;
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e)) {
        int err = errno;
        free(w);
        return gw_error_errno(-err, "epoll_ctl of descriptor %d", fd);
    }
    fleet_member_add(l, &w->member);
    *out = w;
    return 0;
}

int fleet_watch_events(struct fleet_loop *l, struct fleet_watch *w, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = w};
    return epoll_ctl(l->epoll, EPOLL_CTL_MOD, w->fd, &e) ? -errno : 0;
}

void fleet_watch_drop(struct fleet_loop *l, struct fleet_watch *w)
{
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    w->f = NULL; /* an event of this turn may still name it */
    fleet_errand_queue(l, &w->errand);
}

/* ---- calls from other threads */

int fleet_loop_call(struct fleet_loop *l, void (*f)(void *ctx), void *ctx)
{
    struct loop_call *c = malloc(sizeof(*c));
    if (!c) return gw_error(-ENOMEM, "no memory for a call");
    *c = (struct loop_call){.f = f, .ctx = ctx};
    pthread_mutex_lock(&l->lock);
    bool first = !l->first_call;
    *l->last_call = c;
    l->last_call = &c->next;
    pthread_mutex_unlock(&l->lock);
    uint64_t one = 1;
    /* It cannot fail but when 2^64 - 2 wake-ups wait, and then the loop wakes up anyway. */
    if (first && write(l->wake, &one, sizeof(one)) < 0) return 0;
    return 0;
}

static struct loop_call *loop_take_calls(struct fleet_loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct loop_call *c = l->first_call;
    l->first_call = NULL;
    l->last_call = &l->first_call;
    pthread_mutex_unlock(&l->lock);
    return c;
}

static void loop_run_calls(void *arg)
{
    struct fleet_loop *l = arg;
    uint64_t times;
    if (read(l->wake, &times, sizeof(times)) < 0) return;
    for (struct loop_call *c = loop_take_calls(l), *next; c; c = next) {
        next = c->next;
        c->f(c->ctx);
        free(c);
    }
}

/* ---- the loop */

static int loop_wait(struct fleet_loop *l, int64_t until, struct epoll_event *e)
{
    int64_t at = l->timers.n ? l->timers.heap[0]->at : INT64_MAX;
    if (until < at) at = until;
    if (at > l->now) loop_set_alarm(l, at);
    int n = epoll_wait(l->epoll, e, AT_ONCE, at > l->now ? -1 : 0);
    l->now = fleet_clock_now();
    return n >= 0 ? n : errno == EINTR ? 0 : gw_error_errno(-errno, "epoll_wait");
}

int fleet_loop_run(struct fleet_loop *l, int64_t until_at)
{
    struct epoll_event e[AT_ONCE];
    int n = 0;
    l->now = fleet_clock_now();
    loop_run_errands(l);
    do {
        n = loop_wait(l, until_at, e);
        for (int i = 0; i < n; i++) {
            struct fleet_watch *w = e[i].data.ptr;
            if (w->f) w->f(w->ctx);
        }
        loop_run_timers(l);
        loop_run_errands(l);
    } while (n >= 0 && !l->stopped && l->now < until_at);
    l->stopped = false;
    return n < 0 ? n : 0;
}

void fleet_loop_stop(struct fleet_loop *l)
{
    l->stopped = true;
}

static int loop_open(struct fleet_loop *l)
{
    struct fleet_watch *w;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (l->epoll < 0 || l->wake < 0 || l->alarm < 0) return gw_error_errno(-errno, "descriptors of a loop");
    l->scratch.read = malloc(FLEET_SCRATCH);
    l->scratch.aligned = malloc(FLEET_SCRATCH);
    if (!l->scratch.read || !l->scratch.aligned) return gw_error(-ENOMEM, "no memory for a loop");
    int err = fleet_watch_add(l, l->wake, loop_run_calls, l, &w);
    return err ? err : fleet_watch_add(l, l->alarm, loop_alarm, l, &w);
}

int fleet_loop_create(struct fleet_loop **out)
{
    struct fleet_loop *l = calloc(1, sizeof(*l));
    if (!l) return gw_error(-ENOMEM, "no memory for a loop");
    l->members.prev = l->members.next = &l->members;
    l->last_errand = &l->first_errand;
    l->last_call = &l->first_call;
    l->now = fleet_clock_now();
    pthread_mutex_init(&l->lock, NULL);
    int err = loop_open(l);
    if (err)
        fleet_loop_destroy(l);
    else
        *out = l;
    return err;
}

void fleet_loop_destroy(struct fleet_loop *l)
{
    if (!l) return;
    /* Backwards: connections and listeners came after the watches that they use. */
    for (struct fleet_member *m; (m = l->members.prev) != &l->members;) {
        fleet_member_remove(m);
        m->destroy(m);
    }
    for (struct loop_call *c = loop_take_calls(l), *next; c; c = next) {
        next = c->next;
        free(c);
    }
    if (l->alarm > 0) close(l->alarm);
    if (l->wake > 0) close(l->wake);
    if (l->epoll > 0) close(l->epoll);
    free(l->scratch.read);
    free(l->scratch.aligned);
    free(l->timers.heap);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
