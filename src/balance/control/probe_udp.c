/* SPDX-License-Identifier: Apache-2.0 */
/* UDP_CHECK, as keepalived has it: a datagram is sent. An ICMP error means that the port is closed; with
 * require_reply an answer must come, and without it silence is good. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "src/balance/control/probe_impl.h"

static unsigned udp_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : tolower((unsigned char)c) - 'a' + 10);
}

static int udp_begin(struct gw_bal_probe *p, char *why, size_t size)
{
    uint8_t bytes[GW_BAL_PATH / 2] = {0};
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    size_t n = strlen(a->path) / 2;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(udp_digit(a->path[2 * i]) << 4 | udp_digit(a->path[2 * i + 1]));
    if (!n && getrandom(bytes, n = 16, 0) < 0) return gw_bal_probe_fails("random bytes", errno, why, size);
    if (gw_bal_probe_connect(p, SOCK_DGRAM, why, size)) return -1;
    p->connected = 1;
    return send(p->fd, bytes, n, MSG_NOSIGNAL) < 0 ? gw_bal_probe_fails("sending", errno, why, size) : 0;
}

/* Does an answer begin as the file says? A digit x there stands for any. */
static bool udp_fits(const char *wanted, const uint8_t *got, size_t n)
{
    for (size_t i = 0; i < n && wanted[2 * i]; i++)
        for (int k = 0; k < 2; k++) {
            char c = wanted[2 * i + (size_t)k];
            if (c != 'x' && udp_digit(c) != (got[i] >> (k ? 0 : 4) & 15)) return false;
        }
    return true;
}

static int udp_run(struct gw_bal_probe *p, char *why, size_t size)
{
    uint8_t got[2048];
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    ssize_t n = recv(p->fd, got, sizeof(got), MSG_TRUNC);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) return gw_bal_probe_fails("the datagram", errno, why, size);
    if (!a->needs_reply) return 1;
    if (n < a->least || n > a->most) {
        snprintf(why, size, "the answer has %zd bytes", n);
        return -1;
    }
    if (udp_fits(a->model, got, (size_t)n)) return 1;
    snprintf(why, size, "the answer is another one");
    return -1;
}

static short udp_waits(const struct gw_bal_probe *p)
{
    (void)p;
    return POLLIN;
}

static bool udp_silence(const struct gw_bal_probe *p)
{
    return !gw_bal_probe_ask(p)->needs_reply;
}

const struct gw_bal_probe_kind gw_bal_probe_udp = {udp_begin, udp_run, udp_waits, NULL, udp_silence};
