/* SPDX-License-Identifier: Apache-2.0 */
/* Whose CLOCK_MONOTONIC it is: processes of one running system read the same one. */
#ifndef GW_SERVER_WIRE_CLOCK_H
#define GW_SERVER_WIRE_CLOCK_H

#define GW_CLOCK_TEXT 48

/* The system's name for this boot; "" when it has none, and then no clock is known to be the same. */
void gw_clock_name(char name[GW_CLOCK_TEXT]);

#endif
