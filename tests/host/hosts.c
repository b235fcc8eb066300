/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/host/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127};
pthread_mutex_t nic_lock = PTHREAD_MUTEX_INITIALIZER;

/* Tests that run side by side must not meet. Before there are children, who are to have the same. */
__attribute__((constructor)) static void make_gid(void)
{
    gid[13] = (uint8_t)(getpid() >> 16);
    gid[14] = (uint8_t)(getpid() >> 8);
    gid[15] = (uint8_t)getpid();
}

static void lock(struct sn_nic *nic)
{
    (void)nic;
    pthread_mutex_lock(&nic_lock);
}

static void unlock(struct sn_nic *nic)
{
    (void)nic;
    pthread_mutex_unlock(&nic_lock);
}

const struct sn_host_guard guard = {lock, unlock, NULL};
const struct sn_peer_ops *const ops = &sn_host_peer_ops;

struct sn_host *open_host(unsigned slot, bool copy)
{
    struct sn_host_config c = {.slot = slot, .copy = copy};
    struct sn_host *h = NULL;
    char why[256] = "";

    memcpy(c.gid, gid, 16);
    if (sn_host_open(&c, &h, why)) fail_msg("%s", why);
    return h;
}

void serve(struct sn_host *a, struct sn_host *b)
{
    for (int i = 0; i < 6; i++) {
        if (a) sn_host_serve(a, &guard);
        if (b) sn_host_serve(b, &guard);
    }
}

struct sn_peer *find_owner(struct sn_host *a)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct sn_peer *p = NULL;

    for (int i = 0; i < 60000 && !p; i++) {
        pthread_mutex_lock(&nic_lock);
        p = ops->find(a, gid, QPN_B);
        pthread_mutex_unlock(&nic_lock);
        sn_host_serve(a, &guard);
        nanosleep(&nap, NULL);
    }
    if (!p) {
        struct sn_host_info info;

        sn_host_info(a, &info);
        fail_msg("not met: %s", info.why);
    }
    return p;
}
