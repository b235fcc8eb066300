/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the CPU time of this process's threads from /proc. */
#include "src/server/lifecycle/cputime.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A thread's CPU clock in nanoseconds. The kernel derives the clock's number from the thread's id
 * (include/linux/posix-timers_types.h: complement of the id, shifted, per-thread and scheduler bits).
 * pthread_getcpuclockid() would only give it for threads whose pthread_t we hold. */
static uint64_t thread_cpu_ns(int tid)
{
    clockid_t clock = (clockid_t)((~(unsigned)tid << 3) | 6);
    struct timespec ts;
    if (clock_gettime(clock, &ts)) return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_nic_thread(const char *tid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", tid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    if (!fgets(name, sizeof(name), f)) name[0] = 0;
    fclose(f);
    return !strncmp(name, "gw-nic", 6);
}

int gw_cputime_read(struct gw_cputime *t)
{
    struct timespec all;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all)) return -errno;

    DIR *dir = opendir("/proc/self/task");
    if (!dir) return -errno;
    t->nic_ns = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (isdigit((unsigned char)e->d_name[0]) && is_nic_thread(e->d_name))
            t->nic_ns += thread_cpu_ns(atoi(e->d_name));
    closedir(dir);

    uint64_t total = (uint64_t)all.tv_sec * 1000000000u + (uint64_t)all.tv_nsec;
    t->own_ns = total > t->nic_ns ? total - t->nic_ns : 0;
    return 0;
}
