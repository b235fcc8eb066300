/* SPDX-License-Identifier: Apache-2.0 */
/* The files of pages for browsers. Each is a part of the program, which gw_embed of cmake makes of it. Every
 * page has those in src/door/page. */
#ifndef GW_DOOR_PAGE_H
#define GW_DOOR_PAGE_H

#include <stddef.h>

#include "src/door/httpd.h"

/* NAME_EXTENSION is a file that was embedded. */
#define GW_PAGE_EMBEDDED(name)                                                                               \
    extern const unsigned char gw_embedded_##name[];                                                         \
    extern const size_t gw_embedded_##name##_bytes
#define GW_PAGE_FILE(path, type, name)                                                                       \
    {                                                                                                        \
        path, type "; charset=utf-8", gw_embedded_##name, &gw_embedded_##name##_bytes                        \
    }

GW_PAGE_EMBEDDED(common_css);
GW_PAGE_EMBEDDED(common_js);
GW_PAGE_EMBEDDED(chart_js);

/* What every page's list of files has. */
#define GW_PAGE_COMMON                                                                                       \
    GW_PAGE_FILE("/common.css", "text/css", common_css),                                                     \
        GW_PAGE_FILE("/common.js", "text/javascript", common_js),                                            \
        GW_PAGE_FILE("/chart.js", "text/javascript", chart_js)

#endif
