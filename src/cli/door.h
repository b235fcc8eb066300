/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say which server is asked, how, and with what requests: the same for all commands that
 * ask one. */
#ifndef GW_CLI_DOOR_H
#define GW_CLI_DOOR_H

#include <gpuwire/client.h>

enum {
    GW_DOOR_SERVER = 256,
    GW_DOOR_FLEET,
    GW_DOOR_TOKEN_FILE,
    GW_DOOR_CA_FILE,
    GW_DOOR_VERSION,
    GW_DOOR_SLOTS,
    GW_DOOR_PRIORITY,
    GW_DOOR_DEADLINE,
    GW_DOOR_OPTIONS_END
};

#define GW_DOOR_OPTIONS                                                                                      \
    {"server", 1, NULL, GW_DOOR_SERVER}, {"fleet", 1, NULL, GW_DOOR_FLEET},                                  \
        {"token-file", 1, NULL, GW_DOOR_TOKEN_FILE}, {"ca-file", 1, NULL, GW_DOOR_CA_FILE},                  \
        {"model-version", 1, NULL, GW_DOOR_VERSION}, {"slots", 1, NULL, GW_DOOR_SLOTS},                      \
        {"priority", 1, NULL, GW_DOOR_PRIORITY},                                                             \
    {                                                                                                        \
        "deadline", 1, NULL, GW_DOOR_DEADLINE                                                                \
    }

struct gw_door_options {
    const char *server, *fleet, *token_file, *ca_file, *version;
    char token[4097];
    char url[1024]; /* of the fleet */
    uint32_t slots; /* 0: the server's choice */
    struct gw_client_request request;
};

/* 0: it was one of these options; GW_EXIT_USAGE: the same, and what is wrong with its value is said; -1: it
 * was none. */
int gw_door_option(const char *command, struct gw_door_options *d, int option, const char *value);
/* Reads what follows the options: one word, the model. 0, or GW_EXIT_USAGE after saying what is
 * wrong. */
int gw_door_model(const char *command, int argc, char **argv, struct gw_client_opts *opts);
/* Reads the token, and fills the client's part; *d must outlive it. 0, or a negative errno with
 * gw_last_error(). */
int gw_door_options_use(struct gw_door_options *d, struct gw_client_opts *opts);

#endif
