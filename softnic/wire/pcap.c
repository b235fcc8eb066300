/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "softnic/wire/addr.h"

enum { RING = 32 << 20, CLOSE_MS = 2000 };
enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, PACKET = 6, LINKTYPE_RAW = 101 };
enum {
    OPT_END = 0,
    OPT_USERAPPL = 4,
    OPT_IF_NAME = 2,
    OPT_IF_DESCRIPTION = 3,
    OPT_IF_TSRESOL = 9,
    OPT_FLAGS = 2
};

struct sn_pcap {
    char name[1100];
    int fd, wake_fd;
    pthread_t thread;
    uint64_t max;
    uint8_t *ring;
    uint64_t taken; /* bytes put into the ring; the packets' thread writes it, the file's reads it */
    uint64_t done;  /* bytes of them that were written, the other way round */
    int sleeping;   /* the file's thread waits, or is about to */
    int stop, full;
    struct sn_pcap_stats stats;
};

static void set(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static uint32_t padded(uint32_t n)
{
    return (n + 3) & ~3u;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4); /* a section is in the byte order of its writer */
    return p + 4;
}

static uint8_t *put_option(uint8_t *p, uint16_t code, const void *data, uint16_t len)
{
    memcpy(p, &code, 2);
    memcpy(p + 2, &len, 2);
    memset(p + 4, 0, padded(len));
    memcpy(p + 4, data, len);
    return p + 4 + padded(len);
}

/* The block that began at start is complete but for its two lengths. */
static uint8_t *end_block(uint8_t *start, uint8_t *p)
{
    uint32_t len = (uint32_t)(p + 4 - start);

    put32(start + 4, len);
    return put32(p, len);
}

static void program_name(char name[64])
{
    ssize_t n = -1;
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, name, 63);
        close(fd);
    }
    name[n > 0 ? n - (name[n - 1] == '\n') : 0] = 0;
}

static size_t put_beginning(uint8_t *out, const uint8_t gid[16])
{
    static const char application[] = "gpuwire software NIC";
    struct sn_addr addr = {.scope = 0};
    char text[SN_ADDR_TEXT], program[64], about[SN_ADDR_TEXT + 96];
    uint8_t *start = out, *p = put32(out + 8, 0x1a2b3c4d), resolution = 9;
    uint16_t version[2] = {1, 0}, link[2] = {LINKTYPE_RAW, 0};

    put32(start, SECTION);
    memcpy(p, version, 4);
    memset(p + 4, 0xff, 8); /* the section's length: not said */
    p = put_option(p + 12, OPT_USERAPPL, application, sizeof(application) - 1);
    p = end_block(start, put32(p, OPT_END));

    memcpy(addr.gid, gid, 16);
    program_name(program);
    snprintf(about, sizeof(about), "%s of process %d (%s)", sn_addr_text(&addr, text), (int)getpid(),
             program);
    start = p;
    put32(start, INTERFACE);
    memcpy(start + 8, link, 4);
    p = put32(start + 12, 0); /* packets are never cut */
    p = put_option(p, OPT_IF_NAME, "mlx5_0", 6);
    p = put_option(p, OPT_IF_DESCRIPTION, about, (uint16_t)strlen(about));
    p = put_option(p, OPT_IF_TSRESOL, &resolution, 1);
    p = end_block(start, put32(p, OPT_END));
    return (size_t)(p - out);
}

/* ---- the ring ------------------------------------------------------------------------------------------ */

static uint64_t put(struct sn_pcap *c, uint64_t at, const void *data, size_t len)
{
    size_t offset = at % RING, first = RING - offset < len ? RING - offset : len;

    memcpy(c->ring + offset, data, first);
    memcpy(c->ring, (const uint8_t *)data + first, len - first);
    return at + len;
}

static bool stopped(const struct sn_pcap *c)
{
    return __atomic_load_n(&c->stats.stopped, __ATOMIC_RELAXED);
}

static void put_packet(struct sn_pcap *c, const struct sn_frame *f, bool out, uint64_t time)
{
    static const uint8_t zeros[4];
    uint8_t head[28 + SN_PCAP_HEADERS], tail[16], *p;
    uint32_t headers = sn_pcap_headers(f, head + 28), len = headers + f->len, flags = out ? 2 : 1;
    uint32_t total = 28 + padded(len) + sizeof(tail);
    uint64_t at = c->taken;

    /* Acquire: bytes are overwritten only after the file's thread has read them. */
    if (at + total - __atomic_load_n(&c->done, __ATOMIC_ACQUIRE) > RING) {
        set(&c->stats.missing, c->stats.missing + 1);
        return;
    }
    if (c->max && c->stats.bytes + total > c->max) {
        __atomic_store_n(&c->full, 1, __ATOMIC_RELAXED);
        set(&c->stats.stopped, 1);
        return;
    }
    p = put32(put32(put32(head, PACKET), total), 0);
    p = put32(put32(p, (uint32_t)(time >> 32)), (uint32_t)time);
    put32(put32(p, len), len);
    p = put_option(tail, OPT_FLAGS, &flags, 4);
    put32(put32(p, OPT_END), total);
    at = put(c, at, head, 28 + headers);
    at = put(c, at, f->data, f->len);
    at = put(c, at, zeros, padded(len) - len);
    at = put(c, at, tail, sizeof(tail));
    /* Release: the file's thread sees the packet before it sees that there is one. */
    __atomic_store_n(&c->taken, at, __ATOMIC_RELEASE);
    set(&c->stats.frames, c->stats.frames + 1);
    set(&c->stats.bytes, c->stats.bytes + total);
}

/*
 * Wakes the file's thread if it sleeps. Its store of `sleeping` comes before its last look at `taken`, ours
 * of `taken` before this look at `sleeping`, all sequentially consistent: one of the two sees the other.
 */
