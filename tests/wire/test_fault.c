/* SPDX-License-Identifier: Apache-2.0 */
/* The unkind network, on virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/wire/fault.h"

enum { FRAMES = 100000, LEN = 64 };
static const uint8_t peer[16] = {[15] = 9};

/* The arrived frames: numbers in order, and when. */
static struct {
    uint32_t n, seen[2 * FRAMES], damaged, full;
    uint64_t now, latest;
} got;

static bool arrive(void *ctx, const struct sn_frame *frame)
{
    const uint8_t *p = frame->data;
    uint32_t number;

    (void)ctx;
    if (got.full) {
        got.full--;
        return false;
    }
    assert_memory_equal(frame->dst_gid, peer, 16);
    assert_int_equal(frame->len, LEN);
    memcpy(&number, p, 4);
    for (int i = 4; i < LEN; i++) {
        if (p[i] == (uint8_t)(number + (uint32_t)i)) continue;
        got.damaged++;
        return true;
    }
    if (number >= FRAMES) {
        got.damaged++;
        return true;
    }
    got.seen[got.n++] = number;
    return true;
}

static bool send_to_peer(struct sn_fault *f, uint64_t now, uint8_t *data)
{
    struct sn_frame frame = {.len = LEN, .data = data};

    memcpy(frame.dst_gid, peer, 16);
    return sn_fault_send(f, now, &frame);
}

static struct sn_fault_stats stats_of(const struct sn_fault *f)
{
    struct sn_fault_stats stats;

    sn_fault_stats(f, &stats);
    return stats;
}

static struct sn_fault *send_all(const struct sn_fault_params *params, uint64_t seed)
{
    struct sn_fault *f = sn_fault_new(params, seed, 0, arrive, NULL);
    uint8_t frame[LEN];

    assert_non_null(f);
    memset(&got, 0, sizeof(got));
    for (uint32_t number = 0; number < FRAMES; number++) {
        memcpy(frame, &number, 4);
        for (int i = 4; i < LEN; i++) frame[i] = (uint8_t)(number + (uint32_t)i);
        assert_true(send_to_peer(f, got.now += 1000, frame));
    }
    while (sn_fault_next(f) != UINT64_MAX) {
        got.now = sn_fault_next(f);
        sn_fault_run(f, got.now);
    }
    return f;
}

static void about(uint64_t n, double p)
{
    double want = p * FRAMES;

    if ((double)n < want * 0.9 || (double)n > want * 1.1)
        fail_msg("%lu of %d, wanted about %g", (unsigned long)n, FRAMES, want);
}

static void a_kind_network_changes_nothing(void **state)
{
    struct sn_fault_params none = {0};
    struct sn_fault *f = send_all(&none, 1);

    (void)state;
    assert_false(sn_fault_any(&none));
    assert_int_equal(got.n, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) assert_int_equal(got.seen[i], i);
    assert_int_equal(stats_of(f).passed, FRAMES);
    sn_fault_free(f);
}

static void frames_are_lost_and_doubled_as_often_as_told(void **state)
{
    struct sn_fault_params params = {.loss = 0.1, .dup = 0.05};
    struct sn_fault *f = send_all(&params, 2);
    struct sn_fault_stats s = stats_of(f);

    (void)state;
    about(s.lost, 0.1);
    about(s.doubled, 0.05 * 0.9);
    assert_int_equal(got.n, FRAMES - s.lost + s.doubled);
    assert_int_equal(got.damaged, 0);
    sn_fault_free(f);
}

static void frames_are_overtaken_but_none_is_lost_of_it(void **state)
{
    struct sn_fault_params params = {.reorder = 0.2};
    struct sn_fault *f = send_all(&params, 3);
    static uint8_t seen[FRAMES];
    uint32_t back = 0;

    (void)state;
    memset(seen, 0, sizeof(seen));
    about(stats_of(f).overtaken, 0.2);
    assert_int_equal(got.n, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_int_equal(seen[got.seen[i]]++, 0);
        if (i && got.seen[i] < got.seen[i - 1]) back++;
    }
    assert_true(back > FRAMES / 20);
    sn_fault_free(f);
}

static void frames_are_damaged(void **state)
{
    struct sn_fault_params params = {.corrupt = 0.1};
    struct sn_fault *f = send_all(&params, 4);

    (void)state;
    about(stats_of(f).damaged, 0.1);
    about(got.damaged, 0.1);
    sn_fault_free(f);
}

static void frames_are_late_and_in_order(void **state)
{
    struct sn_fault_params params = {.delay_ns = 50000};
    struct sn_fault *f = sn_fault_new(&params, 5, 0, arrive, NULL);
    uint8_t frame[LEN] = {0};

    (void)state;
    memset(&got, 0, sizeof(got));
    for (uint32_t i = 0; i < 10; i++) {
        memcpy(frame, &i, 4);
        for (uint32_t j = 4; j < LEN; j++) frame[j] = (uint8_t)(i + j);
        assert_true(send_to_peer(f, 1000, frame));
    }
    assert_int_equal(sn_fault_next(f), 51000);
    sn_fault_run(f, 50999);
    assert_int_equal(got.n, 0);
    sn_fault_run(f, 51000);
    assert_int_equal(got.n, 10);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(got.seen[i], i);
    assert_true(sn_fault_next(f) == UINT64_MAX);
    sn_fault_free(f);
}

