/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GW_DOOR_DEPTH_H
#define GW_DOOR_DEPTH_H

#include <stddef.h>

/* How many arrays and objects of a text that may be JSON lie in one another. */
int gw_json_depth(const char *text, size_t bytes);

#endif
