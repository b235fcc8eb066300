/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the balancer's page. */
#include "src/balance/control/page.h"

#include "src/door/page.h"

GW_PAGE_EMBEDDED(balance_html);
GW_PAGE_EMBEDDED(balance_css);
GW_PAGE_EMBEDDED(balance_js);
GW_PAGE_EMBEDDED(worker_js);

const struct gw_http_file gw_bal_page[] = {
    GW_PAGE_FILE("/", "text/html", balance_html),
    GW_PAGE_FILE("/balance.css", "text/css", balance_css),
    GW_PAGE_FILE("/balance.js", "text/javascript", balance_js),
    GW_PAGE_FILE("/worker.js", "text/javascript", worker_js),
    GW_PAGE_COMMON,
    {0},
};
