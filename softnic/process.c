/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/process.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "softnic/control.h"
#include "softnic/thread.h"
#include "softnic/wire/wire.h"

/* It takes less than a millisecond, on a machine that is not overloaded. */
enum { STOP_MS = 1000, EXIT_MS = 300 };
enum { VAIN_NS = 20000, VAIN_STEP_NS = 20000 };
/*
 * Posts that come within 0.3 to 0.5 µs of each other: faster than any answer. From the fourth on they wait
 * until there are 32, or the thread polls, or the NIC's thread comes by; but not when it turned out that
 * executing them takes long anyhow.
 */
enum { QUICK_TICKS = 1000, ROW_BEGINS = 4, ROW_DRIVES = 32, LONG_TICKS = 1 << 16 };
/* Bytes under way per queue pair; WINDOW_PACKET: what a small packet takes of a buffer, about. */
enum { PEERS_AT_ONCE = 8, WINDOW_MIN = 128 << 10, WINDOW_MAX = 512 << 10, WINDOW_PACKET = 2048 };

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

/* The NICs, in the order of GPUWIRE_NIC; each is made by its first user. */
enum { OPEN_FDS = 8 };
static struct process_nic {
    unsigned users;
    bool made; /* or being made, or ended */
    struct sn_config config;
    struct sn_wire *wire;
    /* What a forked child closes: its copies would keep the parent's slot taken after the parent's death. */
    int open_fds[OPEN_FDS], open_fd_count;
    /* Read without the lock, by threads that hold a reference and so keep them alive. */
    struct sn_nic *nic;
    struct sn_thread *thread;
    struct sn_control *control; /* NULL: nobody can look in */
} process_nics[SN_MAX_NICS];

static int in_child; /* this process is a forked child of one that had a NIC */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct sn_thread *thread_now(const struct process_nic *p)
{
    /* Acquire pairs with the release in set_thread: the struct is seen as it was made. */
    return p ? __atomic_load_n(&p->thread, __ATOMIC_ACQUIRE) : NULL;
}

static void set_thread(struct process_nic *p, struct sn_thread *thread)
{
    __atomic_store_n(&p->thread, thread, __ATOMIC_RELEASE);
}

static void set_nic(struct process_nic *p, struct sn_nic *nic)
{
    __atomic_store_n(&p->nic, nic, __ATOMIC_RELAXED);
}

/* Whoever asks holds a reference, so the entry does not change. Nearly always it is the first. */
static struct process_nic *entry_of(const struct sn_nic *nic)
{
    for (int i = 0; i < SN_MAX_NICS; i++)
        if (__atomic_load_n(&process_nics[i].nic, __ATOMIC_RELAXED) == nic) return &process_nics[i];
    return NULL;
}

static bool forked(void)
{
    return __atomic_load_n(&in_child, __ATOMIC_RELAXED); /* set while the child had one thread */
}

/* ---- fork
 * -----------------------------------------------------------------------------------------------------------
 */

/*
 * In the child: nothing may take a lock, which a thread that is not here may hold; and the child must not
 * touch doorbell pages, which it shares with the parent. So all it does is to let go.
 */
static void after_fork(void)
{
    for (struct process_nic *p = process_nics; p < process_nics + SN_MAX_NICS; p++) {
        if (!p->made) continue;
        /* Also of one that was being made by another thread, which holds the lock and is not here. */
        in_child = 1;
        if (!p->open_fd_count) continue;
        while (p->open_fd_count) close(p->open_fds[--p->open_fd_count]);
        if (sn_wire_host(p->wire)) sn_host_forked(sn_wire_host(p->wire));
    }
}

static void watch_forks(void)
{
    static bool watching; /* under the lock */

    if (!watching) watching = pthread_atfork(NULL, NULL, after_fork) == 0;
}

