/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: asks the leading controller now and then which models there are, and keeps a catalog. While no
 * controller answers, the catalog stays as it is. */
#ifndef GW_FLEET_ROUTER_LIST_H
#define GW_FLEET_ROUTER_LIST_H

#include "src/fleet/router/catalog.h"

struct fleet_list;

/* Starts a thread. `client` says where the leader is; `o` are its options. Both and the catalog outlive the
 * list. 0 or a negative errno with the reason in gw_last_error(). */
int fleet_list_open(const struct fleet_client_opts *o, struct fleet_client *client,
                    struct fleet_catalog *catalog, struct fleet_list **out);
/* NULL is allowed. */
void fleet_list_close(struct fleet_list *l);

#endif
