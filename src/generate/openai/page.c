/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page on which people chat. */
#include "src/generate/openai/page.h"

#include "src/door/page.h"

GW_PAGE_EMBEDDED(chat_html);
GW_PAGE_EMBEDDED(chat_css);
GW_PAGE_EMBEDDED(chat_js);

static const struct gw_http_file page_files[] = {
    GW_PAGE_FILE("/", "text/html", chat_html),
    GW_PAGE_FILE("/chat.css", "text/css", chat_css),
    GW_PAGE_FILE("/chat.js", "text/javascript", chat_js),
    GW_PAGE_COMMON,
    {0},
};

const struct gw_http_file *gen_openai_page(void)
{
    return page_files;
}
