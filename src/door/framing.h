/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose headers may be understood in two ways. */
#ifndef GW_DOOR_FRAMING_H
#define GW_DOOR_FRAMING_H

#include <microhttpd.h>

/* NULL: there is one way to find the call's end, one Host, and no header's name has a space. Otherwise why
 * the call is refused. */
const char *gw_http_framing(struct MHD_Connection *c);

#endif
