/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/page.h"

/* cmake/embed.cmake makes them from src/balance/control/page. */
#define EMBEDDED(name)                                                                                       \
    extern const unsigned char gw_embedded_##name[];                                                         \
    extern const size_t gw_embedded_##name##_bytes
EMBEDDED(balance_html);
EMBEDDED(balance_css);
EMBEDDED(balance_js);

const struct gw_http_file gw_bal_page[] = {
    {"/", "text/html; charset=utf-8", gw_embedded_balance_html, &gw_embedded_balance_html_bytes},
    {"/balance.css", "text/css; charset=utf-8", gw_embedded_balance_css, &gw_embedded_balance_css_bytes},
    {"/balance.js", "text/javascript; charset=utf-8", gw_embedded_balance_js, &gw_embedded_balance_js_bytes},
    {0},
};