static void the_same_seed_gives_the_same(void **state)
{
    struct sn_fault_params params = {
        .loss = 0.01, .dup = 0.01, .reorder = 0.05, .corrupt = 0.01, .delay_ns = 3000};
    static uint32_t first[2 * FRAMES];
    struct sn_fault *f = send_all(&params, 6);
    uint32_t n = got.n;

    (void)state;
    memcpy(first, got.seen, sizeof(first));
    sn_fault_free(f);
    f = send_all(&params, 6);
    assert_int_equal(got.n, n);
    assert_memory_equal(first, got.seen, sizeof(first));
    sn_fault_free(f);
    f = send_all(&params, 7);
    assert_memory_not_equal(first, got.seen, sizeof(first));
    sn_fault_free(f);
}

static void a_full_sink_is_told(void **state)
{
    struct sn_fault_params none = {0}, late = {.delay_ns = 10};
    struct sn_fault *f = sn_fault_new(&none, 8, 0, arrive, NULL);
    uint8_t frame[LEN] = {0};

    (void)state;
    memset(&got, 0, sizeof(got));
    got.full = 1;
    assert_false(send_to_peer(f, 1, frame));
    assert_true(send_to_peer(f, 1, frame));
    sn_fault_free(f);

    f = sn_fault_new(&late, 8, 0, arrive, NULL);
    for (int i = 0; i < SN_FAULT_HELD + 5; i++) assert_true(send_to_peer(f, 1, frame));
    assert_int_equal(stats_of(f).overflowed, 5);
    sn_fault_free(f); /* with frames under way */
}

/* Offers one frame of that number, at a time. */
static void send_number(struct sn_fault *f, uint64_t now, uint32_t number)
{
    uint8_t frame[LEN];

    memcpy(frame, &number, 4);
    for (int i = 4; i < LEN; i++) frame[i] = (uint8_t)(number + (uint32_t)i);
    assert_true(send_to_peer(f, now, frame));
}