static void note_fds(struct process_nic *p)
{
    int fds[SN_WIRE_FDS], n = sn_wire_fds(p->wire, fds), count = 0;

    if (sn_wire_host(p->wire)) n--; /* it closes its own, which come and go */
    for (int i = 0; i < n; i++) p->open_fds[count++] = fds[i];
    if (sn_wire_claim_fd(p->wire) >= 0) p->open_fds[count++] = sn_wire_claim_fd(p->wire);
    p->open_fds[count++] = sn_thread_fd(p->thread);
    if (sn_wire_pcap(p->wire)) {
        sn_pcap_fds(sn_wire_pcap(p->wire), p->open_fds + count);
        count += 2;
    }
    if (p->control) p->open_fds[count++] = sn_control_fd(p->control);
    p->open_fd_count = count;
}

/* ---- configuration
 * -------------------------------------------------------------------------------------------------- */

int sn_process_nics(char why[SN_CONFIG_WHY])
{
    return sn_config_count(getenv("GPUWIRE_NIC"), why);
}

int sn_process_config(unsigned index, struct sn_config *config, char why[SN_CONFIG_WHY])
{
    int err = sn_config_nth(getenv("GPUWIRE_NIC"), index, config, why);

    if (err) return err;
    if (!config->has_addr) sn_addr_default(&config->addr);
    if (!config->mtu)
        config->mtu = config->eth.on ? sn_eth_path_mtu(&config->eth) : sn_addr_path_mtu(&config->addr);
    if (!config->has_seed && getrandom(&config->seed, sizeof(config->seed), 0) != sizeof(config->seed)) {
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts);
        config->seed = (uint64_t)ts.tv_nsec << 32 ^ (uint64_t)ts.tv_sec ^ (uint64_t)getpid();
    }
    return 0;
}

/* ---- making and destroying: under the lock
 * ------------------------------------------------------------------ */

static void report(void *user, const char *line)
{
    const struct process_nic *p = user;
    char text[SN_ADDR_TEXT];

    fprintf(stderr, "gpuwire: NIC %s (process %d): %s\n", sn_addr_text(&p->config.addr, text), (int)getpid(),
            line);
}

/*
 * What a queue pair may have under way: a peer's buffer, taken to be like ours, should hold that of several
 * at once, and what is more is lost. But a peer on another core takes its time to wake up, and more under way
 * than it takes in one go costs nothing.
 */
static void set_window(const struct process_nic *p, struct sn_nic_config *config)
{
    uint32_t bytes = sn_wire_room(p->wire) / PEERS_AT_ONCE;

    if (bytes < WINDOW_MIN) bytes = WINDOW_MIN;
    if (bytes > WINDOW_MAX) bytes = WINDOW_MAX;
    config->window_bytes = bytes;
    config->window_packets = bytes / WINDOW_PACKET;
}

static int make_nic(struct process_nic *p, const struct sn_process_callbacks *cb, char *why)
{
    const struct sn_config *c = &p->config;
    struct sn_nic_config config = {
        .slot = (uint8_t)sn_wire_slot(p->wire),
        .sport = sn_wire_port(p->wire),
        .seed = c->seed,
        .hostile = c->hostile,
        .ecn = !c->no_ecn,
        .max_mtu = c->mtu,
        /* What is to be seen or disturbed must be there: frames to the NIC itself take the wire too. */
        .loop_on_wire = !c->eth.on && (c->pcap[0] || c->fault.given),
        .wire = &sn_wire_ops,
        .wire_ctx = p->wire,
        .peers = sn_wire_host(p->wire) ? &sn_host_peer_ops : NULL,
        .peers_ctx = sn_wire_host(p->wire),
        .user = cb->user,
        .cq_event = cb->cq_event,
        .async_event = cb->async_event,
        .mad = cb->mad,
        .report = c->verbose ? report : NULL,
        .report_all = c->verbose > 1,
        .report_user = p,
    };
    struct sn_nic *nic;
    int err;

    memcpy(config.gid, c->addr.gid, 16);
    set_window(p, &config);
    err = sn_nic_create(&config, &nic);
    if (!err) set_nic(p, nic);
    if (err) snprintf(why, 256, "cannot make a NIC: %s", strerror(-err));
    return err;
}

