/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to a text that grows. */
#include "src/door/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/c_locale.h"

char *gw_text_room(struct gw_text *t, size_t more)
{
    if (t->broken) return NULL;
    if (t->room - t->bytes <= more) {
        size_t room = t->room ? t->room : 256;
        while (room - t->bytes <= more && room <= SIZE_MAX / 2) room *= 2;
        char *bigger = room - t->bytes > more ? realloc(t->at, room) : NULL;
        if (!bigger) {
            t->broken = 1;
            return NULL;
        }
        t->at = bigger;
        t->room = room;
    }
    return t->at + t->bytes;
}

void gw_text_add(struct gw_text *t, const void *data, size_t bytes)
{
    char *to = gw_text_room(t, bytes);
    if (!to) return;
    memcpy(to, data, bytes);
    t->bytes += bytes;
    t->at[t->bytes] = 0;
}

void gw_text_printf(struct gw_text *t, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    locale_t before = gw_c_locale_enter();
    int n = vsnprintf(line, sizeof(line), format, args);
    gw_c_locale_leave(before);
    va_end(args);
    if (n < 0 || n >= (int)sizeof(line))
        t->broken = 1;
    else
        gw_text_add(t, line, (size_t)n);
}

void gw_text_json(struct gw_text *t, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (text)
        gw_text_add(t, text, strlen(text));
    else
        t->broken = 1;
    free(text);
}
