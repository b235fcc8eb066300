/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_state.h: the state that three files share. The NICs of a process and their users are in process.c.
 * A NIC comes and goes in process_make.c. Application threads work for it in process_drive.c.
 */
#ifndef SOFTNIC_RUNTIME_PROCESS_STATE_H
#define SOFTNIC_RUNTIME_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "softnic/base/clock.h"
#include "softnic/port/port.h"
#include "softnic/runtime/control.h"
#include "softnic/runtime/process.h"
#include "softnic/runtime/thread.h"
#include "softnic/runtime/workers.h"

enum { SN_OPEN_FDS = 12, SN_EXIT_MS = 300 }; /* how long the end of a process waits for one thing */

struct sn_process_nic {
    unsigned users;
    bool made; /* or being made, or ended */
    struct sn_config config;
    struct sn_port *port;
    /* A forked child closes these: its copies would keep the parent's slot taken after the parent's death. */
    int open_fds[SN_OPEN_FDS], open_fd_count;
    /* Read without the lock, by threads that hold a reference and so keep them alive. */
    struct sn_nic *nic;
    struct sn_thread *thread;
    struct sn_workers *workers; /* NULL: GPUWIRE_NIC asks for one thread */
    struct sn_control *control; /* NULL: `gpuwire nic` does not see it */
};

/* process.c: the NICs, in the order of GPUWIRE_NIC; each is made by its first user. Under the process's lock
 * but for nic and thread. */
extern struct sn_process_nic sn_process_table[SN_MAX_NICS];

static inline struct sn_thread *sn_process_thread(const struct sn_process_nic *p)
{
    /* Acquire pairs with the release in sn_process_set_thread: the struct is seen as it was made. */
    return __atomic_load_n(&p->thread, __ATOMIC_ACQUIRE);
}

static inline void sn_process_set_thread(struct sn_process_nic *p, struct sn_thread *thread)
{
    __atomic_store_n(&p->thread, thread, __ATOMIC_RELEASE);
}

static inline void sn_process_set_nic(struct sn_process_nic *p, struct sn_nic *nic)
{
    __atomic_store_n(&p->nic, nic, __ATOMIC_RELAXED);
}

/* The caller holds a reference, so the entry does not change. Nearly always it is the first. NULL: in a
 * forked child, of a NIC of its parent. */
static inline struct sn_process_nic *sn_process_entry(const struct sn_nic *nic)
{
    for (int i = 0; i < SN_MAX_NICS; i++)
        if (__atomic_load_n(&sn_process_table[i].nic, __ATOMIC_RELAXED) == nic) return &sn_process_table[i];
    return NULL;
}

/* The thread of that NIC. NULL: it has no entry, or no thread. */
static inline struct sn_thread *sn_process_thread_of(const struct sn_nic *nic)
{
    const struct sn_process_nic *p = sn_process_entry(nic);

    return p ? sn_process_thread(p) : NULL;
}

/*
 * process_make.c, under the process's lock. start: 0, or a negative errno with one line in why. stop: the
 * last user is gone. end: the process ends, with the NIC in use; users may be about to call it.
 */
int sn_process_start(struct sn_process_nic *p, const struct sn_process_callbacks *cb, char *why);
void sn_process_stop(struct sn_process_nic *p);
void sn_process_end(struct sn_process_nic *p);

#endif