static void start_control(struct process_nic *p, struct sn_thread *thread)
{
    const char *settings = getenv("GPUWIRE_NIC");
    struct sn_control_parts parts = {p->nic, p->wire, &p->config, thread, now_ns(), settings ? settings : ""};

    p->control = NULL;
    if (sn_control_start(&parts, &p->control))
        fprintf(stderr, "gpuwire: no socket for `gpuwire nic`: it will not show this process\n");
}

static void stop_control(struct process_nic *p)
{
    sn_control_stop(p->control);
    p->control = NULL;
}

static int start(struct process_nic *p, const struct sn_process_callbacks *cb, char *why)
{
    struct sn_thread *thread;
    int err = sn_process_config((unsigned)(p - process_nics), &p->config, why);

    if (!err) err = sn_wire_open(&p->config, &p->wire, why);
    if (err) return err;
    sn_wire_on_refused(p->wire, cb->refused);
    err = make_nic(p, cb, why);
    if (!err) {
        err = sn_thread_start(p->nic, p->wire, p->config.poll, p->config.cpu, &thread, why);
        if (err) sn_nic_destroy(p->nic);
    }
    if (err) {
        set_nic(p, NULL);
        sn_wire_close(p->wire);
        return err;
    }
    set_thread(p, thread);
    start_control(p, thread);
    note_fds(p);
    return 0;
}

static void stop(struct process_nic *p)
{
    struct sn_thread *thread = thread_now(p);

    p->open_fd_count = 0;
    stop_control(p);
    set_thread(p, NULL);
    /* A thread that did not end in time is inside the NIC: then the process rather leaks than crashes. */
    if (thread && sn_thread_stop(thread, STOP_MS)) {
        fprintf(stderr, "gpuwire: the NIC's thread did not end within %d ms; its memory is left behind\n",
                STOP_MS);
        return;
    }
    if (thread) sn_thread_free(thread);
    if (sn_nic_destroy(p->nic)) {
        fprintf(stderr, "gpuwire: the NIC still has queues or regions; its memory is left behind\n");
        return;
    }
    sn_wire_close(p->wire);
}

/* ---- references
 * ------------------------------------------------------------------------------------------------------- */

int sn_process_nic_get(unsigned index, const struct sn_process_callbacks *callbacks, struct sn_nic **nic)
{
    struct process_nic *p = &process_nics[index];
    char why[SN_CONFIG_WHY] = "";
    int err = 0;

    if (forked()) {
        fprintf(stderr,
                "gpuwire: a forked child has no NIC; exec a program of its own, or fork before opening it\n");
        return -EPERM;
    }
    pthread_mutex_lock(&process_lock);
    watch_forks();
    if (!p->users) {
        p->made = true;
        err = start(p, callbacks, why);
        p->made = !err;
    }
    if (!err) {
        p->users++;
        *nic = p->nic;
    }
    pthread_mutex_unlock(&process_lock);
    if (err) fprintf(stderr, "gpuwire: %s\n", why);
    return err;
}

void sn_process_nic_put(struct sn_nic *nic)
{
    if (forked()) return;
    pthread_mutex_lock(&process_lock);
    struct process_nic *p = entry_of(nic);
    if (p && p->users && !--p->users) {
        stop(p);
        set_nic(p, NULL);
        p->wire = NULL;
        p->made = false;
    }
    pthread_mutex_unlock(&process_lock);
}

/*
 * A thread that polls in vain keeps a CPU from the peer it waits for, if that is on the same host and CPUs
 * are few. So it gives the CPU up now and then; but not before a peer that runs would have answered: to be
 * let in again may take many milliseconds where others want the CPU too.
 */
static void polled(bool in_vain, uint64_t now)
{
    static _Thread_local uint64_t yield_at; /* 0: not in vain until now */

    if (!in_vain) {
        yield_at = 0;
    } else if (!yield_at) {
        yield_at = now + VAIN_NS;
    } else if (now >= yield_at) {
        sched_yield();
        yield_at = now_ns() + VAIN_STEP_NS;
    }
}

