/* SPDX-License-Identifier: Apache-2.0 */
/* Options that say how long a call may wait, on a datagram socket that gets nothing. The includer has
 * `net`. */
#ifndef GW_TESTS_SOCKET_LIMITS_H
#define GW_TESTS_SOCKET_LIMITS_H

#include <gpuwire/socket.h>

static inline void waits_as_told(int s)
{
    struct timeval brief = {0, 20000}, none = {0, 0}, never = {1, 1000000}, got;
    uint64_t start = gw_clock_ns(), late = start + 60u * (uint64_t)1000000000;
    socklen_t len = sizeof(got);
    int on = 1, off = 0;
    char c;

    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_NONBLOCK, &on, sizeof(on)), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, &c, 1, 0, late), -EAGAIN);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_NONBLOCK, &off, sizeof(off)), 0);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof(brief)), 0);
    assert_int_equal(gw_sock_recv_thread(net, s, &c, 1, 0, late), -ETIMEDOUT);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never)),
                     -EDOM);
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_SNDTIMEO, &brief, 8), -EINVAL);
    assert_int_equal(gw_sock_getsockopt_thread(net, s, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
    assert_int_equal(len, sizeof(got));
    assert_memory_equal(&got, &brief, sizeof(got));
    assert_int_equal(gw_sock_setsockopt_thread(net, s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)), 0);
    assert_true(gw_clock_ns() < late - (late - start) / 2); /* no call has waited for its deadline */
}

#endif
