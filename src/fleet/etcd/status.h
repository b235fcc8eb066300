/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd's refusals mean. */
#ifndef GW_FLEET_ETCD_STATUS_H
#define GW_FLEET_ETCD_STATUS_H

#include <stdbool.h>

/* What a refusal means, as an errno of fleet_etcd_done. */
int fleet_etcd_errno(unsigned status, const char *why);
/* Is it the member's fault, so that another one may do better? */
bool fleet_etcd_is_members_fault(unsigned status, const char *why);

#endif
