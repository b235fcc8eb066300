/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.h: what the two files of test_verbs_loopback share. */
#ifndef TESTS_VERBS_LOOPBACK_H
#define TESTS_VERBS_LOOPBACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "src/verbs/impl.h"
#include "tests/verbs/pair.h"

static inline void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* loopback_ends.c; *state is the device. */
void test_wrong_keys(void **state);
void test_peer_without_receive(void **state);
void test_peer_gone(void **state);
void test_full_queue(void **state);
void test_reset(void **state);
void test_reset_forgets_what_was_ready(void **state);
void test_limits(void **state);

#endif
