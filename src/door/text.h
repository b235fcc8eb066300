/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows: what answers are written into. When memory is lacking it stays `broken`, and appending
 * goes on doing nothing: the reader of the text looks once. */
#ifndef GW_DOOR_TEXT_H
#define GW_DOOR_TEXT_H

#include <jansson.h>
#include <stddef.h>

struct gw_text {
    char *at; /* with a final zero that `bytes` does not count; the owner frees it */
    size_t bytes, room;
    int broken;
};

/* Room for `bytes` bytes more: where they go, or NULL. The caller adds what it wrote to t->bytes. */
char *gw_text_room(struct gw_text *t, size_t more);
void gw_text_add(struct gw_text *t, const void *data, size_t bytes);
void gw_text_printf(struct gw_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends it as JSON, and takes the reference. */
void gw_text_json(struct gw_text *t, json_t *value);

#endif
