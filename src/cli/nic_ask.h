/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the software NICs that are in use on this machine, and asking them (softnic/runtime/control.h). */
#ifndef GW_CLI_NIC_ASK_H
#define GW_CLI_NIC_ASK_H

#include <jansson.h>
#include <sys/types.h>

/*
 * The answers of all NICs of this user to a request, as an array; "pid" in each is as this process sees it.
 * pid: that process's NIC alone, whoever's it is as long as it answers; 0: all. NULL: no memory, or the
 * system does not say which sockets there are.
 */
json_t *gw_nic_ask(const char *request, pid_t pid);

#endif
