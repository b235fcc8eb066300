/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's states, as sequences of segments that hosts send, and as what holds for all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/states.h"

/*
 * A sequence of segments: "S" SYN, "A" ACK, "F" FIN and ACK, "R" RST, "B" SYN and ACK. A small letter is the
 * worker's. A segment acknowledges what the other side has sent, unless a mark stands before it. "!": its
 * numbers are out of reach. "?": it acknowledges something else. "1": the lot fell on it.
 */
static int after(const char *segments, bool both)
{
    static const struct {
        char letter;
        uint8_t flags;
    } known[] = {
        {'S', BAL_SYN}, {'A', BAL_ACK}, {'F', BAL_FIN | BAL_ACK}, {'R', BAL_RST}, {'B', BAL_SYN | BAL_ACK}};
    int state = -1;
    bool closed[2] = {false};
    for (const char *s = segments; *s; s++) {
        char mark = strchr("!?1", *s) ? *s++ : 0;
        bool worker = *s >= 'a', opening = state == BAL_SYN_RECV;
        unsigned evidence = closed[!worker] || opening ? BAL_NOTED | BAL_ACKS : 0;
        uint8_t flags = 0;
        for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            if ((*s & ~32) == known[i].letter) flags = known[i].flags;
        if (!both) evidence = closed[0] ? BAL_AFTER : 0;
        if (mark == '!') evidence = BAL_NOTED | BAL_FAR;
        if (mark == '?') evidence &= ~(unsigned)(BAL_ACKS | BAL_AFTER);
        if (mark == '1') evidence |= BAL_LUCKY;
        if (state < 0 || state == BAL_REOPEN)
            state = bal_tcp_first(flags);
        else
            state = bal_tcp_next(state, flags,
                                 worker ? BAL_FROM_WORKER
                                 : both ? BAL_FROM_CLIENT
                                        : BAL_CLIENT_ONLY,
                                 evidence);
        if (flags & BAL_FIN) closed[worker] = true;
    }
    return state;
}

struct sequence {
    const char *segments;
    int end;
};

static void check(const struct sequence *is, unsigned n, bool both)
{
    for (unsigned i = 0; i < n; i++)
        if (after(is[i].segments, both) != is[i].end)
            fail_msg("%s: state %d, not %d", is[i].segments, after(is[i].segments, both), is[i].end);
}
#define CHECK(is, both) check(is, sizeof(is) / sizeof((is)[0]), both)

static void both_sides_in_sight(void **state)
{
    (void)state;
    static const struct sequence is[] = {
        {"S", BAL_SYN_SENT},        {"SS", BAL_SYN_SENT},
        {"SA", BAL_SYN_SENT}, /* a segment that has not come cannot be acknowledged */
        {"Sb", BAL_SYN_RECV},       {"Sba", BAL_SYN_RECV},
        {"SbA", BAL_ESTABLISHED},   {"SbAaAaA", BAL_ESTABLISHED},
        {"SbAS", BAL_ESTABLISHED},  {"SbAF", BAL_FIN_WAIT},
        {"SbAFa", BAL_CLOSE_WAIT},  {"SbAFaf", BAL_LAST_ACK},
        {"SbAFafA", BAL_TIME_WAIT}, {"SbAfAFa", BAL_TIME_WAIT},
        {"SbAFfAa", BAL_TIME_WAIT},                    /* both close at once */
        {"SbAR", BAL_CLOSE},        {"Sr", BAL_CLOSE}, /* refused */
        {"SbAr", BAL_CLOSE},        {"SbAFafAS", BAL_REOPEN},
        {"A", BAL_LOOSE},           {"Aa", BAL_ESTABLISHED},
        {"AA", BAL_LOOSE},          {"AR", BAL_LOOSE}, /* a stranger's RST ends nothing that was answered */
        {"Ar", BAL_CLOSE},          {"AF", BAL_LOOSE},
    };
    CHECK(is, true);
}

