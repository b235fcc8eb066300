/* SPDX-License-Identifier: Apache-2.0 */
/* probe_script.h: checks that are programs: how many may run at once. */
#ifndef GW_BALANCE_CONTROL_PROBE_SCRIPT_H
#define GW_BALANCE_CONTROL_PROBE_SCRIPT_H

#include <stdbool.h>

#define GW_BAL_SCRIPTS 16u /* at once */

/* May another script begin? */
bool gw_bal_script_room(void);

#endif
