/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpuwire serve` and `gpuwire router` share: the options of their doors, their access log, and the
 * lines that they say. */
#ifndef GW_CLI_DOORS_H
#define GW_CLI_DOORS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/cli/serve_grpc.h"
#include "src/server/http/http.h"

struct gw_cli_doors {
    struct gw_http_door_opts http;
    struct gw_cli_grpc grpc;
    uint64_t drain_ns;      /* how long requests under way may take when the process ends */
    const char *access_log; /* a file, or "-": standard output; NULL: none */
};

/* getopt's values of the options. Those of a command itself begin with GW_CLI_DOORS_END. */
enum {
    GW_CLI_LISTEN = 256,
    GW_CLI_PORT,
    GW_CLI_GRPC,
    GW_CLI_BODY,
    GW_CLI_CERT,
    GW_CLI_KEY,
    GW_CLI_TOKEN,
    GW_CLI_HEALTH,
    GW_CLI_METRICS,
    GW_CLI_CONNECTIONS,
    GW_CLI_PROXY,
    GW_CLI_HOST_NAME,
    GW_CLI_DRAIN,
    GW_CLI_ACCESS,
    GW_CLI_LEVEL,
    GW_CLI_DOORS_END
};

/* Lines of a table of struct option. */
/* clang-format off */
#define GW_CLI_DOORS_OPTIONS                                                                                 \
    {"listen", 1, NULL, GW_CLI_LISTEN},                                                                      \
    {"port", 1, NULL, GW_CLI_PORT},                                                                          \
    {"grpc", 1, NULL, GW_CLI_GRPC},                                                                          \
    {"max-body", 1, NULL, GW_CLI_BODY},                                                                      \
    {"tls-cert", 1, NULL, GW_CLI_CERT},                                                                      \
    {"tls-key", 1, NULL, GW_CLI_KEY},                                                                        \
    {"token-file", 1, NULL, GW_CLI_TOKEN},                                                                   \
    {"open-health", 0, NULL, GW_CLI_HEALTH},                                                                 \
    {"metrics-port", 1, NULL, GW_CLI_METRICS},                                                               \
    {"connections-per-client", 1, NULL, GW_CLI_CONNECTIONS},                                                 \
    {"trusted-proxy", 1, NULL, GW_CLI_PROXY},                                                                \
    {"host-name", 1, NULL, GW_CLI_HOST_NAME},                                                                \
    {"drain-seconds", 1, NULL, GW_CLI_DRAIN},                                                                \
    {"access-log", 1, NULL, GW_CLI_ACCESS},                                                                  \
    {"log-level", 1, NULL, GW_CLI_LEVEL}
/* clang-format on */

/* Option `id` of that command has this value; mistakes call it `name`. 0; GW_EXIT_USAGE; -1: it is none of
 * these. */
int gw_cli_doors_set(const char *command, struct gw_cli_doors *d, int id, const char *name,
                     const char *value);
/* When all are set: a gRPC port that was not named. */
void gw_cli_doors_settle(struct gw_cli_doors *d);

/* Says who can come in, when other hosts can. */
void gw_cli_doors_warn(const struct gw_cli_doors *d);
/* A line for scripts, on standard output; or, when the access log is there (quiet 1), in the log. */
__attribute__((format(printf, 2, 3))) void gw_cli_doors_tell(int quiet, const char *format, ...);

/* Opens the access log, if there is to be one, and catches SIGHUP then: *hangup_fd, else -1. */
int gw_cli_doors_log(const struct gw_cli_doors *d, struct gw_access **access, int *hangup_fd);
/* Opens the access log again when SIGHUP has come. */
void gw_cli_doors_reopen(struct gw_access *access, int hangup_fd);

/* Messages of some hundred kilobytes come and go. So malloc keeps memory that it would give back. */
void gw_cli_doors_keep_memory(void);

/* Will a start that failed with `err` fail again until a setting changes, or a file that a setting names?
 * systemd does not try again then. What is not there yet (an address, a port, memory) may come. */
bool gw_cli_doors_is_a_setting(int err);

#endif
