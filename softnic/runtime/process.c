/* SPDX-License-Identifier: Apache-2.0 */
/* The process's NICs: who uses them, what a forked child has of them, and what is left when the process ends.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/cuda/cuda.h"
#include "softnic/runtime/process_state.h"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

struct sn_process_nic sn_process_table[SN_MAX_NICS];

/*
 * In the child: nothing may take a lock, because a thread that is not here may hold it. The child must not
 * touch doorbell pages, which it shares with the parent. So it lets go of the parent's NICs, also of one that
 * another thread was making, and leaves their memory alone. Then it may make NICs of its own.
 */
static void after_fork(void)
{
    for (struct sn_process_nic *p = sn_process_table; p < sn_process_table + SN_MAX_NICS; p++) {
        if (p->made && p->open_fd_count) {
            while (p->open_fd_count) close(p->open_fds[--p->open_fd_count]);
            if (sn_port_local(p->port)) sn_local_forked(sn_port_local(p->port));
        }
        memset(p, 0, sizeof(*p));
    }
    sn_cuda_forked();
    pthread_mutex_init(&process_lock, NULL);
}

static void watch_forks(void)
{
    static bool watching;

    GW_ASSERT_HELD(&process_lock);
    if (!watching) watching = pthread_atfork(NULL, NULL, after_fork) == 0;
}

int sn_process_nic_get(unsigned index, const struct sn_process_callbacks *callbacks, struct sn_nic **nic)
{
    struct sn_process_nic *p = &sn_process_table[index];
    char why[SN_CONFIG_WHY] = "";
    int err = 0;

    pthread_mutex_lock(&process_lock);
    watch_forks();
    if (!p->users) {
        p->made = true;
        err = sn_process_start(p, callbacks, why);
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
    pthread_mutex_lock(&process_lock);
    struct sn_process_nic *p = sn_process_entry(nic);
    if (p && p->users && !--p->users) {
        sn_process_stop(p);
        sn_process_set_nic(p, NULL);
        p->port = NULL;
        p->made = false;
    }
    pthread_mutex_unlock(&process_lock);
}

int sn_process_nic_info(unsigned index, struct sn_process_info *info)
{
    struct sn_process_nic *p = &sn_process_table[index];
    int err = -ENODEV;

    pthread_mutex_lock(&process_lock);
    if (p->users) {
        info->config = p->config;
        info->slot = sn_port_slot(p->port);
        info->has_port = sn_port_has_rocev2(p->port);
        snprintf(info->note, sizeof(info->note), "%s", sn_port_note(p->port));
        sn_nic_lock(p->nic);
        sn_port_local_text(p->port, info->local, sizeof(info->local));
        sn_nic_unlock(p->nic);
        sn_port_stats(p->port, &info->wire);
        sn_nic_counters(p->nic, &info->nic);
        err = 0;
    }
    pthread_mutex_unlock(&process_lock);
    return err;
}

static bool any_thread(void)
{
    for (int i = 0; i < SN_MAX_NICS; i++)
        if (sn_process_thread(&sn_process_table[i])) return true;
    return false;
}

/*
 * The program ends, or the library is unloaded, with the NIC in use. The thread must be gone before its code
 * and data are; the rest is the system's. Other threads may still run and hold the lock: then the thread is
 * only told to stop.
 */
__attribute__((destructor)) static void process_at_exit(void)
{
    const struct timespec step = {.tv_nsec = 1000000};

    if (!any_thread()) return;
    for (int ms = 0; pthread_mutex_trylock(&process_lock); ms++) {
        if (ms == SN_EXIT_MS) return;
        nanosleep(&step, NULL);
    }
    for (int i = 0; i < SN_MAX_NICS; i++) sn_process_end(&sn_process_table[i]);
    pthread_mutex_unlock(&process_lock);
}
