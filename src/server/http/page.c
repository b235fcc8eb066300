/* SPDX-License-Identifier: Apache-2.0 */
#include "src/server/http/page.h"

/* cmake/embed.cmake makes them from src/server/http/page. */
#define EMBEDDED(name)                                                                                       \
    extern const unsigned char gw_embedded_##name[];                                                         \
    extern const size_t gw_embedded_##name##_bytes
EMBEDDED(page_html);
EMBEDDED(page_css);
EMBEDDED(page_js);

static const struct gw_http_file files[] = {
    {"/", "text/html; charset=utf-8", gw_embedded_page_html, &gw_embedded_page_html_bytes},
    {"/page.css", "text/css; charset=utf-8", gw_embedded_page_css, &gw_embedded_page_css_bytes},
    {"/page.js", "text/javascript; charset=utf-8", gw_embedded_page_js, &gw_embedded_page_js_bytes},
    {0},
};

const struct gw_http_file *gw_http_page(void)
{
    return files;
}
