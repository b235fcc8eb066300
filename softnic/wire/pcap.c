/* SPDX-License-Identifier: Apache-2.0 */
/* A capture's ring, from the threads that send and receive frames to the file's thread; its beginning and its
 * end. */
#include "softnic/wire/pcap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "softnic/base/clock.h"
#include "softnic/wire/pcap_state.h"

enum { CLOSE_MS = 2000 };

/* ---- the ring ------------------------------------------------------------------------------------------ */

static uint64_t pcap_put(struct sn_pcap *c, uint64_t at, const void *data, size_t len)
{
    size_t offset = at % SN_PCAP_RING, first = SN_PCAP_RING - offset < len ? SN_PCAP_RING - offset : len;

    memcpy(c->ring + offset, data, first);
    memcpy(c->ring, (const uint8_t *)data + first, len - first);
    return at + len;
}

static bool pcap_stopped(const struct sn_pcap *c)
{
    return __atomic_load_n(&c->stats.stopped, __ATOMIC_RELAXED);
}

static void put_packet(struct sn_pcap *c, const struct sn_frame *f, bool out, uint64_t time)
{
    static const uint8_t zeros[4];
    uint8_t head[SN_PCAP_HEAD + SN_PCAP_HEADERS], tail[SN_PCAP_TAIL];
    uint32_t headers = sn_pcap_headers(f, head + SN_PCAP_HEAD), len = headers + f->len;
    uint32_t total = sn_pcap_block(len);
    uint64_t at = c->taken;

    /* Acquire: bytes are overwritten only after the file's thread has read them. */
    if (at + total - __atomic_load_n(&c->done, __ATOMIC_ACQUIRE) > SN_PCAP_RING) {
        sn_pcap_set(&c->stats.missing, c->stats.missing + 1);
        return;
    }
    if (c->max && c->stats.bytes + total > c->max) {
        __atomic_store_n(&c->full, 1, __ATOMIC_RELAXED);
        sn_pcap_set(&c->stats.stopped, 1);
        return;
    }
    sn_pcap_head(head, len, time);
    sn_pcap_tail(tail, len, out);
    at = pcap_put(c, at, head, SN_PCAP_HEAD + headers);
    at = pcap_put(c, at, f->data, f->len);
    at = pcap_put(c, at, zeros, sn_pcap_padded(len) - len);
    at = pcap_put(c, at, tail, sizeof(tail));
    /* Release: the file's thread sees the packet before it sees that there is one. */
    __atomic_store_n(&c->taken, at, __ATOMIC_RELEASE);
    sn_pcap_set(&c->stats.frames, c->stats.frames + 1);
    sn_pcap_set(&c->stats.bytes, c->stats.bytes + total);
}

/*
 * Wakes the file's thread if it sleeps. Its store of `sleeping` comes before its last look at `taken`, ours
 * of `taken` before this look at `sleeping`. All are sequentially consistent, so one of the two sees the
 * other.
 */
static void pcap_wake(struct sn_pcap *c)
{
    uint64_t one = 1;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_exchange_n(&c->sleeping, 0, __ATOMIC_SEQ_CST)) return;
    if (write(c->wake_fd, &one, sizeof(one)) < 0) return; /* full: it will wake anyhow */
}

uint64_t sn_pcap_now(void)
{
    return sn_clock_ns(CLOCK_REALTIME);
}

void sn_pcap_frames(struct sn_pcap *c, const struct sn_frame *frames, int n, bool out, uint64_t time)
{
    if (n <= 0 || pcap_stopped(c)) return;
    for (int i = 0; i < n && !pcap_stopped(c); i++) put_packet(c, &frames[i], out, time);
    pcap_wake(c);
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static void pcap_set_name(struct sn_pcap *c, const char *name)
{
    size_t n = 0;

    for (; *name && n + 16 < sizeof(c->name); name++) {
        if (name[0] == '%' && name[1] == 'p') {
            n += (size_t)snprintf(c->name + n, 16, "%d", (int)getpid());
            name++;
        } else {
            c->name[n++] = *name;
        }
    }
    c->name[n] = 0;
}

static int pcap_start(struct sn_pcap *c, const uint8_t gid[16], char why[256])
{
    uint8_t beginning[SN_PCAP_BEGINNING];
    int err;

    c->ring =
        mmap(NULL, SN_PCAP_RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->ring == MAP_FAILED || c->wake_fd < 0) {
        err = -errno;
    } else {
        c->taken = pcap_put(c, 0, beginning, sn_pcap_beginning(beginning, gid));
        c->stats.bytes = c->taken;
        sn_pcap_drain(c);
        err = sn_pcap_start_thread(c);
    }
    if (err) snprintf(why, 256, "pcap: %s", strerror(-err));
    return err;
}

static void free_pcap(struct sn_pcap *c)
{
    if (c->fd >= 0) close(c->fd);
    if (c->wake_fd >= 0) close(c->wake_fd);
    if (c->ring != MAP_FAILED) munmap(c->ring, SN_PCAP_RING);
    free(c);
}

int sn_pcap_open(const char *name, uint64_t max, const uint8_t gid[16], struct sn_pcap **pcap, char why[256])
{
    struct sn_pcap *c = calloc(1, sizeof(*c));
    int err;

    if (!c) {
        snprintf(why, 256, "out of memory");
        return -ENOMEM;
    }
    c->fd = c->wake_fd = -1;
    c->ring = MAP_FAILED;
    c->max = max;
    pcap_set_name(c, name);
    err = sn_pcap_open_file(c, why);
    if (!err) err = pcap_start(c, gid, why);
    if (err)
        free_pcap(c);
    else
        *pcap = c;
    return err;
}

void sn_pcap_flush(struct sn_pcap *c, int wait_ms)
{
    const struct timespec step = {.tv_nsec = 1000000};

    pcap_wake(c);
    for (int ms = 0; ms < wait_ms; ms++) {
        if (__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) == __atomic_load_n(&c->taken, __ATOMIC_ACQUIRE))
            return;
        nanosleep(&step, NULL);
    }
}

void sn_pcap_close(struct sn_pcap *c)
{
    const struct timespec step = {.tv_nsec = 1000000};

    if (!c) return;
    __atomic_store_n(&c->stop, 1, __ATOMIC_SEQ_CST);
    pcap_wake(c);
    for (int ms = 0; pthread_tryjoin_np(c->thread, NULL); ms++) {
        if (ms == CLOSE_MS) { /* a pipe without a reader: rather leak than crash */
            fprintf(stderr, "gpuwire: the end of the capture %s could not be written in time\n", c->name);
            return;
        }
        nanosleep(&step, NULL);
    }
    if (c->stats.missing)
        fprintf(stderr, "gpuwire: %llu packets are missing from the capture %s: its disk is too slow\n",
                (unsigned long long)c->stats.missing, c->name);
    free_pcap(c);
}

void sn_pcap_stats(const struct sn_pcap *c, struct sn_pcap_stats *stats)
{
    const uint64_t *from = (const uint64_t *)&c->stats;
    uint64_t *to = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

const char *sn_pcap_name(const struct sn_pcap *c)
{
    return c->name;
}

void sn_pcap_fds(const struct sn_pcap *c, int fds[2])
{
    fds[0] = c->fd;
    fds[1] = c->wake_fd;
}
