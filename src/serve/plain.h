/* SPDX-License-Identifier: Apache-2.0 */
/* What the other side has said, so that nothing of it steers a terminal. */
#ifndef GW_SERVE_PLAIN_H
#define GW_SERVE_PLAIN_H

#include <stddef.h>

/* Copies the text; what is not printable ASCII becomes "?". Returns `to`. */
const char *gw_plain_text(char *to, size_t size, const char *from);

#endif