static void wake(struct sn_pcap *c)
{
    uint64_t one = 1;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_exchange_n(&c->sleeping, 0, __ATOMIC_SEQ_CST)) return;
    if (write(c->wake_fd, &one, sizeof(one)) < 0) return; /* full: it will wake anyhow */
}

uint64_t sn_pcap_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void sn_pcap_frames(struct sn_pcap *c, const struct sn_frame *frames, int n, bool out, uint64_t time)
{
    if (n <= 0 || stopped(c)) return;
    for (int i = 0; i < n && !stopped(c); i++) put_packet(c, &frames[i], out, time);
    wake(c);
}

/* ---- the file's thread --------------------------------------------------------------------------------- */

/* Writes [from, to) of the ring. Returns how far it came; errno says why no further. */
static uint64_t write_ring(struct sn_pcap *c, uint64_t from, uint64_t to)
{
    while (from < to) {
        size_t offset = from % RING, len = (size_t)(to - from);
        size_t first = RING - offset < len ? RING - offset : len;
        struct iovec iov[2] = {{c->ring + offset, first}, {c->ring, len - first}};
        ssize_t n = writev(c->fd, iov, 2);

        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        from += (uint64_t)n;
    }
    return from;
}

/* Takes away the packet of which only a part could be written. */
static void cut_to_whole(struct sn_pcap *c, uint64_t from, uint64_t written)
{
    off_t end = lseek(c->fd, 0, SEEK_CUR);
    uint64_t at = from;

    while (at < written) {
        uint32_t len;

        for (unsigned i = 0; i < 4; i++) ((uint8_t *)&len)[i] = c->ring[(at + 4 + i) % RING];
        if (at + len > written) break;
        at += len;
    }
    if (end >= 0 && ftruncate(c->fd, end - (off_t)(written - at)))
        return; /* readers bear it, with a warning */
}

static void drain(struct sn_pcap *c)
{
    uint64_t from = c->done, to = __atomic_load_n(&c->taken, __ATOMIC_ACQUIRE), written;

    if (from == to) return;
    written = write_ring(c, from, to);
    if (written < to) {
        int err = errno;

        set(&c->stats.stopped, 1);
        fprintf(stderr, "gpuwire: the capture ends: cannot write %s: %s\n", c->name, strerror(err));
        cut_to_whole(c, from, written);
    }
    /* Release: the room is free only after it was read. */
    __atomic_store_n(&c->done, to, __ATOMIC_RELEASE);
}

static void wait_for_packets(struct sn_pcap *c)
{
    struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};
    uint64_t n;

    __atomic_store_n(&c->sleeping, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&c->taken, __ATOMIC_SEQ_CST) == c->done &&
        !__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST))
        poll(&p, 1, -1);
    __atomic_store_n(&c->sleeping, 0, __ATOMIC_SEQ_CST);
    if (read(c->wake_fd, &n, sizeof(n)) < 0) return; /* woken by nothing but the look itself */
}

static void *run(void *arg)
{
    struct sn_pcap *c = arg;

    prctl(PR_SET_NAME, "gw-pcap");
    while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
        wait_for_packets(c);
        drain(c);
        if (__atomic_exchange_n(&c->full, 0, __ATOMIC_RELAXED))
            fprintf(stderr, "gpuwire: the capture ends: %s has reached pcap_max\n", c->name);
    }
    drain(c);
    return NULL;
}

/* Signals are the program's: none is taken here. That includes SIGPIPE, when the file is a pipe. */
static int start_thread(struct sn_pcap *c)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -err;
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static void set_name(struct sn_pcap *c, const char *name)
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

static int open_file(struct sn_pcap *c, char why[256])
{
    int err = 0;

    /* For reading too: else opening a pipe would wait for its reader. */
    c->fd = open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->fd < 0) {
        err = -errno;
        snprintf(why, 256, "pcap=%.128s: %s", c->name, strerror(errno));
    } else if (flock(c->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        err = -EBUSY;
        snprintf(why, 256, "pcap=%.128s: another process captures to it; %%p in the name tells them apart",
                 c->name);
    } else if (ftruncate(c->fd, 0) && errno != EINVAL) { /* EINVAL: a pipe or device, which has no length */
        err = -errno;
        snprintf(why, 256, "pcap=%.128s: %s", c->name, strerror(errno));
    }
    return err;
}

static int start(struct sn_pcap *c, const uint8_t gid[16], char why[256])
{
    uint8_t beginning[1024];
    int err;

    c->ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->ring == MAP_FAILED || c->wake_fd < 0) {
        err = -errno;
    } else {
        c->taken = put(c, 0, beginning, put_beginning(beginning, gid));
        c->stats.bytes = c->taken;
        drain(c);
        err = start_thread(c);
    }
    if (err) snprintf(why, 256, "pcap: %s", strerror(-err));
    return err;
}

static void free_pcap(struct sn_pcap *c)
{
    if (c->fd >= 0) close(c->fd);
    if (c->wake_fd >= 0) close(c->wake_fd);
    if (c->ring != MAP_FAILED) munmap(c->ring, RING);
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
    set_name(c, name);
    err = open_file(c, why);
    if (!err) err = start(c, gid, why);
    if (err)
        free_pcap(c);
    else
        *pcap = c;
    return err;
}

void sn_pcap_flush(struct sn_pcap *c, int wait_ms)
{
    const struct timespec step = {.tv_nsec = 1000000};

    wake(c);
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
    wake(c);
    for (int ms = 0; pthread_tryjoin_np(c->thread, NULL); ms++) {
        if (ms == CLOSE_MS) { /* a pipe that nobody reads: rather leak than crash */
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
