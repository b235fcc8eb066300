/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a capture, and the thread that writes it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softnic/base/spawn.h"
#include "softnic/wire/pcap_state.h"

static int pcap_file_refuse(const struct sn_pcap *c, const char *because, char why[256])
{
    snprintf(why, 256, "pcap=%.128s: %s", c->name, because);
    return -EPERM;
}

/*
 * Opens the file that is there, or makes it. In /tmp anybody may have put something there: a link is not
 * followed. For reading too: else opening a pipe would wait for its reader.
 */
static int open_name(const char *name)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(name, flags);

    if (fd < 0 && errno == ENOENT) fd = open(name, flags | O_CREAT | O_EXCL, 0600);
    return fd;
}

/* Nothing of it was changed yet. */
static int check_owner(const struct sn_pcap *c, char why[256])
{
    struct stat st;

    if (fstat(c->fd, &st)) return pcap_file_refuse(c, strerror(errno), why);
    if (S_ISCHR(st.st_mode)) return 0; /* root alone makes those */
    if (st.st_uid != geteuid())
        return pcap_file_refuse(c, "it is there already and another user's; name another file, or remove it",
                                why);
    if (S_ISREG(st.st_mode) && st.st_nlink > 1)
        return pcap_file_refuse(
            c, "it has other names too (hard links), and what they name would be lost; name another file",
            why);
    return 0;
}

/* One process at a time writes to a file. */
static int take_over(const struct sn_pcap *c, char why[256])
{
    int err = 0;

    if (flock(c->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        err = -EBUSY;
        snprintf(why, 256, "pcap=%.128s: another process captures to it; %%p in the name tells them apart",
                 c->name);
    } else if (ftruncate(c->fd, 0) && errno != EINVAL) { /* EINVAL: a pipe or device, which has no length */
        err = -errno;
        snprintf(why, 256, "pcap=%.128s: %s", c->name, strerror(errno));
    }
    return err;
}

int sn_pcap_open_file(struct sn_pcap *c, char why[256])
{
    int err;

    c->fd = open_name(c->name);
    if (c->fd < 0 && errno == ELOOP)
        return pcap_file_refuse(c, "it is a link; name the file that it leads to", why);
    if (c->fd < 0) {
        err = -errno;
        snprintf(why, 256, "pcap=%.128s: %s", c->name, strerror(errno));
        return err;
    }
    err = check_owner(c, why);
    return err ? err : take_over(c, why);
}

/* Writes [from, to) of the ring. Returns how far it came; errno says why no further. */
static uint64_t write_ring(struct sn_pcap *c, uint64_t from, uint64_t to)
{
    while (from < to) {
        size_t offset = from % SN_PCAP_RING, len = (size_t)(to - from);
        size_t first = SN_PCAP_RING - offset < len ? SN_PCAP_RING - offset : len;
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

        for (unsigned i = 0; i < 4; i++) ((uint8_t *)&len)[i] = c->ring[(at + 4 + i) % SN_PCAP_RING];
        if (at + len > written) break;
        at += len;
    }
    if (end >= 0 && ftruncate(c->fd, end - (off_t)(written - at)))
        return; /* readers bear it, with a warning */
}

void sn_pcap_drain(struct sn_pcap *c)
{
    uint64_t from = c->done, to = __atomic_load_n(&c->taken, __ATOMIC_ACQUIRE), written;

    if (from == to) return;
    written = write_ring(c, from, to);
    if (written < to) {
        int err = errno;

        sn_pcap_set(&c->stats.stopped, 1);
        fprintf(stderr, "gpuwire: the capture ends: cannot write %s: %s\n", c->name, strerror(err));
        cut_to_whole(c, from, written);
    }
    /* Release: the room is free only after it was read. */
    __atomic_store_n(&c->done, to, __ATOMIC_RELEASE);
}

static void pcap_file_wait_for_packets(struct sn_pcap *c)
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

static void *pcap_file_run(void *arg)
{
    struct sn_pcap *c = arg;

    prctl(PR_SET_NAME, "gw-pcap");
    while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
        pcap_file_wait_for_packets(c);
        sn_pcap_drain(c);
        if (__atomic_exchange_n(&c->full, 0, __ATOMIC_RELAXED))
            fprintf(stderr, "gpuwire: the capture ends: %s has reached pcap_max\n", c->name);
    }
    sn_pcap_drain(c);
    return NULL;
}

int sn_pcap_start_thread(struct sn_pcap *c)
{
    return sn_spawn(&c->thread, 0, pcap_file_run, c);
}
