/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP server in front of two handlers: a call's path says whose it is. Files, and the words of what the
 * door itself refuses, are the first one's. */
#ifndef GW_DOOR_FORK_H
#define GW_DOOR_FORK_H

#include "src/door/httpd.h"

struct gw_http_fork {
    struct gw_httpd_handler own, beside;
    bool (*is_beside)(void *ctx, const char *path); /* with the second one's ctx */
};

/* The handler for both. The fork outlives it. */
struct gw_httpd_handler gw_http_fork_handler(struct gw_http_fork *f);

#endif
