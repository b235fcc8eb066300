/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assert.h: GW_ASSERT states an invariant of our own code. It never looks at input: what a peer, a file or a
 * caller gives is checked, and refused with an error. Where GW_ASSERTS is defined (debug, sanitizer and fuzz
 * builds, and ./check.sh), a statement that does not hold ends the program with its place. Elsewhere, and on
 * a GPU, it is not compiled: the expression must have no side effect.
 *
 * GW_CHECK(queue_check(q)) calls a function of several such statements, in the same builds. GW_CHECKS stands
 * before the function if it is static.
 */
#ifndef GPUWIRE_DETAIL_ASSERT_H
#define GPUWIRE_DETAIL_ASSERT_H

#define GW_CHECKS __attribute__((unused)) static

#if defined(GW_ASSERTS) && !defined(__CUDACC__)

#include <stdio.h>
#include <stdlib.h>

static inline void gw_assert_failed_(const char *what, const char *file, int line)
{
    fprintf(stderr, "gpuwire: %s:%d: not so: %s\n", file, line, what);
    abort();
}

#define GW_ASSERT(what) ((what) ? (void)0 : gw_assert_failed_(#what, __FILE__, __LINE__))
#define GW_CHECK(call)  (call)

#else

#define GW_ASSERT(what) ((void)sizeof(!(what)))
#define GW_CHECK(call)  ((void)sizeof((call), 0))

#endif

#endif
