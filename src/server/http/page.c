/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the server's page. */
#include "src/server/http/page.h"

#include "src/door/page.h"

GW_PAGE_EMBEDDED(page_html);
GW_PAGE_EMBEDDED(page_css);
GW_PAGE_EMBEDDED(page_js);

static const struct gw_http_file files[] = {
    GW_PAGE_FILE("/", "text/html", page_html),
    GW_PAGE_FILE("/page.css", "text/css", page_css),
    GW_PAGE_FILE("/page.js", "text/javascript", page_js),
    GW_PAGE_COMMON,
    {0},
};

const struct gw_http_file *gw_http_page(void)
{
    return files;
}
