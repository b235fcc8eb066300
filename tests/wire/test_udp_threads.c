/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads receive from the sockets, beside the one that is inside the engine. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "softnic/nic/frame.h"
#include "src/roce/hdr.h"
#include "tests/wire/peers.h"

#define HERE "127.0.78.1"

enum { FETCHERS = 3, ROUNDS = 200, ROUND_FRAMES = 60, DAMAGED = 7 };
static int fetchers_stop;

static void *fetch_all_the_time(void *arg)
{
    while (!__atomic_load_n(&fetchers_stop, __ATOMIC_RELAXED))
        if (sn_udp_fetch(arg) <= 0) sched_yield();
    return NULL;
}

/* Number n of a stream, with a right ICRC, but for every so manieth. */
static void make_numbered(struct sn_frame *f, uint8_t *data, const struct sn_udp *from,
                          const struct sn_udp *to, uint32_t n)
{
    uint32_t len = 4096 + 32;
    struct roce_path path = sn_path_between(sn_udp_addr(from)->gid, sn_udp_addr(to)->gid);

    path.sport = sn_udp_port(from);
    make_frame(data, len, sn_udp_slot(to), 0, n);
    roce_icrc_end(roce_icrc(&path, data, len), data + len - ROCE_ICRC_LEN);
    if (n % DAMAGED == 0) data[len - 1] ^= 1;
    *f = frame_to(sn_udp_addr(to), data, len);
}

/* Takes a round's frames from the threads that received them. */
static void take_round(struct sn_udp *udp, uint32_t *n)
{
    struct sn_frame rx[SN_UDP_BATCH];
    uint32_t end = *n + ROUND_FRAMES, number;
    time_t limit = time(NULL) + 20;
    bool more;

    while (*n != end && time(NULL) < limit) {
        int got = sn_udp_recv(udp, rx, 7, &more);

        for (int i = 0; i < got; i++, ++*n) {
            memcpy(&number, rx[i].data + 8, sizeof(number));
            assert_int_equal(number, *n);
            if (number % DAMAGED == 0) assert_false(rx[i].icrc_checked);
        }
        if (!got) sched_yield();
    }
    assert_int_equal(*n, end);
}

static void several_threads_receive_in_order(void **state)
{
    struct sn_udp *to = open_wire(HERE, 1), *from = open_wire(HERE, 9);
    static uint8_t data[ROUND_FRAMES][SN_UDP_FRAME];
    struct sn_frame tx[ROUND_FRAMES], rx;
    pthread_t id[FETCHERS];
    uint32_t sent = 0, taken = 0;
    bool more;

    (void)state;
    assert_int_equal(sn_udp_threads(to, FETCHERS), 0);
    for (int i = 0; i < FETCHERS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, fetch_all_the_time, to), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROUND_FRAMES; i++) make_numbered(&tx[i], data[i], from, to, sent++);
        for (int done = 0; done < ROUND_FRAMES;) done += sn_udp_send(from, tx + done, ROUND_FRAMES - done);
        if (round % 4 == 0) sn_udp_fetch(to); /* the others may not have run at all */
        take_round(to, &taken);
    }
    __atomic_store_n(&fetchers_stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < FETCHERS; i++) pthread_join(id[i], NULL);
    assert_int_equal(stats_of(to).rx_frames, ROUNDS * ROUND_FRAMES);
    assert_true(stats_of(to).rx_checked > 0);
    /* Port 4791 is not asked every time. */
    for (int i = 0; i < 16 && sn_udp_left(to) != SN_UDP_NOTHING; i++)
        assert_int_equal(sn_udp_recv(to, &rx, 1, &more), 0);
    assert_int_equal(sn_udp_left(to), SN_UDP_NOTHING);
    sn_udp_close(to);
    sn_udp_close(from);
}

/* Frames that they received and that were not looked at yet are bounded. The rest stays with the system. */
static void threads_wait_for_the_engine(void **state)
{
    struct sn_udp *to = open_wire(HERE, 1), *from = open_wire(HERE, 9);
    uint8_t data[SN_UDP_FRAME];
    struct sn_frame tx, rx[SN_UDP_BATCH];
    uint32_t number;
    bool more;

    (void)state;
    assert_int_equal(sn_udp_threads(to, 2), 0);
    assert_int_equal(sn_udp_fetch(to), 0);
    for (uint32_t n = 1; n <= 5; n++) {
        make_numbered(&tx, data, from, to, n);
        assert_int_equal(sn_udp_send(from, &tx, 1), 1);
        assert_int_equal(sn_udp_fetch(to), n < 5 ? 1 : -EAGAIN);
    }
    for (uint32_t n = 1; n <= 5; n++) {
        assert_int_equal(sn_udp_recv(to, rx, SN_UDP_BATCH, &more), 1);
        memcpy(&number, rx[0].data + 8, sizeof(number));
        assert_int_equal(number, n);
        assert_int_equal(rx[0].icrc_checked, n < 5);
    }
    sn_udp_close(to);
    sn_udp_close(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_threads_receive_in_order),
        cmocka_unit_test(threads_wait_for_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
