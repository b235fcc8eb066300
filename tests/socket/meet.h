/* SPDX-License-Identifier: Apache-2.0 */
/* How the tests' kernels come to a connection; the three forms of a call, by number. */
#ifndef GW_TESTS_SOCKET_MEET_H
#define GW_TESTS_SOCKET_MEET_H

#include <gpuwire/socket.h>

#define SK_FORM(g, name, ...)                                                                                \
    ((g) == GW_BLOCK  ? gw_sock_##name(__VA_ARGS__)                                                          \
     : (g) == GW_WARP ? gw_sock_##name##_warp(__VA_ARGS__)                                                   \
                      : gw_sock_##name##_thread(__VA_ARGS__))

GW_FN uint64_t limit(uint64_t ns)
{
    return ns ? gw_clock_ns() + ns : 0;
}

/* *s: a connection to addr, or one that came there. */
GW_DEV int64_t meet(struct gw_net *net, enum gw_group g, const struct sockaddr_in *at, int server,
                    uint64_t limit_ns, int *s)
{
    const struct sockaddr *addr = (const struct sockaddr *)at;
    int l = SK_FORM(g, open, net, AF_INET, SOCK_STREAM, 0, 0), err;

    *s = l;
    if (l < 0) return l;
    if (!server) return SK_FORM(g, connect, net, l, addr, sizeof(*at), limit(limit_ns));
    err = SK_FORM(g, bind, net, l, addr, sizeof(*at), 0);
    if (!err) err = SK_FORM(g, listen, net, l, 1, 0);
    if (!err) err = *s = SK_FORM(g, accept, net, l, NULL, NULL, limit(limit_ns));
    SK_FORM(g, close, net, l, 0);
    return err < 0 ? err : 0;
}

#endif