/* Time in units of about a third of a nanosecond, as cheap as can be. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return now_ns() * 3;
#endif
}

/* More to do than one call does, and this caller may not come again. */
static uint64_t leave(struct sn_thread *thread, uint64_t now, uint64_t next)
{
    if (next != SN_CONTENDED && next <= now && thread) sn_thread_work_left(thread);
    return next;
}

uint64_t sn_process_nic_posted(struct sn_nic *nic)
{
    static _Thread_local struct {
        uint64_t last;
        unsigned row; /* posts in a row, one right behind the other */
    } posts __attribute__((tls_model("initial-exec")));
    struct sn_thread *thread = forked() ? NULL : thread_now(entry_of(nic));
    uint64_t start = ticks(), now, next;

    if (!thread) return SN_NEVER;
    posts.row = start - posts.last < QUICK_TICKS ? posts.row + 1 : 0;
    posts.last = start;
    if (posts.row >= ROW_BEGINS && posts.row % ROW_DRIVES) {
        sn_thread_gathering(thread);
        return SN_NEVER;
    }
    now = now_ns();
    next = leave(thread, now, sn_nic_posted(nic, now));
    posts.last = ticks();
    if (posts.last - start > LONG_TICKS) posts.row = 0;
    return next;
}

uint64_t sn_process_nic_drive(struct sn_nic *nic)
{
    struct sn_thread *thread;

    if (forked()) return SN_NEVER;
    thread = thread_now(entry_of(nic));
    if (thread) sn_thread_driven(thread);
    uint64_t now = now_ns(), before = sn_nic_activity(nic), next = sn_nic_progress(nic, now);
    polled(before == sn_nic_activity(nic), now);
    return leave(thread, now, next);
}

void sn_process_nic_kick(struct sn_nic *nic)
{
    struct sn_thread *thread = forked() ? NULL : thread_now(entry_of(nic));

    if (thread) sn_thread_kick(thread);
}

int sn_process_nic_info(unsigned index, struct sn_process_info *info)
{
    struct process_nic *p = &process_nics[index];
    int err = -ENODEV;

    if (forked()) return err;
    pthread_mutex_lock(&process_lock);
    if (p->users) {
        info->config = p->config;
        info->slot = sn_wire_slot(p->wire);
        snprintf(info->note, sizeof(info->note), "%s", sn_wire_note(p->wire));
        sn_nic_lock(p->nic);
        sn_wire_local_text(p->wire, info->local, sizeof(info->local));
        sn_nic_unlock(p->nic);
        sn_wire_stats(p->wire, &info->wire);
        sn_nic_counters(p->nic, &info->nic);
        err = 0;
    }
    pthread_mutex_unlock(&process_lock);
    return err;
}

/*
 * The program ends, or the library is unloaded, with the NIC in use. The thread must be gone before its code
 * and data are; the rest is the system's. Other threads may still run and hold the lock: then the thread is
 * only told to stop.
 */
static struct sn_thread *volatile left_at_exit[SN_MAX_NICS]; /* for leak checkers: still in use */

static void end_one(struct process_nic *p)
{
    struct sn_thread *thread = thread_now(p);

    set_thread(p, NULL);
    stop_control(p);
    if (thread) sn_thread_stop(thread, EXIT_MS);
    if (p->users && sn_wire_pcap(p->wire)) sn_pcap_flush(sn_wire_pcap(p->wire), EXIT_MS);
    left_at_exit[p - process_nics] = thread; /* not freed: others may be about to use it */
}

static bool any_thread(void)
{
    for (int i = 0; i < SN_MAX_NICS; i++)
        if (thread_now(&process_nics[i])) return true;
    return false;
}

__attribute__((destructor)) static void at_exit(void)
{
    const struct timespec step = {.tv_nsec = 1000000};

    if (forked() || !any_thread()) return;
    for (int ms = 0; pthread_mutex_trylock(&process_lock); ms++) {
        if (ms == EXIT_MS) return;
        nanosleep(&step, NULL);
    }
    for (int i = 0; i < SN_MAX_NICS; i++) end_one(&process_nics[i]);
    pthread_mutex_unlock(&process_lock);
}
