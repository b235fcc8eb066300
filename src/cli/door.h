/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say which server is asked, and how: the same for all commands that ask one. */
#ifndef GW_CLI_DOOR_H
#define GW_CLI_DOOR_H

#include <gpuwire/client.h>

enum { GW_DOOR_SERVER = 256, GW_DOOR_TOKEN_FILE, GW_DOOR_CA_FILE, GW_DOOR_VERSION, GW_DOOR_OPTIONS_END };

#define GW_DOOR_OPTIONS                                                                                      \
    {"server", 1, NULL, GW_DOOR_SERVER}, {"token-file", 1, NULL, GW_DOOR_TOKEN_FILE},                        \
        {"ca-file", 1, NULL, GW_DOOR_CA_FILE},                                                               \
    {                                                                                                        \
        "model-version", 1, NULL, GW_DOOR_VERSION                                                            \
    }

struct gw_door_options {
    const char *server, *token_file, *ca_file, *version;
    char token[4097];
};

/* 1: it was one of these options. */
int gw_door_option(struct gw_door_options *d, int option, const char *value);
/* Reads the token, and fills the client's part; *d must outlive it. 0, or a negative errno with
 * gw_last_error(). */
int gw_door_options_use(struct gw_door_options *d, struct gw_client_opts *opts);

#endif
