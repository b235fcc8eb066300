/* SPDX-License-Identifier: Apache-2.0 */
/* Options of all commands that ask a server: its URL, its token, its model. */
#include "src/cli/door.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"

#define MAX_DEADLINE_MS 86400000

/* Milliseconds, or with a unit: 20, 20ms, 500us, 1.5s. */
static int cli_door_deadline(const char *command, struct gw_door_options *d, const char *value)
{
    char *end = NULL;
    double ms = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : 0;
    double unit = !end                          ? 0
                  : !*end || !strcmp(end, "ms") ? 1
                  : !strcmp(end, "us")          ? 1e-3
                  : !strcmp(end, "s")           ? 1e3
                                                : 0;
    ms *= unit;
    if (!(ms >= 1e-3 && ms <= MAX_DEADLINE_MS))
        return gw_usage_error(command,
                              "--deadline %s: must be milliseconds up to %d, or a number with us, ms or s",
                              value, MAX_DEADLINE_MS);
    d->request.budget_ns = (uint64_t)(ms * 1e6);
    return 0;
}

static int cli_door_number(const char *command, struct gw_door_options *d, int option, const char *value)
{
    uint64_t n = 0;
    int wrong;
    switch (option) {
    case GW_DOOR_SLOTS:
        wrong = gw_option_number(command, "--slots", value, 1, GW_CLIENT_MAX_SLOTS, &n);
        d->slots = (uint32_t)n;
        return wrong;
    case GW_DOOR_PRIORITY:
        wrong = gw_option_number(command, "--priority", value, 1, UINT32_MAX, &n);
        d->request.priority = (uint32_t)n;
        return wrong;
    case GW_DOOR_DEADLINE: return cli_door_deadline(command, d, value);
    default: return -1;
    }
}

int gw_door_option(const char *command, struct gw_door_options *d, int option, const char *value)
{
    switch (option) {
    case GW_DOOR_SERVER: d->server = value; return 0;
    case GW_DOOR_FLEET: d->fleet = value; return 0;
    case GW_DOOR_TOKEN_FILE: d->token_file = value; return 0;
    case GW_DOOR_CA_FILE: d->ca_file = value; return 0;
    case GW_DOOR_VERSION: d->version = value; return 0;
    default: return cli_door_number(command, d, option, value);
    }
}

int gw_door_model(const char *command, int argc, char **argv, struct gw_client_opts *opts)
{
    if (optind >= argc) return gw_usage_error(command, "which model?");
    opts->model = argv[optind++];
    return optind < argc ? gw_usage_error(command, "%s: not an option", argv[optind]) : 0;
}

/* The first line of the file. */
static int cli_door_read_token(struct gw_door_options *d)
{
    FILE *f = fopen(d->token_file, "re");
    if (!f) return gw_error_errno(-errno, "%s", d->token_file);
    int there = fgets(d->token, sizeof(d->token), f) != NULL;
    int whole = there && (strchr(d->token, '\n') || fgetc(f) == EOF);
    fclose(f);
    d->token[strcspn(d->token, "\r\n")] = 0;
    if (!there || !whole || !d->token[0])
        return gw_error(-EINVAL, "%s: it has no token of 1 to %zu characters in its first line",
                        d->token_file, sizeof(d->token) - 2);
    return 0;
}

/* Controllers, or the etcd that knows them: http://HOST:PORT[,http://HOST:PORT]. */
static int cli_door_fleet(struct gw_door_options *d)
{
    static const char http[] = "http://";
    const size_t skip = sizeof(http) - 1;
    bool etcd = !strncmp(d->fleet, http, skip);
    if (d->server) return gw_error(-EINVAL, "--server and --fleet do not go together");
    if (strlen(d->fleet) + sizeof("fleet+etcd://") > sizeof(d->url))
        return gw_error(-EINVAL, "--fleet: it is too long");
    char *to = stpcpy(d->url, etcd ? "fleet+etcd://" : "fleet://");
    bool begins = true; /* an address */
    for (const char *at = d->fleet; *at; at++) {
        if (etcd && begins && !strncmp(at, http, skip)) {
            at += skip - 1;
            begins = false;
            continue;
        }
        begins = *at == ',';
        *to++ = *at;
    }
    *to = 0;
    d->server = d->url;
    return 0;
}

int gw_door_options_use(struct gw_door_options *d, struct gw_client_opts *opts)
{
    int err = d->token_file ? cli_door_read_token(d) : 0;
    if (!err && d->fleet) err = cli_door_fleet(d);
    opts->server = d->server ? d->server : "127.0.0.1:8000";
    opts->token = d->token_file ? d->token : NULL;
    opts->ca_file = d->ca_file;
    opts->version = d->version;
    opts->slots = d->slots;
    return err;
}
