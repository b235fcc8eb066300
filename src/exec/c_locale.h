/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses our libraries may have a locale in which 2.5 is written 2,5. JSON, metrics and our own
 * lines are read by machines: while these are written or read, the thread has the C locale. */
#ifndef GW_EXEC_C_LOCALE_H
#define GW_EXEC_C_LOCALE_H

#include <locale.h>

/* Returns what gw_c_locale_leave needs. It allocates nothing: the C locale is a constant of the C library. */
static inline locale_t gw_c_locale_enter(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : (locale_t)0;
}

static inline void gw_c_locale_leave(locale_t before)
{
    if (before) freelocale(uselocale(before));
}

#endif
