/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a server: what it did in the last seconds, as JSON. */
#ifndef FACE_PAGE_WATCH_H
#define FACE_PAGE_WATCH_H

#include "apps/faceverify/page/page.h"

struct face_watch;

/* Begins: a thread looks ten times a second. -ENOMEM, -EAGAIN: no thread. */
int face_watch_start(const struct face_page_source *source, struct face_watch **out);
void face_watch_stop(struct face_watch *w);
/* Writes what the page shows now: free() it; NULL: no memory. Any thread. */
char *face_watch_json(struct face_watch *w, size_t *bytes);

#endif
