/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text safe for a terminal and a log. */
#include "src/door/plain.h"

#include <stdio.h>

const char *gw_plain_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
    for (char *c = to; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return to;
}
