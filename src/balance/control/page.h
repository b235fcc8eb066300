/* SPDX-License-Identifier: Apache-2.0 */
/* The page that a browser gets at /: it asks the API every second. Its files lie in src/balance/control/page,
 * and in the program. */
#ifndef GW_BALANCE_CONTROL_PAGE_H
#define GW_BALANCE_CONTROL_PAGE_H

#include "src/door/httpd.h"

extern const struct gw_http_file gw_bal_page[]; /* for a gw_httpd_handler */

#endif
