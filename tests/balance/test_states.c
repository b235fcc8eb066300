/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's states, as sequences of segments that hosts send, and as what holds for all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/states.h"

/* A sequence: "S" SYN, "A" ACK, "F" FIN and ACK, "R" RST, "B" SYN and ACK; a small letter is the worker's. */
static int after(const char *segments, bool both)
{
    static const struct {
        char letter;
        uint8_t flags;
    } known[] = {
        {'S', BAL_SYN}, {'A', BAL_ACK}, {'F', BAL_FIN | BAL_ACK}, {'R', BAL_RST}, {'B', BAL_SYN | BAL_ACK}};
    int state = -1;
    for (const char *s = segments; *s; s++) {
        bool worker = *s >= 'a';
        uint8_t flags = 0;
        for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            if ((*s & ~32) == known[i].letter) flags = known[i].flags;
        if (state < 0 || state == BAL_REOPEN)
            state = bal_tcp_first(flags);
        else
            state = bal_tcp_next(state, flags,
                                 worker ? BAL_FROM_WORKER
                                 : both ? BAL_FROM_CLIENT
                                        : BAL_CLIENT_ONLY);
    }
    return state;
}

static void both_sides_in_sight(void **state)
{
    (void)state;
    static const struct {
        const char *segments;
        int end;
    } is[] = {
        {"S", BAL_SYN_SENT},        {"SS", BAL_SYN_SENT},
        {"SA", BAL_SYN_SENT}, /* nobody can acknowledge what has not come */
        {"Sb", BAL_SYN_RECV},       {"Sba", BAL_SYN_RECV},
        {"SbA", BAL_ESTABLISHED},   {"SbAaAaA", BAL_ESTABLISHED},
        {"SbAS", BAL_ESTABLISHED},  {"SbAF", BAL_FIN_WAIT},
        {"SbAFa", BAL_CLOSE_WAIT},  {"SbAFaf", BAL_LAST_ACK},
        {"SbAFafA", BAL_TIME_WAIT}, {"SbAfAFa", BAL_TIME_WAIT},
        {"SbAFfAa", BAL_TIME_WAIT}, /* both close at once */
        {"Ss", BAL_SYN_SENT2},      /* simultaneous open */
        {"SsB", BAL_SYN_RECV},      {"SsBA", BAL_ESTABLISHED},
        {"SbAR", BAL_CLOSE},        {"Sr", BAL_CLOSE}, /* refused */
        {"SbAr", BAL_CLOSE},        {"SbAFafAS", BAL_REOPEN},
        {"SrS", BAL_REOPEN},        {"SrSSb", BAL_SYN_RECV},
        {"A", BAL_LOOSE},           {"Aa", BAL_ESTABLISHED},
        {"AA", BAL_LOOSE},          {"AR", BAL_LOOSE}, /* a stranger's RST ends nothing that was answered */
        {"Ar", BAL_CLOSE},
    };
    for (unsigned i = 0; i < sizeof(is) / sizeof(is[0]); i++)
        if (after(is[i].segments, true) != is[i].end)
            fail_msg("%s: state %d, not %d", is[i].segments, after(is[i].segments, true), is[i].end);
}

static void the_client_alone_in_sight(void **state)
{
    (void)state;
    assert_int_equal(after("S", false), BAL_SYN_SENT);
    assert_int_equal(after("SA", false), BAL_ESTABLISHED);
    assert_int_equal(after("SAAA", false), BAL_ESTABLISHED);
    assert_int_equal(after("SAF", false), BAL_FIN_WAIT);
    assert_int_equal(after("SAFA", false), BAL_FIN_WAIT); /* half-closed: the worker may go on sending */
    assert_int_equal(after("SAFAS", false), BAL_REOPEN);
    assert_int_equal(after("SR", false), BAL_CLOSE);
    assert_int_equal(after("SRS", false), BAL_REOPEN);
    assert_int_equal(after("AA", false), BAL_ESTABLISHED);
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
                int next = bal_tcp_next(s, (uint8_t)flags, (enum bal_side)side);
                assert_true(next == BAL_REOPEN || (next >= 0 && next <= BAL_LOOSE));
                /* An established connection ends only by FIN or RST. */
                if (s == BAL_ESTABLISHED && !(flags & (BAL_FIN | BAL_RST))) assert_int_equal(next, s);
                /* A worker never opens anything again. */
                if (side == BAL_FROM_WORKER) assert_int_not_equal(next, BAL_REOPEN);
            }
}

static void only_what_was_never_answered_is_evictable(void **state)
{
    (void)state;
    assert_false(BAL_EVICTABLE >> BAL_ESTABLISHED & 1);
    assert_false(BAL_EVICTABLE >> BAL_ROCE_LIVE & 1);
    assert_false(BAL_EVICTABLE >> BAL_UDP_STREAM & 1);
    assert_true(BAL_EVICTABLE >> BAL_SYN_SENT & 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_in_sight),
        cmocka_unit_test(the_client_alone_in_sight),
        cmocka_unit_test(nonsense_opens_nothing),
        cmocka_unit_test(only_what_was_never_answered_is_evictable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
