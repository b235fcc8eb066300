/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/peers.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/roce/hdr.h"

struct sn_udp *open_wire(const char *text, uint64_t seed)
{
    struct sn_addr addr;
    struct sn_udp *udp;
    char why[256] = "";

    if (sn_addr_parse(text, &addr)) return NULL;
    return sn_udp_open(&addr, seed, &udp, why) ? NULL : udp;
}

struct sn_frame frame_to(const struct sn_addr *addr, uint8_t *data, uint32_t len)
{
    struct sn_frame frame = {.data = data, .len = len};

    memcpy(frame.dst_gid, addr->gid, 16);
    return frame;
}

void make_frame(uint8_t *frame, uint32_t len, unsigned slot, unsigned from, uint32_t number)
{
    memset(frame, 0, len);
    frame[0] = 0x04; /* SEND_ONLY */
    frame[5] = (uint8_t)slot;
    frame[7] = 7;
    memcpy(frame + 8, &number, 4);
    if (len > FRAME_HEAD) frame[FRAME_HEAD] = (uint8_t)from;
    for (uint32_t i = FRAME_HEAD + 1; i < len; i++) frame[i] = (uint8_t)(number + i);
}

static void echo_for_ever(struct sn_udp *udp)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
    struct sn_frame rx[SN_UDP_BATCH];
    int fds[2], nfds = sn_udp_fds(udp, fds);
    bool more = false;

    for (int i = 0; i < nfds; i++) p[i].fd = fds[i];
    for (;;) {
        if (!more) poll(p, (nfds_t)nfds, -1);
        int n = sn_udp_recv(udp, rx, SN_UDP_BATCH, &more);

        for (int i = 0; i < n; i++) {
            uint16_t mine = sn_udp_port(udp);
            struct sn_frame tx = rx[i];
            memcpy(tx.dst_gid, rx[i].src_gid, 16);

            if (rx[i].len <= FRAME_HEAD) continue;
            rx[i].data[5] = rx[i].data[FRAME_HEAD];
            rx[i].data[7] = 9;
            rx[i].data[12] = (uint8_t)(rx[i].sport >> 8);
            rx[i].data[13] = (uint8_t)rx[i].sport;
            rx[i].data[14] = (uint8_t)(mine >> 8);
            rx[i].data[15] = (uint8_t)mine;
            while (!sn_udp_send(udp, &tx, 1)) poll(NULL, 0, 1);
        }
    }
}

struct child start_child(const char *addr, uint64_t seed)
{
    struct child child = {0};
    int pipes[2], said[2] = {-1, -1};

    if (pipe(pipes)) return child;
    child.pid = fork();
    if (child.pid == 0) {
        struct sn_udp *udp = open_wire(addr, seed);
        int fds[2];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!udp) _exit(1);
        said[0] = (int)sn_udp_slot(udp);
        said[1] = sn_udp_fds(udp, fds) == 2;
        if (write(pipes[1], said, sizeof(said)) != sizeof(said)) _exit(1);
        echo_for_ever(udp);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], said, sizeof(said)), sizeof(said));
    close(pipes[0]);
    child.slot = (unsigned)said[0];
    child.shared = said[1];
    return child;
}

void kill_child(struct child *child)
{
    if (child->pid <= 0) return;
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool wait_frame(struct sn_udp *udp, struct sn_frame *rx, int ms)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
    int fds[2], nfds = sn_udp_fds(udp, fds);
    int64_t end = now_ms() + ms, left;
    bool more;

    for (int i = 0; i < nfds; i++) p[i].fd = fds[i];
    for (;;) {
        if (sn_udp_recv(udp, rx, 1, &more) == 1) return true;
        left = end - now_ms();
        if (left <= 0) return false;
        if (!more) poll(p, (nfds_t)nfds, (int)left);
    }
}

struct sn_udp_stats stats_of(const struct sn_udp *udp)
{
    struct sn_udp_stats s;

    sn_udp_stats(udp, &s);
    return s;
}

bool send_from_afar(struct sn_udp *udp, const struct sn_frame *frame)
{
    struct sn_addr to = {0};
    struct sockaddr_in6 sa;
    int fds[2];

    memcpy(to.gid, frame->dst_gid, 16);
    sn_udp_fds(udp, fds);
    return sendto(fds[0], frame->data, frame->len, 0, (struct sockaddr *)&sa,
                  sn_addr_to_sock(&to, ROCE_UDP_PORT, &sa)) == (ssize_t)frame->len;
}

static bool send_near(struct sn_udp *udp, const struct sn_frame *frame)
{
    return sn_udp_send(udp, frame, 1) == 1;
}

static bool echo(struct sn_udp *udp, const char *to, unsigned slot, uint32_t len, struct sn_frame *rx,
                 bool (*send)(struct sn_udp *, const struct sn_frame *))
{
    static uint32_t number;
    uint8_t frame[SN_UDP_FRAME + 256];
    struct sn_addr addr;

    make_frame(frame, len, slot, sn_udp_slot(udp), ++number);
    if (sn_addr_parse(to, &addr)) return false;
    struct sn_frame tx = frame_to(&addr, frame, len);
    if (!send(udp, &tx) || !wait_frame(udp, rx, ECHO_DEADLINE_MS)) return false;
    return rx->len == len && memcmp(rx->data + 8, &number, 4) == 0 &&
           memcmp(rx->data + FRAME_HEAD + 1, frame + FRAME_HEAD + 1, len - FRAME_HEAD - 1) == 0;
}

bool echo_works(struct sn_udp *udp, const char *to, unsigned slot, uint32_t len, struct sn_frame *rx)
{
    return echo(udp, to, slot, len, rx, send_near);
}

bool echo_from_afar_works(struct sn_udp *udp, const char *to, unsigned slot, uint32_t len,
                          struct sn_frame *rx)
{
    return echo(udp, to, slot, len, rx, send_from_afar);
}
