/* SPDX-License-Identifier: Apache-2.0 */
/* Event streams by themselves: order, overflow, taking back. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "softnic/uverbs/events.h"

static uint64_t next(int fd)
{
    uint64_t v = 0;
    assert_int_equal(read(fd, &v, 8), 8);
    return v;
}

static int readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0);
}

static void test_order_and_overflow(void **state)
{
    (void)state;
    struct uv_stream *s;
    const uint64_t many = 50000; /* a pipe holds 8192 */
    int fd;

    assert_int_equal(uv_stream_new(8, NULL, &fd, &s), 0);
    assert_int_equal(readable(fd), 0);
    for (uint64_t i = 0; i < many; i++) uv_stream_send(s, &i);
    for (uint64_t i = 0; i < many; i++) {
        if (i % 1000 == 0) uv_streams_flush(); /* what arming a queue does */
        assert_int_equal(next(fd), i);
    }
    assert_int_equal(readable(fd), 0);
    uv_stream_close_reader(s);
    close(fd);
    uv_stream_send(s, &many); /* no reader: no signal, no error */
    uv_stream_put(s);
}

static void test_drain(void **state)
{
    (void)state;
    struct uv_stream *s;
    int fd;

    assert_int_equal(uv_stream_new(8, NULL, &fd, &s), 0);
    for (uint64_t i = 0; i < 30000; i++) {
        uint64_t about = i % 3;
        uv_stream_send(s, &about);
    }
    assert_int_equal(next(fd), 0);
    assert_int_equal(next(fd), 1);
    assert_int_equal(uv_stream_drain(s, 1), 10000 - 1);
    assert_int_equal(uv_stream_drain(s, 1), 0);
    assert_int_equal(uv_stream_drain(s, 7), 0);
    for (int i = 0; i < 30000 - 10000 - 1; i++) {
        if (i % 1000 == 0) uv_streams_flush();
        assert_int_equal(next(fd), i % 2 ? 0 : 2);
    }
    assert_int_equal(readable(fd), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0); /* the reader's own mode is untouched */
    close(fd);
    uv_stream_put(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_and_overflow),
                                       cmocka_unit_test(test_drain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
