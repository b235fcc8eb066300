/* SPDX-License-Identifier: Apache-2.0 */
/* Software NICs as text, for people. */
#ifndef GW_CLI_NIC_PRINT_H
#define GW_CLI_NIC_PRINT_H

#include <jansson.h>

/*
 * Prints what a NIC answered to "show". before: its answer `seconds` ago, for rates; NULL: none. qpn: all
 * about that queue pair, 0: a line for each.
 */
void gw_nic_print(const json_t *nic, const json_t *before, double seconds, unsigned qpn);

#endif
