/* SPDX-License-Identifier: Apache-2.0 */
/* The page that browsers show: what `metrics` tells, live. Its files lie in src/server/http/page, and in the
 * program. */
#ifndef GW_SERVER_HTTP_PAGE_H
#define GW_SERVER_HTTP_PAGE_H

#include "src/door/httpd.h"

/* Its parts, for a gw_httpd_handler: lives as long as the program. */
const struct gw_http_file *gw_http_page(void);

#endif
