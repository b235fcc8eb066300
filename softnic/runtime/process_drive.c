/* SPDX-License-Identifier: Apache-2.0 */
/* The work of application threads for the NIC whenever they post, poll or are about to sleep. */
#include <sched.h>

#include "softnic/runtime/process_state.h"

enum { VAIN_NS = 20000, VAIN_STEP_NS = 20000 };
/*
 * Posts that come within 0.3 to 0.5 µs of each other: faster than any answer. From the fourth on they wait
 * until there are 32, or the thread polls, or the NIC's thread comes by. They do not wait when executing them
 * has taken long anyhow.
 */
enum { QUICK_TICKS = 1000, ROW_BEGINS = 4, ROW_DRIVES = 32, LONG_TICKS = 1 << 16 };

/*
 * A thread that polls and finds nothing keeps a CPU from the peer it waits for, if that is on the same host
 * and CPUs are few. So it yields the CPU now and then, but not before a peer that runs would have answered.
 * It may take many milliseconds to get the CPU back where others want it too.
 */
static void polled(bool in_vain, uint64_t now)
{
    static _Thread_local uint64_t yield_at; /* 0: it has found something until now */

    if (!in_vain) {
        yield_at = 0;
    } else if (!yield_at) {
        yield_at = now + VAIN_NS;
    } else if (now >= yield_at) {
        sched_yield();
        yield_at = sn_now_ns() + VAIN_STEP_NS;
    }
}

/* Time in units of about a third of a nanosecond, in the cheapest way. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return sn_now_ns() * 3;
#endif
}

/* More to do than one call does, and this caller may not come again. */
static uint64_t process_drive_leave(struct sn_thread *thread, uint64_t now, uint64_t next)
{
    if (next != SN_CONTENDED && next <= now && thread) sn_thread_work_left(thread);
    return next;
}

uint64_t sn_process_nic_posted(struct sn_nic *nic)
{
    static _Thread_local struct {
        uint64_t last;
        unsigned row; /* posts in a row, one right after the other */
    } posts __attribute__((tls_model("initial-exec")));
    struct sn_thread *thread = sn_process_thread_of(nic);
    uint64_t start = ticks(), now, next;

    if (!thread) return SN_NEVER;
    posts.row = start - posts.last < QUICK_TICKS ? posts.row + 1 : 0;
    posts.last = start;
    if (posts.row >= ROW_BEGINS && posts.row % ROW_DRIVES && !sn_nic_deaf(nic)) {
        sn_thread_gathering(thread);
        return SN_NEVER;
    }
    now = sn_now_ns();
    next = process_drive_leave(thread, now, sn_nic_posted(nic, now));
    posts.last = ticks();
    if (posts.last - start > LONG_TICKS) posts.row = 0;
    return next;
}

uint64_t sn_process_nic_drive(struct sn_nic *nic)
{
    const struct sn_process_nic *p = sn_process_entry(nic);
    struct sn_thread *thread;

    if (!p) return SN_NEVER;
    thread = sn_process_thread(p);
    if (thread) sn_thread_driven(thread);
    uint64_t now = sn_now_ns(), before = sn_nic_activity(nic), next;
    if (thread && sn_thread_looks(thread, now)) {
        polled(true, now);
        return SN_CONTENDED;
    }
    next = sn_nic_progress(nic, now);
    polled(before == sn_nic_activity(nic), now);
    return process_drive_leave(thread, now, next);
}

void sn_process_nic_kick(struct sn_nic *nic)
{
    struct sn_thread *thread = sn_process_thread_of(nic);

    if (thread) sn_thread_kick(thread);
}