/* A stranger does not see the connection's numbers. */
static void a_stranger_ends_nothing(void **state)
{
    (void)state;
    static const struct sequence is[] = {
        {"Sb?A", BAL_SYN_RECV},       /* it acknowledges another SYN */
        {"SbAFF", BAL_FIN_WAIT},      /* one side's second FIN is not the other side's */
        {"SbAF?a", BAL_FIN_WAIT},     /* the worker has not seen that FIN */
        {"SbAF!a", BAL_UNPROVEN},     /* nor can it be this connection's */
        {"SbAF!aa", BAL_ESTABLISHED}, /* which lives on */
        {"SbAFF?AS", BAL_FIN_WAIT},   /* nothing has ended */
        {"SbARS", BAL_RENEW},         /* a RST without a right number, then a SYN */
        {"SbARa", BAL_UNPROVEN},      /* the worker says that it lives */
        {"SbARaa", BAL_ESTABLISHED},
        {"SbARA", BAL_UNPROVEN},
        {"SbARr", BAL_CLOSE}, /* the worker has taken it */
        {"AS", BAL_RENEW},
    };
    CHECK(is, true);
    static const struct sequence client_only[] = {
        {"SARS", BAL_RENEW},         {"SAFS", BAL_RENEW},    {"SARA", BAL_UNPROVEN},
        {"SAF!A", BAL_UNPROVEN},     {"AS", BAL_RENEW},      {"AA", BAL_LOOSE},
        {"AAAA", BAL_LOOSE},         {"SAAA", BAL_UNPROVEN}, {"SAA1A", BAL_ESTABLISHED},
        {"AA1A1A", BAL_ESTABLISHED},
    };
    CHECK(client_only, false);
}

static void the_client_alone_in_sight(void **state)
{
    (void)state;
    static const struct sequence is[] = {
        {"S", BAL_SYN_SENT},     {"SA", BAL_UNPROVEN},     {"SA1A", BAL_ESTABLISHED}, {"SAF", BAL_FIN_WAIT},
        {"SAF?A", BAL_FIN_WAIT}, {"SAFA", BAL_CLOSE_WAIT}, /* half-closed: the worker may go on sending */
        {"SAFAS", BAL_REOPEN},   {"SR", BAL_CLOSE},        {"SRS", BAL_RENEW},
    };
    CHECK(is, false);
}

static void nonsense_opens_nothing(void **state)
{
    (void)state;
    assert_int_equal(bal_tcp_first(BAL_RST), -1);
    assert_int_equal(bal_tcp_first(0), -1);
    assert_int_equal(bal_tcp_first(BAL_SYN | BAL_FIN), -1);
    assert_int_equal(bal_tcp_first(BAL_SYN | BAL_ACK), -1);
    for (int s = 0; s <= BAL_LOOSE; s++)
        for (int flags = 0; flags < 256; flags++)
            for (int side = 0; side < 3; side++) {
                int next = bal_tcp_next(s, (uint8_t)flags, (enum bal_side)side, (unsigned)flags % 32);
                assert_true(next == BAL_REOPEN || next == BAL_RENEW || (next >= 0 && next <= BAL_LOOSE));
                /* An established connection ends only by FIN or RST. */
                if (s == BAL_ESTABLISHED && !(flags & (BAL_FIN | BAL_RST))) assert_int_equal(next, s);
                /* A worker never opens anything again. */
                if (side == BAL_FROM_WORKER) assert_true(next <= BAL_LOOSE);
            }
}

static void only_what_was_never_answered_is_evictable(void **state)
{
    (void)state;
    assert_false(BAL_EVICTABLE >> BAL_ESTABLISHED & 1);
    assert_false(BAL_EVICTABLE >> BAL_ROCE_LIVE & 1);
    assert_false(BAL_EVICTABLE >> BAL_UDP_STREAM & 1);
    assert_true(BAL_EVICTABLE >> BAL_SYN_SENT & 1);
    assert_true(BAL_EVICTABLE >> BAL_LOOSE & 1);
    assert_true(BAL_EVICTABLE_IDLE >> BAL_UNPROVEN & 1);
    assert_true(BAL_EVICTABLE_IDLE >> BAL_UDP_STREAM & 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_in_sight),
        cmocka_unit_test(a_stranger_ends_nothing),
        cmocka_unit_test(the_client_alone_in_sight),
        cmocka_unit_test(nonsense_opens_nothing),
        cmocka_unit_test(only_what_was_never_answered_is_evictable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
