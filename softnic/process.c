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

#include "softnic/thread.h"
#include "softnic/wire/wire.h"

/* It takes less than a millisecond, on a machine that is not overloaded. */
enum { STOP_MS = 1000, EXIT_MS = 300 };
enum { VAIN_POLLS = 32, VAIN_STEP = 8 };
/* Bytes under way per queue pair; WINDOW_PACKET: what a small packet takes of a buffer, about. */
enum { PEERS_AT_ONCE = 8, WINDOW_MIN = 128 << 10, WINDOW_MAX = 512 << 10, WINDOW_PACKET = 2048 };

static struct {
    pthread_mutex_t lock;
    unsigned users;
    struct sn_config config;
    struct sn_nic *nic;
    struct sn_wire *wire;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Read without the lock, by threads that hold a reference and so keep it alive. */
static struct sn_thread *the_thread;

/* What a forked child closes: its copies would keep the parent's slot taken after the parent's death. */
enum { OPEN_FDS = 8 };
static int open_fds[OPEN_FDS], open_fd_count;
static int in_child; /* this process is a forked child of one that had a NIC */

static struct sn_thread *thread_now(void)
{
    /* Acquire pairs with the release in set_thread: the struct is seen as it was made. */
    return __atomic_load_n(&the_thread, __ATOMIC_ACQUIRE);
}

static void set_thread(struct sn_thread *thread)
{
    __atomic_store_n(&the_thread, thread, __ATOMIC_RELEASE);
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
    if (!open_fd_count) return;
    while (open_fd_count) close(open_fds[--open_fd_count]);
    in_child = 1;
}

static void watch_forks(void)
{
    static bool watching; /* under the process's lock */

    if (!watching) watching = pthread_atfork(NULL, NULL, after_fork) == 0;
}

static void note_fds(void)
{
    int fds[2], n = sn_wire_fds(process.wire, fds), count = 0;

    for (int i = 0; i < n; i++) open_fds[count++] = fds[i];
    open_fds[count++] = sn_thread_fd(the_thread);
    if (sn_wire_pcap(process.wire)) {
        sn_pcap_fds(sn_wire_pcap(process.wire), open_fds + count);
        count += 2;
    }
    open_fd_count = count;
}

/* ---- configuration
 * -------------------------------------------------------------------------------------------------- */

int sn_process_config(struct sn_config *config, char why[SN_CONFIG_WHY])
{
    int err = sn_config_parse(getenv("GPUWIRE_NIC"), config, why);

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

/* ---- making and destroying: under the process's lock
 * ------------------------------------------------------------------ */

static void report(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "gpuwire: NIC: %s\n", line);
}

/*
 * What a queue pair may have under way: a peer's buffer, taken to be like ours, should hold that of several
 * at once, and what is more is lost. But a peer on another core takes its time to wake up, and more under way
 * than it takes in one go costs nothing.
 */
static void set_window(struct sn_nic_config *config)
{
    uint32_t bytes = sn_wire_room(process.wire) / PEERS_AT_ONCE;

    if (bytes < WINDOW_MIN) bytes = WINDOW_MIN;
    if (bytes > WINDOW_MAX) bytes = WINDOW_MAX;
    config->window_bytes = bytes;
    config->window_packets = bytes / WINDOW_PACKET;
}

static int make_nic(const struct sn_process_callbacks *cb, char *why)
{
    const struct sn_config *c = &process.config;
    struct sn_nic_config config = {
        .slot = (uint8_t)sn_wire_slot(process.wire),
        .sport = sn_wire_port(process.wire),
        .seed = c->seed,
        .hostile = c->hostile,
        .ecn = !c->no_ecn,
        .max_mtu = c->mtu,
        /* What is to be seen or disturbed must be there: frames to the NIC itself take the wire too. */
        .loop_on_wire = c->pcap[0] || sn_faults_any(&c->fault),
        .wire = &sn_wire_ops,
        .wire_ctx = process.wire,
        .user = cb->user,
        .cq_event = cb->cq_event,
        .async_event = cb->async_event,
        .mad = cb->mad,
        .report = report,
    };
    int err;

    memcpy(config.gid, c->addr.gid, 16);
    set_window(&config);
    err = sn_nic_create(&config, &process.nic);
    if (err) snprintf(why, 256, "cannot make a NIC: %s", strerror(-err));
    return err;
}

static int start(const struct sn_process_callbacks *cb, char *why)
{
    struct sn_thread *thread;
    int err = sn_process_config(&process.config, why);

    if (!err) err = sn_wire_open(&process.config, &process.wire, why);
    if (err) return err;
    err = make_nic(cb, why);
    if (!err) {
        err =
            sn_thread_start(process.nic, process.wire, process.config.poll, process.config.cpu, &thread, why);
        if (err) sn_nic_destroy(process.nic);
    }
    if (err) {
        sn_wire_close(process.wire);
        return err;
    }
    set_thread(thread);
    watch_forks();
    note_fds();
    return 0;
}

static void stop(void)
{
    struct sn_thread *thread = thread_now();

    open_fd_count = 0;
    set_thread(NULL);
    /* A thread that did not end in time is inside the NIC: then the process rather leaks than crashes. */
    if (thread && sn_thread_stop(thread, STOP_MS)) {
        fprintf(stderr, "gpuwire: the NIC's thread did not end within %d ms; its memory is left behind\n",
                STOP_MS);
        return;
    }
    if (thread) sn_thread_free(thread);
    if (sn_nic_destroy(process.nic)) {
        fprintf(stderr, "gpuwire: the NIC still has queues or regions; its memory is left behind\n");
        return;
    }
    sn_wire_close(process.wire);
}

/* ---- references
 * ------------------------------------------------------------------------------------------------------- */

int sn_process_nic_get(const struct sn_process_callbacks *callbacks, struct sn_nic **nic)
{
    char why[SN_CONFIG_WHY] = "";
    int err = 0;

    if (forked()) {
        fprintf(stderr,
                "gpuwire: a forked child has no NIC; exec a program of its own, or fork before opening it\n");
        return -EPERM;
    }
    pthread_mutex_lock(&process.lock);
    if (!process.users) err = start(callbacks, why);
    if (!err) {
        process.users++;
        *nic = process.nic;
    }
    pthread_mutex_unlock(&process.lock);
    if (err) fprintf(stderr, "gpuwire: %s\n", why);
    return err;
}

void sn_process_nic_put(struct sn_nic *nic)
{
    if (forked()) return;
    pthread_mutex_lock(&process.lock);
    if (nic == process.nic && process.users && !--process.users) {
        stop();
        process.nic = NULL;
        process.wire = NULL;
    }
    pthread_mutex_unlock(&process.lock);
}

/*
 * A thread that polls in vain keeps a CPU from the peer it waits for, if that is on the same host and CPUs
 * are few. So it gives the CPU up now and then. Where nobody wants it that costs a fraction of a poll.
 */
static void polled(bool in_vain)
{
    static _Thread_local unsigned times;

    times = in_vain ? times + 1 : 0;
    if (times >= VAIN_POLLS && times % VAIN_STEP == 0) sched_yield();
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* More to do than one call does, and this caller may not come again. */
static uint64_t leave(struct sn_thread *thread, uint64_t now, uint64_t next)
{
    if (next != SN_CONTENDED && next <= now && thread) sn_thread_work_left(thread);
    return next;
}

uint64_t sn_process_nic_posted(struct sn_nic *nic)
{
    if (forked()) return SN_NEVER;
    uint64_t now = now_ns();
    return leave(thread_now(), now, sn_nic_posted(nic, now));
}

uint64_t sn_process_nic_drive(struct sn_nic *nic)
{
    struct sn_thread *thread;

    if (forked()) return SN_NEVER;
    thread = thread_now();
    if (thread) sn_thread_driven(thread);
    uint64_t now = now_ns(), before = sn_nic_activity(nic), next = sn_nic_progress(nic, now);
    polled(before == sn_nic_activity(nic));
    return leave(thread, now, next);
}

void sn_process_nic_kick(void)
{
    struct sn_thread *thread = forked() ? NULL : thread_now();

    if (thread) sn_thread_kick(thread);
}

int sn_process_nic_info(struct sn_process_info *info)
{
    int err = -ENODEV;

    if (forked()) return err;
    pthread_mutex_lock(&process.lock);
    if (process.users) {
        info->config = process.config;
        info->slot = sn_wire_slot(process.wire);
        snprintf(info->note, sizeof(info->note), "%s", sn_wire_note(process.wire));
        sn_wire_stats(process.wire, &info->wire);
        sn_nic_counters(process.nic, &info->nic);
        err = 0;
    }
    pthread_mutex_unlock(&process.lock);
    return err;
}

/*
 * The program ends, or the library is unloaded, with the NIC in use. The thread must be gone before its code
 * and data are; the rest is the system's. Other threads may still run and hold the lock: then the thread is
 * only told to stop.
 */
static struct sn_thread *volatile left_at_exit; /* for leak checkers: still in use */

__attribute__((destructor)) static void at_exit(void)
{
    const struct timespec step = {.tv_nsec = 1000000};
    struct sn_thread *thread;

    if (forked() || !thread_now()) return;
    for (int ms = 0; pthread_mutex_trylock(&process.lock); ms++) {
        if (ms == EXIT_MS) return;
        nanosleep(&step, NULL);
    }
    thread = thread_now();
    set_thread(NULL);
    if (thread) sn_thread_stop(thread, EXIT_MS);
    if (process.users && sn_wire_pcap(process.wire)) sn_pcap_flush(sn_wire_pcap(process.wire), EXIT_MS);
    left_at_exit = thread; /* not freed: others may be about to use it */
    pthread_mutex_unlock(&process.lock);
}
