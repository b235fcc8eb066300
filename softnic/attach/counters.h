/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of a port, as the kernel shows them for a ConnectX. */
#ifndef SOFTNIC_ATTACH_COUNTERS_H
#define SOFTNIC_ATTACH_COUNTERS_H

/* sn_counters_refresh - if the path, below /sys, leads to a port or its counters, writes them as they are
 * now. */
void sn_counters_refresh(const char *path);

#endif
