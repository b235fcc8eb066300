/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a fleet's leader. */
#ifndef GW_CLI_FLEET_ASK_H
#define GW_CLI_FLEET_ASK_H

#include <stdbool.h>

#include <jansson.h>

struct gw_fleet_ask {
    const char *command;     /* for messages */
    const char *controllers; /* "HOST:PORT[,HOST:PORT]": the first that answers says who leads */
    const char *fleet, *token;
    bool quiet; /* a failure is not printed: gw_last_error() has it */
};

/* The leader's answer to the line, a new reference. 0, or an exit code after a line that says why. */
int gw_fleet_ask(const struct gw_fleet_ask *a, const char *line, json_t **answer);

#endif
