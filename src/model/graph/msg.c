/* SPDX-License-Identifier: Apache-2.0 */
/* Error lines: one line that names the file, with nothing in it that could drive a terminal. */
#include <stdarg.h>
#include <stdio.h>

#include "src/model/graph/msg.h"

int gwm_fail(const struct gwm_msg *msg, int code, const char *fmt, ...)
{
    va_list ap;

    if (!msg || !msg->text || !msg->len) return code;
    int n = snprintf(msg->text, msg->len, "%.120s: ", msg->file ? msg->file : "model");
    if (n < 0 || (size_t)n >= msg->len) n = 0;
    va_start(ap, fmt);
    vsnprintf(msg->text + n, msg->len - n, fmt, ap);
    va_end(ap);
    /* Nothing may break the line or drive a terminal; and only the user's own path may be more than ASCII. */
    for (char *p = msg->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || ((unsigned char)*p > 0x7f && p >= msg->text + n))
            *p = '?';
    return code;
}