static void a_link_that_is_down_carries_nothing(void **state)
{
    struct sn_fault_params params = {.downs = 2, .down = {{100, 200}, {300, UINT64_MAX}}};
    struct sn_fault *f = sn_fault_new(&params, 9, 5000, arrive, NULL);
    static const uint32_t alive[] = {0, 99, 200, 299};

    (void)state;
    memset(&got, 0, sizeof(got));
    for (uint32_t t = 0; t < 1000; t++) {
        if (t == 0 || t == 99 || t == 100 || t == 199 || t == 200 || t == 299 || t == 300 || t == 999)
            send_number(f, 5000 + t, t);
    }
    assert_int_equal(got.n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(got.seen[i], alive[i]);
    assert_int_equal(stats_of(f).cut, 4);
    sn_fault_free(f);
}

static void a_slow_link_takes_its_time(void **state)
{
    /* 64 + 66 bytes are 1040 bits: 1040 us each at 1 Mbit/s. */
    struct sn_fault_params params = {.rate = 1000000};
    struct sn_fault *f = sn_fault_new(&params, 10, 0, arrive, NULL);

    (void)state;
    memset(&got, 0, sizeof(got));
    for (uint32_t i = 0; i < 10; i++) send_number(f, 1000, i);
    assert_int_equal(sn_fault_next(f), 1000 + 1040000);
    sn_fault_run(f, 1000 + 5 * 1040000);
    assert_int_equal(got.n, 5);
    sn_fault_run(f, 1000 + 10 * 1040000);
    assert_int_equal(got.n, 10);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(got.seen[i], i);
    sn_fault_free(f);
}

static void jitter_stays_within_its_bounds(void **state)
{
    struct sn_fault_params params = {.delay_ns = 5000, .jitter_ns = 3000};
    struct sn_fault *f = sn_fault_new(&params, 11, 0, arrive, NULL);

    (void)state;
    memset(&got, 0, sizeof(got));
    for (uint32_t i = 0; i < 1000; i++) send_number(f, 100, i);
    sn_fault_run(f, 5099);
    assert_int_equal(got.n, 0);
    sn_fault_run(f, 6600);
    assert_in_range(got.n, 400, 600);
    sn_fault_run(f, 8100);
    assert_int_equal(got.n, 1000);
    sn_fault_free(f);
}

static void what_is_under_way_survives_a_change(void **state)
{
    struct sn_fault_params late = {.delay_ns = 1000}, lossy = {.loss = 1}, none = {0};
    struct sn_fault *f = sn_fault_new(&late, 12, 0, arrive, NULL);

    (void)state;
    memset(&got, 0, sizeof(got));
    send_number(f, 0, 1);
    sn_fault_set(f, &lossy, 10);
    send_number(f, 20, 2);
    sn_fault_set(f, &none, 30);
    send_number(f, 40, 3);
    assert_false(sn_fault_idle(f));
    sn_fault_run(f, 1000);
    assert_true(sn_fault_idle(f));
    assert_int_equal(got.n, 2);
    assert_int_equal(got.seen[0], 3);
    assert_int_equal(got.seen[1], 1);
    assert_int_equal(stats_of(f).lost, 1);
    sn_fault_free(f);
}

static void due_frames_wait_for_a_full_sink(void **state)
{
    struct sn_fault_params late = {.delay_ns = 10};
    struct sn_fault *f = sn_fault_new(&late, 13, 0, arrive, NULL);

    (void)state;
    memset(&got, 0, sizeof(got));
    send_number(f, 0, 1);
    got.full = 1;
    sn_fault_run(f, 10);
    assert_int_equal(got.n, 0);
    assert_int_equal(sn_fault_next(f), 10);
    sn_fault_run(f, 11);
    assert_int_equal(got.n, 1);
    sn_fault_free(f);
}

/* ---- as text ------------------------------------------------------------------------------------------- */

static void faults_go_round_as_text(void **state)
{
    static const struct {
        const char *text, *back;
    } good[] = {
        {"none", "none"},
        {"loss=0.01", "tx.loss=0.01"},
        {"loss=2.5%,rx.loss=1", "tx.loss=0.025,rx.loss=1"},
        {"tx.dup=.5,rx.delay=20us,rx.jitter=1500ns", "tx.dup=0.5,rx.delay=20us,rx.jitter=1500ns"},
        {"down=2s+500ms", "tx.down=2s+500ms,rx.down=2s+500ms"},
        {"rx.down=0/1s+1s", "rx.down=0ns/1s+1s"},
        {"rate=100M,reorder=0.000001", "tx.reorder=0.000001,tx.rate=100000000"},
    };
    struct sn_faults f, again;
    char text[SN_FAULTS_TEXT], why[256];
    uint64_t seed;
    bool has_seed;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(sn_faults_parse(good[i].text, &f, &seed, &has_seed, why), 0);
        assert_string_equal(sn_faults_text(&f, text), good[i].back);
        assert_int_equal(sn_faults_parse(text, &again, &seed, &has_seed, why), 0);
        assert_memory_equal(&f.rx, &again.rx, sizeof(f.rx));
        assert_int_equal(f.tx.delay_ns, again.tx.delay_ns);
    }
    assert_int_equal(sn_faults_parse("loss=1,seed=7", &f, &seed, &has_seed, why), 0);
    assert_true(has_seed && seed == 7);
}

static void wrong_faults_are_named(void **state)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "unknown fault ''"},
        {"los=1", "unknown fault 'los'; there are loss, dup"},
        {"addr=1.2.3.4", "unknown fault 'addr'"},
        {"tx.=1", "unknown fault 'tx.'"},
        {"rx.loss=2", "rx.loss takes a probability"},
        {"loss=0.1,tx.loss=0.2", "tx.loss is given twice"},
        {"tx.down=1s,down=2s", "down is given twice"},
        {"down=", "down takes up to 4 periods"},
        {"down=1s+0", "down takes"},
        {"down=1s/2s/3s/4s/5s", "down takes"},
        {"down=1s+", "down takes"},
        {"rate=10", "rate takes"},
        {"rate=1T", "rate takes"},
        {"jitter=2s", "jitter takes"},
        {"seed=x", "seed takes a number"},
        {"seed=1,seed=1", "seed is given twice"},
    };
    struct sn_faults f;
    char why[256], longer[SN_FAULTS_TEXT + 10];
    uint64_t seed;
    bool has_seed;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_not_equal(sn_faults_parse(bad[i].text, &f, &seed, &has_seed, why), 0);
        if (!strstr(why, bad[i].word) || strchr(why, '\n')) fail_msg("%s: %s", bad[i].text, why);
    }
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    assert_int_not_equal(sn_faults_parse(longer, &f, &seed, &has_seed, why), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_network_changes_nothing),
        cmocka_unit_test(frames_are_lost_and_doubled_as_often_as_told),
        cmocka_unit_test(frames_are_overtaken_but_none_is_lost_of_it),
        cmocka_unit_test(frames_are_damaged),
        cmocka_unit_test(frames_are_late_and_in_order),
        cmocka_unit_test(the_same_seed_gives_the_same),
        cmocka_unit_test(a_full_sink_is_told),
        cmocka_unit_test(a_link_that_is_down_carries_nothing),
        cmocka_unit_test(a_slow_link_takes_its_time),
        cmocka_unit_test(jitter_stays_within_its_bounds),
        cmocka_unit_test(what_is_under_way_survives_a_change),
        cmocka_unit_test(due_frames_wait_for_a_full_sink),
        cmocka_unit_test(faults_go_round_as_text),
        cmocka_unit_test(wrong_faults_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
