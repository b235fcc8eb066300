/* SPDX-License-Identifier: Apache-2.0 */
/* A connection for questions to a server at HOST:PORT. */
#ifndef TESTS_SERVE_ASK_H
#define TESTS_SERVE_ASK_H

#include <stdio.h>
#include <string.h>

#include "src/client/http_client.h"

static inline int ask_open(const char *server, struct gw_http **out)
{
    char base[128];
    struct gw_http_opts opts;
    memset(&opts, 0, sizeof(opts));
    opts.base = base;
    opts.timeout_ns = 60000000000u;
    snprintf(base, sizeof(base), "http://%s/", server);
    return gw_http_open(&opts, out);
}

#endif
