/* SPDX-License-Identifier: Apache-2.0 */
/* The link of this process' software NIC, over which a test disposes: as `gpuwire nic --fault` does. */
#ifndef GW_TESTS_VERBS_LINK_H
#define GW_TESTS_VERBS_LINK_H

#include <stdbool.h>

/* Is the device of the tests a software NIC? */
bool link_can(void);
/* Values as in GPUWIRE_NIC: "tx.down=0", "none", … */
void link_set(const char *faults);

#endif
