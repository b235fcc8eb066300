/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/local/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127};
pthread_mutex_t nic_lock = PTHREAD_MUTEX_INITIALIZER;

/* The names of all, which children see as well. */
static uint8_t (*names)[SN_MEET_NAME];

/* Tests that run side by side must not meet. Before there are children, who are to have the same. */
struct sn_peer_terms host_terms(void)
{
    struct sn_peer_terms t = {.mtu = 1024};

    memcpy(t.gid, gid, sizeof(gid));
    return t;
}

__attribute__((constructor)) static void make_gid(void)
{
    gid[13] = (uint8_t)(getpid() >> 16);
    gid[14] = (uint8_t)(getpid() >> 8);
    gid[15] = (uint8_t)getpid();
    names = mmap(NULL, 256 * SN_MEET_NAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (names == MAP_FAILED) abort();
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

const struct sn_local_guard guard = {lock, unlock, NULL};
const struct sn_peer_ops *const ops = &sn_local_peer_ops;

const uint8_t *name_of_slot(unsigned slot)
{
    return names[slot];
}

static bool silent;

void silence(bool on)
{
    silent = on;
}

/* As the slot's owner would answer, if there ever was one. */
static bool ask(void *ctx, const uint8_t at[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE])
{
    if (memcmp(at, gid, 16)) return false;
    if (silent) return true;
    pthread_mutex_lock(&nic_lock);
    sn_local_told(*(struct sn_local **)ctx, at, slot, nonce, names[slot]);
    pthread_mutex_unlock(&nic_lock);
    return true;
}

struct sn_local *open_host(unsigned slot, bool copy)
{
    static struct sn_local *opened[256];
    struct sn_local_config c = {.slot = slot, .copy = copy, .ask = ask, .ask_ctx = &opened[slot]};
    struct sn_local *h = NULL;
    char why[256] = "";

    memcpy(c.gid, gid, 16);
    if (sn_local_open(&c, &h, why)) fail_msg("%s", why);
    opened[slot] = h;
    memcpy(names[slot], sn_local_name(h), SN_MEET_NAME);
    return h;
}

void serve(struct sn_local *a, struct sn_local *b)
{
    for (int i = 0; i < 6; i++) {
        if (a) sn_local_serve(a, &guard);
        if (b) sn_local_serve(b, &guard);
    }
}

struct sn_peer *find_owner(struct sn_local *a)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct sn_peer *p = NULL;

    for (int i = 0; i < 60000 && !p; i++) {
        pthread_mutex_lock(&nic_lock);
        p = ops->find(a, gid, QPN_B);
        pthread_mutex_unlock(&nic_lock);
        sn_local_serve(a, &guard);
        nanosleep(&nap, NULL);
    }
    if (!p) {
        struct sn_local_info info;

        sn_local_info(a, &info);
        fail_msg("not met: %s", info.why);
    }
    return p;
}

void meet(struct sn_local *a, struct sn_local *b)
{
    assert_false(ops->in_memory(a, gid, QPN_B)); /* asks for it */
    serve(a, b);
    assert_true(ops->in_memory(a, gid, QPN_B));
}

bool send_frame(struct sn_local *h, unsigned slot, uint8_t fill, uint32_t len)
{
    uint8_t data[SN_FRAME_MAX];
    struct sn_frame f = {.len = len, .data = data};

    memset(data, fill, len);
    data[5] = (uint8_t)slot;
    memcpy(f.dst_gid, gid, 16);
    assert_true(sn_local_reaches(h, &f));
    int taken = sn_local_send(h, &f);
    sn_local_sent(h);
    return taken == 1;
}

void hear_first(struct sn_local *h)
{
    struct sn_frame f[SN_LOCAL_RX];
    unsigned met = sn_local_met(h);

    assert_int_equal(sn_local_recv(h, f, SN_LOCAL_RX), 0);
    assert_int_equal(sn_local_met(h), met + 1);
}

pid_t start_owner(uint8_t *mem, size_t length, int ready[2])
{
    pid_t pid = fork();

    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of a test that failed */
    struct sn_local *b = open_host(B, true);
    const struct sn_peer_region r = {
        .iova = 0x1000, .addr = (uintptr_t)mem, .length = length, .access = IBV_ACCESS_REMOTE_WRITE, .pd = 1};
    const struct sn_peer_queue q = {QPN_A, IBV_ACCESS_REMOTE_WRITE, 1, host_terms()};

    ops->region(b, KEY, &r);
    ops->queue(b, QPN_B, &q);
    if (write(ready[1], "", 1) != 1) _exit(1);
    for (;;) {
        const struct timespec nap = {.tv_nsec = 200000};

        sn_local_serve(b, &guard);
        nanosleep(&nap, NULL);
    }
}
