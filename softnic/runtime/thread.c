/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the NIC when no application thread does, and sleeps between. */
#include "softnic/runtime/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "softnic/base/errno_text.h"
#include "softnic/nic/nic.h"
#include "softnic/port/port.h"
#include "softnic/runtime/thread_state.h"

#define SHORT_TURN_NS 100000u /* the shortest that the kernel gives */
#define PAUSE_NS      2000u
/* A sleep so long that no post, which the poster would have announced in the next moment, ended it by chance.
 */
#define LONG_NAP_NS 1000000u
/* One that follows work closely. */
#define SHORT_NAP_NS 50000u
/* Looks in busy mode between two for peers that come and go. */
enum { SERVE_EVERY = 256 };

/* ---- sleeping ------------------------------------------------------------------------------------------ */

static void drain_kick(struct sn_thread *t)
{
    uint64_t n;

    if (read(t->kick_fd, &n, sizeof(n)) < 0) return; /* a thread's kick is late: it will end the next sleep */
}

static void go_to_sleep(struct sn_thread *t, const struct plan *plan)
{
    struct timespec limit = {(time_t)(plan->ns / 1000000000u), (long)(plan->ns % 1000000000u)};
    struct sn_local *local = sn_port_local(t->port);
    struct pollfd p[1 + SN_PORT_FDS] = {{.fd = t->kick_fd, .events = POLLIN}};
    int fds[SN_PORT_FDS], n = 0;
    bool hears = plan->sleep != AWAY && !plan->deaf;

    if (hears) {
        n = sn_port_fds(t->port, fds);
        for (int i = 0; i < n; i++) p[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    /*
     * Sequentially consistent, with the accesses of sn_thread_kick: either the kicker sees that we are about
     * to sleep and writes to the eventfd, or we see its kick here. Weaker orders would let our store pass our
     * loads.
     */
    __atomic_store_n(&t->brief, plan->ns <= SN_GATHER_NS, __ATOMIC_RELAXED);
    __atomic_store_n(&t->sleep, plan->sleep, __ATOMIC_SEQ_CST);
    bool kicked = __atomic_load_n(&t->kicks, __ATOMIC_SEQ_CST) != t->kicks_seen;
    if (plan->ns > SN_GATHER_NS) kicked |= __atomic_load_n(&t->gathering, __ATOMIC_SEQ_CST);
    if (!kicked && local && hears) kicked = !sn_local_doze(local);
    sn_thread_looked(t, 0);
    if (!kicked && !__atomic_load_n(&t->stop, __ATOMIC_SEQ_CST)) {
        uint64_t since = sn_now_ns();
        int ready = ppoll(p, (nfds_t)(1 + n), plan->ns == SN_NEVER ? NULL : &limit, NULL);

        t->heard = ready > 0 && !p[0].revents;
        if (ready > 0 && p[0].revents)
            drain_kick(t);
        else if (ready > 0)
            sn_thread_woken(t, sn_now_ns() - since);
        t->overslept = ready == 0 && plan->ns >= LONG_NAP_NS;
        hears = hears && plan->sleep == WATCHING;
        t->napped = ready == 0 && plan->ns <= SHORT_NAP_NS && hears;
        if (ready == 0 && hears) sn_port_ask(SN_ASK_NEVER);
    }
    __atomic_store_n(&t->sleep, AWAKE, __ATOMIC_RELAXED);
    if (local) sn_local_wake(local);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static void meet_peers(struct sn_thread *t)
{
    const struct sn_local_guard guard = {sn_nic_lock, sn_nic_unlock, t->nic};
    struct sn_local *local = sn_port_local(t->port);

    if (local) sn_local_serve(local, &guard);
}

static void adaptive_loop(struct sn_thread *t)
{
    bool was_away = false;

    while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
        bool polls = was_away && sn_thread_still_polls(t);
        if (polls) sn_thread_relied(t);
        /* Acquire: no load of the look passes this one, so the look sees what these kicks are about. */
        t->kicks_begun = __atomic_load_n(&t->kicks, __ATOMIC_ACQUIRE);
        uint32_t drives = __atomic_load_n(&t->drives, __ATOMIC_RELAXED);
        uint64_t before = sn_nic_activity(t->nic), now = sn_now_ns(), next = sn_nic_progress(t->nic, now);
        uint64_t after = sn_nic_activity(t->nic);
        struct plan plan;

        sn_thread_looked(t, t->linger ? now : 0);

        if (was_away && !polls && !sn_thread_kicked(t) && after != before &&
            drives == __atomic_load_n(&t->drives, __ATOMIC_RELAXED))
            sn_thread_deserted(t);
        was_away = false;
        if (t->overslept && after != before) t->unannounced = true;
        t->overslept = false;
        /* Others may follow what it slept past, such as a kernel's post. */
        if (t->napped && after != before) sn_thread_woken(t, 0);
        t->napped = false;
        meet_peers(t);
        sn_port_ask(SN_ASK_ALWAYS);
        /* Others worked without us. */
        if (after != before) t->active_at = now;
        plan = sn_thread_plan(t, now, next);
        /* More may follow what this look brought. But never spin against a thread that polls, or runs beside
         * us: the less time we took, the sooner we get the next turn. */
        if (after != before && plan.sleep != AWAY && !t->distrust) continue;
        if (plan.sleep != AWAY && !t->distrust && sn_thread_linger(t)) continue;
        /* Work that is left although nothing could be done waits for others: the system takes no frames, say.
         */
        if (plan.ns < PAUSE_NS) plan.ns = PAUSE_NS;
        was_away = plan.sleep == AWAY;
        go_to_sleep(t, &plan);
    }
}

/* Threads that poll leave it to this one: two at it get each other's memory out of the caches. */
static void busy_loop(struct sn_thread *t)
{
    for (unsigned i = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED); i++) {
        uint64_t now = sn_now_ns(), next;

        if (!t->few_cpus) sn_thread_looked(t, now);
        next = sn_nic_progress(t->nic, now);
        if (i % SERVE_EVERY == 0) meet_peers(t);
        if (t->few_cpus || next == SN_CONTENDED) {
            sched_yield();
        } else {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
}

/*
 * It works for microseconds at a time, often beside a thread that spins until that work is done. It should
 * not wait for the end of that one's turn. To ask for short turns of its own is to get them soon (Linux 6.12
 * and later; others take no notice).
 */
static void ask_for_short_turns(void)
{
    struct { /* struct sched_attr, of which libc's headers know nothing yet */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
    } attr = {.size = sizeof(attr)};

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER) return;
    attr.runtime = SHORT_TURN_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *thread_main(void *arg)
{
    struct sn_thread *t = arg;

    prctl(PR_SET_NAME, "gw-nic");
    ask_for_short_turns();
    prctl(PR_SET_TIMERSLACK, 1000); /* the default, 50 µs, is more than the shortest nap */
    t->active_at = sn_now_ns();
    if (t->poll == SN_POLL_BUSY) {
        busy_loop(t);
    } else {
        adaptive_loop(t);
    }
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

/* Signals are the application's. Signals that the processor raises stay: a thread that guards an access needs
 * them delivered. */
int sn_thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*main)(void *), void *arg)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    err = pthread_create(id, attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

static int create_on_cpu(struct sn_thread *t, char *why)
{
    pthread_attr_t attr;
    cpu_set_t cpus;
    int err;

    pthread_attr_init(&attr);
    if (t->cpu >= 0) {
        CPU_ZERO(&cpus);
        CPU_SET(t->cpu, &cpus);
        pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
    }
    err = sn_thread_create(&t->id, &attr, thread_main, t);
    pthread_attr_destroy(&attr);
    if (err == -EINVAL && t->cpu >= 0) {
        snprintf(why, 256, "GPUWIRE_NIC: cpu=%d: this process may not run there", t->cpu);
    } else if (err) {
        snprintf(why, 256, "cannot start the NIC's thread: %s", strerror(-err));
    }
    return err;
}

int sn_thread_start(struct sn_nic *nic, struct sn_port *port, enum sn_poll poll, int cpu,
                    struct sn_thread **thread, char why[256])
{
    struct sn_thread *t = calloc(1, sizeof(*t));
    cpu_set_t cpus;
    int err = -ENOMEM;

    if (!t) {
        snprintf(why, 256, "out of memory");
        return err;
    }
    t->nic = nic;
    t->port = port;
    t->poll = poll;
    t->cpu = cpu;
    t->distrust_next = SN_DISTRUST_MIN;
    t->few_cpus = sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) <= 2;
    t->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->kick_fd < 0) {
        err = -errno;
        snprintf(why, 256, "cannot make an eventfd: %s", sn_errno_text(errno));
    } else {
        err = create_on_cpu(t, why);
        if (err) close(t->kick_fd);
    }
    if (err) {
        free(t);
        return err;
    }
    *thread = t;
    return 0;
}

static void thread_wake(struct sn_thread *t)
{
    uint64_t one = 1;

    if (write(t->kick_fd, &one, sizeof(one)) < 0) return; /* full: it will wake anyhow */
}

/* Looking again and again, since the calls that wait until a time are on a clock that people set. */
int sn_thread_join(pthread_t id, int wait_ms)
{
    const struct timespec step = {.tv_nsec = 200000};
    uint64_t until = sn_now_ns() + (uint64_t)wait_ms * 1000000u;

    while (pthread_tryjoin_np(id, NULL)) {
        if (sn_now_ns() >= until) return -ETIMEDOUT;
        nanosleep(&step, NULL);
    }
    return 0;
}

int sn_thread_stop(struct sn_thread *t, int wait_ms)
{
    __atomic_store_n(&t->stop, 1, __ATOMIC_SEQ_CST);
    thread_wake(t);
    return sn_thread_join(t->id, wait_ms);
}

void sn_thread_free(struct sn_thread *t)
{
    close(t->kick_fd);
    free(t);
}

void sn_thread_driven(struct sn_thread *t)
{
    /* Not an atomic add, which several polling threads would fight for: losing a count among many does no
     * harm. */
    __atomic_store_n(&t->drives, __atomic_load_n(&t->drives, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

void sn_thread_gathering(struct sn_thread *t)
{
    if (__atomic_load_n(&t->gathering, __ATOMIC_RELAXED)) return;
    /* Sequentially consistent, with go_to_sleep: either it sees this before it sleeps or we see that it
     * sleeps. */
    __atomic_store_n(&t->gathering, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&t->sleep, __ATOMIC_SEQ_CST) != AWAKE &&
        !__atomic_load_n(&t->brief, __ATOMIC_RELAXED))
        thread_wake(t);
}

void sn_thread_work_left(struct sn_thread *t)
{
    /* If it falls asleep just after this look, it is for a limited time: queue pairs exist, else there were
     * no work. */
    int sleep = __atomic_load_n(&t->sleep, __ATOMIC_SEQ_CST);

    if (sleep == WATCHING || sleep == UNLIMITED) thread_wake(t);
}

void sn_thread_kick(struct sn_thread *t)
{
    int sleep;

    __atomic_fetch_add(&t->kicks, 1, __ATOMIC_SEQ_CST); /* before the load: see go_to_sleep */
    sleep = __atomic_load_n(&t->sleep, __ATOMIC_SEQ_CST);
    if (sleep == AWAY || sleep == UNLIMITED) thread_wake(t);
}

int sn_thread_fd(const struct sn_thread *t)
{
    return t->kick_fd;
}
