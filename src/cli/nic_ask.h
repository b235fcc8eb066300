/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the software NICs that are in use on this machine, and asking them (softnic/runtime/control.h). */
#ifndef GW_CLI_NIC_ASK_H
#define GW_CLI_NIC_ASK_H

#include <jansson.h>
#include <sys/types.h>

/*
 * The answers of all NICs of this user to a request, as an array. The "pid" in each is as this process sees
 * it. With pid not 0: that process's NIC alone, also another user's if it answers. NULL: no memory, or the
 * system does not say which sockets there are.
 */
json_t *gw_nic_ask(const char *request, pid_t pid);

#endif
