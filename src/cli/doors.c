/* SPDX-License-Identifier: Apache-2.0 */
/* The doors of `gpuwire serve` and `gpuwire router`: their options, their access log, their lines. */
#include "src/cli/doors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/options.h"
#include "src/door/listen.h"
#include "src/door/log.h"

#define KEPT_BYTES (4 << 20)

/* ---- options */

/* Options that are whole numbers, from min to max. */
static const struct {
    int id;
    uint64_t min, max;
} doors_numbers[] = {
    {GW_CLI_PORT, 0, 65535},  {GW_CLI_METRICS, 1, 65535}, {GW_CLI_CONNECTIONS, 1, GW_LISTEN_MAX},
    {GW_CLI_DRAIN, 0, 86400}, {GW_CLI_BODY, 1, 2048},
};

static int doors_set_number(const char *command, struct gw_cli_doors *d, int id, const char *name,
                            const char *value)
{
    uint64_t n = 0;
    size_t i = 0, all = sizeof(doors_numbers) / sizeof(*doors_numbers);
    while (i < all && doors_numbers[i].id != id) i++;
    if (i == all) return -1;
    int wrong = gw_option_number(command, name, value, doors_numbers[i].min, doors_numbers[i].max, &n);
    switch (id) {
    case GW_CLI_PORT: d->http.port = (uint16_t)n; break;
    case GW_CLI_METRICS: d->http.metrics_port = (uint16_t)n; break;
    case GW_CLI_CONNECTIONS: d->http.connections_each = (uint32_t)n; break;
    case GW_CLI_DRAIN: d->drain_ns = n * 1000000000u; break;
    default: d->http.max_body = n << 20; break;
    }
    return wrong;
}

static int doors_set_level(const char *command, const char *name, const char *value)
{
    int level = gw_log_parse(value);
    if (level < 0)
        return gw_usage_error(command, "%s %s: must be error, warning, info or debug", name, value);
    gw_log_set((enum gw_log_level)level);
    return 0;
}

int gw_cli_doors_set(const char *command, struct gw_cli_doors *d, int id, const char *name, const char *value)
{
    int wrong = doors_set_number(command, d, id, name, value);
    if (wrong >= 0) return wrong;
    switch (id) {
    case GW_CLI_LISTEN: d->http.host = value; break;
    case GW_CLI_CERT: d->http.cert = value; break;
    case GW_CLI_KEY: d->http.key = value; break;
    case GW_CLI_TOKEN: d->http.token_file = value; break;
    case GW_CLI_HEALTH: d->http.open_health = 1; break;
    case GW_CLI_PROXY: d->http.trusted_proxies = value; break;
    case GW_CLI_HOST_NAME: d->http.host_names = value; break;
    case GW_CLI_ACCESS: d->access_log = value; break;
    case GW_CLI_LEVEL: return doors_set_level(command, name, value);
    case GW_CLI_GRPC: return gw_cli_grpc_port(command, name, value, &d->grpc);
    default: return -1;
    }
    return 0;
}

void gw_cli_doors_settle(struct gw_cli_doors *d)
{
    if (!d->grpc.asked) d->grpc.port = d->http.port ? GW_CLI_GRPC_PORT : 0;
}

/* ---- lines */

static bool doors_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void gw_cli_doors_warn(const struct gw_cli_doors *d)
{
    const struct gw_http_door_opts *o = &d->http;
    if (!o->host || doors_is_loopback(o->host)) return;
    gw_log(GW_LOG_WARNING, "listening on %s: %s, and %s; tensors that go by RDMA are never encrypted",
           o->host,
           o->token_file ? "every client with the token may use every model"
                         : "every client that reaches it may use every model (see --token-file)",
           o->cert ? "HTTP is encrypted" : "HTTP is not encrypted (see --tls-cert)");
}

void gw_cli_doors_tell(int quiet, const char *format, ...)
{
    char line[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (quiet) {
        gw_log(GW_LOG_INFO, "%s", line);
    } else {
        puts(line);
        fflush(stdout);
    }
}

/* ---- the access log */

int gw_cli_doors_log(const struct gw_cli_doors *d, struct gw_access **access, int *hangup_fd)
{
    *hangup_fd = -1;
    if (!d->access_log) return 0;
    int err = gw_access_open(d->access_log, GW_ACCESS_ROOM, access);
    if (!err) *hangup_fd = gw_catch_hangup();
    return err ? err : *hangup_fd < 0 ? *hangup_fd : 0;
}

void gw_cli_doors_reopen(struct gw_access *access, int hangup_fd)
{
    uint64_t count;
    if (hangup_fd < 0 || read(hangup_fd, &count, sizeof(count)) < 0) return; /* none has come */
    gw_access_reopen(access);
    gw_log(GW_LOG_INFO, "the access log is opened again");
}

/* ---- the process */

/* Memory that each message gave back to the kernel would come again page by page, with a fault for each.
 * malloc keeps this much of every arena. */
void gw_cli_doors_keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

bool gw_cli_doors_is_a_setting(int err)
{
    switch (err) {
    case -EINVAL:
    case -ENOENT:
    case -ENOTDIR:
    case -EISDIR:
    case -EACCES:
    case -EPERM:
    case -ELOOP:
    case -ENAMETOOLONG:
    case -ENOTSUP:
    case -EBADMSG: return true;
    default: return false;
    }
}
