/* SPDX-License-Identifier: Apache-2.0 */
/* Where an error line goes. */
#ifndef GW_MODEL_GRAPH_MSG_H
#define GW_MODEL_GRAPH_MSG_H

#include <stddef.h>

struct gwm_msg {
    char *text;
    size_t len;
    const char *file;
};

/* Writes "FILE: …", control characters and non-ASCII bytes replaced, and returns `code`. */
int gwm_fail(const struct gwm_msg *msg, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
