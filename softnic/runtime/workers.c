/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that receive packets and check them beside the engine. */
#include "softnic/runtime/workers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "softnic/port/port.h"
#include "softnic/runtime/thread_state.h"

/* When all room is taken by what the engine has not looked at yet. */
#define FULL_NS 20000u
/* For those that were started before one could not be. */
enum { GIVE_UP_MS = 1000 };

struct sn_workers {
    struct sn_nic *nic;
    struct sn_port *port;
    struct sn_thread *thread;
    int stop_fd;
    int stop;              /* atomic */
    pthread_mutex_t watch; /* who has it waits for packets; the others for it: so a packet wakes one */
    unsigned count;
    pthread_t id[SN_MAX_THREADS];
};

static bool workers_stopping(const struct sn_workers *w)
{
    return __atomic_load_n(&w->stop, __ATOMIC_RELAXED);
}

/* The eventfd is never read: from the stop on it wakes everybody. */
static void workers_wait_for_packets(struct sn_workers *w)
{
    struct pollfd p[1 + SN_PORT_FDS] = {{.fd = w->stop_fd, .events = POLLIN}};
    int fds[SN_PORT_FDS], n = sn_port_sockets(w->port, fds);

    for (int i = 0; i < n; i++) p[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    pthread_mutex_lock(&w->watch);
    if (!workers_stopping(w)) poll(p, (nfds_t)(1 + n), -1);
    pthread_mutex_unlock(&w->watch);
}

static void drive(struct sn_workers *w)
{
    uint64_t now = sn_now_ns(), next = sn_nic_progress(w->nic, now);

    if (next != SN_CONTENDED && next <= now) sn_thread_work_left(w->thread);
}

static void *workers_main(void *arg)
{
    struct sn_workers *w = arg;
    const struct timespec pause = {.tv_nsec = FULL_NS};
    int got;

    prctl(PR_SET_NAME, "gw-nic-rx");
    sn_port_ask(SN_ASK_NEVER); /* inside the engine: the sockets are asked outside of it */
    while (!workers_stopping(w)) {
        workers_wait_for_packets(w);
        while (!workers_stopping(w) && (got = sn_port_fetch(w->port))) {
            drive(w);
            if (got < 0) nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

int sn_workers_start(struct sn_nic *nic, struct sn_port *port, struct sn_thread *thread, unsigned count,
                     struct sn_workers **workers, char why[256])
{
    struct sn_workers *w = calloc(1, sizeof(*w));
    int err = w ? 0 : -ENOMEM;

    if (!err) {
        w->nic = nic;
        w->port = port;
        w->thread = thread;
        pthread_mutex_init(&w->watch, NULL);
        w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->stop_fd < 0) err = -errno;
    }
    for (; !err && w->count < count; w->count += !err)
        err = sn_thread_create(&w->id[w->count], NULL, workers_main, w);
    if (err) {
        snprintf(why, 256, "cannot start the NIC's threads: %s", strerror(-err));
        if (w && sn_workers_stop(w, GIVE_UP_MS) == 0) sn_workers_free(w);
        return err;
    }
    *workers = w;
    return 0;
}

int sn_workers_stop(struct sn_workers *w, int wait_ms)
{
    uint64_t one = 1;
    int err = 0;

    __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED); /* the eventfd orders it */
    if (w->stop_fd >= 0 && write(w->stop_fd, &one, sizeof(one)) < 0) err = -errno;
    while (!err && w->count) {
        err = sn_thread_join(w->id[w->count - 1], wait_ms);
        if (!err) w->count--;
    }
    return err;
}

void sn_workers_free(struct sn_workers *w)
{
    if (w->stop_fd >= 0) close(w->stop_fd);
    pthread_mutex_destroy(&w->watch);
    free(w);
}

int sn_workers_fd(const struct sn_workers *w)
{
    return w->stop_fd;
}
