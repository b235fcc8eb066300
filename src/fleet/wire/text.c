/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a text of a stranger may be printed and used as a name. */
#include <string.h>

#include "src/fleet/wire/conn.h"

/* Bytes of the character at p, or 0 if it is none: overlong, a surrogate, beyond Unicode, or a control. */
static size_t text_character(const uint8_t *p, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > left) return 0;
    uint32_t c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    bool odd = c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || c < 0xa0;
    return odd ? 0 : n;
}

bool fleet_text_ok(const char *field, size_t size)
{
    const uint8_t *p = (const uint8_t *)field;
    size_t bytes = strnlen(field, size);
    if (bytes == size) return false;
    for (size_t i = 0, n; i < bytes; i += n)
        if (!(n = text_character(p + i, bytes - i))) return false;
    return true;
}
