/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GW_GENERATE_OPENAI_PAGE_H
#define GW_GENERATE_OPENAI_PAGE_H

#include "src/door/httpd.h"

/* The files of the page on which people chat. */
const struct gw_http_file *gen_openai_page(void);

#endif
