/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a server of OpenAI's API, as they come. */
#ifndef GW_CLI_CHAT_STREAM_H
#define GW_CLI_CHAT_STREAM_H

#include <stdbool.h>

#include "src/client/http_client.h"

struct gw_chat_stream;

/* It keeps the pointers of `opts`. 0 or -ENOMEM. */
int gw_chat_stream_open(const struct gw_http_opts *opts, struct gw_chat_stream **out);
/* NULL is allowed. */
void gw_chat_stream_close(struct gw_chat_stream *s);

/*
 * Asks v1/chat/completions with a body that has "stream": true, and gives each piece of text to `take`. It
 * ends when the answer does. 0; -EINTR: opts.give_up, and the server has been told by the connection's end;
 * else a negative errno with gw_last_error()'s line, as gw_http_call.
 */
int gw_chat_stream_ask(struct gw_chat_stream *s, const json_t *body,
                       void (*take)(void *ctx, const char *text), void *ctx);

#endif
