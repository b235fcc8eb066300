/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GW_DOOR_PLAIN_H
#define GW_DOOR_PLAIN_H

#include <stddef.h>

/* Copies what the other side has said, so that nothing of it steers a terminal. Returns `to`. */
const char *gw_plain_text(char *to, size_t size, const char *from);

#endif
