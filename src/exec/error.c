/* SPDX-License-Identifier: Apache-2.0 */
/* The last failure's reason, one line per thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/exec/c_locale.h"

static __thread char last[512] = "no error";

const char *gw_last_error(void)
{
    return last;
}

static void exec_error_record(const char *format, va_list args, int err)
{
    char line[sizeof(last)]; /* formatted aside: an argument may be gw_last_error() itself */
    size_t n;
    char *p;

    locale_t before = gw_c_locale_enter();
    vsnprintf(line, sizeof(line), format, args);
    gw_c_locale_leave(before);
    n = strlen(line);
    if (err)
        snprintf(line + n, sizeof(line) - n, ": %s", strerrordesc_np(-err) ? strerrordesc_np(-err) : "?");
    for (p = line; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = ' '; /* a stranger's file may have put it there */
    }
    memcpy(last, line, sizeof(last));
}

int gw_error(int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    exec_error_record(format, args, 0);
    va_end(args);
    return err;
}

int gw_error_errno(int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    exec_error_record(format, args, err);
    va_end(args);
    return err;
}
