/* SPDX-License-Identifier: Apache-2.0 */
#include "src/client/grpc_link.h"

#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>

#include "src/serve/plain.h"

#define CA_MOST    (4u << 20) /* bytes of a file of certificates */
#define AGAIN_MS   100        /* until a server that was gone is looked for again, and at most */
#define AGAIN_MOST 1000
#define FINE_NS    2000000 /* gRPC counts in milliseconds; who sends requests at their times needs less */
#define LOOK_NS    50000
#define NO_LOGS    ((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1))

/* ---- the connection ---- */

/* A file of certificates as text, which the caller frees. As with HTTP, one that cannot be read makes the
 * server's not trusted. */
static int read_certificates(const char *path, char **out)
{
    FILE *f = fopen(path, "re");
    const char *why = f ? NULL : strerror(errno);
    char *text = f ? calloc(1, CA_MOST + 1) : NULL;
    if (text && !fread(text, 1, CA_MOST, f) && ferror(f)) why = strerror(errno);
    if (f) fclose(f);
    if (!why && text && !strstr(text, "-----BEGIN CERTIFICATE-----")) why = "it holds no certificate (PEM)";
    *out = text;
    return why ? gw_error(-EACCES, "%s: %s", path, why) : text ? 0 : gw_error_errno(-ENOMEM, "client");
}

static int credentials(const struct gw_client *c, grpc_channel_credentials **out)
{
    char *roots = NULL;
    int error = c->url.encrypted && c->ca_file ? read_certificates(c->ca_file, &roots) : 0;
    if (!error)
        *out = c->url.encrypted ? grpc_ssl_credentials_create(roots, NULL, NULL, NULL)
                                : grpc_insecure_credentials_create();
    free(roots);
    if (error) return error;
    return *out ? 0 : gw_error(-ENOMEM, "client: no credentials for gRPC");
}

static grpc_arg number(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static grpc_channel *make_channel(const struct gw_client *c, grpc_channel_credentials *how, uint64_t most)
{
    grpc_arg arg[] = {
        number(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most < INT_MAX ? (int)most : INT_MAX),
        number(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        number(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, AGAIN_MS),
        number(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, AGAIN_MOST),
        number(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, AGAIN_MOST),
        number(GRPC_ARG_ENABLE_RETRIES, 0),            /* a request is sent once */
        number(GRPC_ARG_ENABLE_HTTP_PROXY, 0),         /* as with HTTP: a proxy would see the token */
        number(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* each client has a connection of its own */
        /* A few compressed bytes could become any number of bytes. */
        number(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    grpc_channel_args args = {sizeof(arg) / sizeof(arg[0]), arg};
    return grpc_channel_create(c->url.authority, how, &args);
}

int gw_link_open(const struct gw_client *c, uint64_t most, struct gw_link *l)
{
    grpc_channel_credentials *how = NULL;
    if (!getenv("GRPC_VERBOSITY")) gpr_set_log_verbosity(NO_LOGS); /* what goes wrong is said by us */
    grpc_init();
    *l = (struct gw_link){.client = c};
    int error = credentials(c, &how);
    if (!error) {
        l->channel = make_channel(c, how, most);
        l->cq = grpc_completion_queue_create_for_next(NULL);
        grpc_channel_credentials_release(how);
        if (!l->channel || !l->cq) error = gw_error_errno(-ENOMEM, "client");
    }
    if (error) gw_link_close(l);
    return error;
}

void gw_link_close(struct gw_link *l)
{
    gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    if (!l->client) return;
    if (l->channel) grpc_channel_destroy(l->channel);
    if (l->cq) {
        grpc_completion_queue_shutdown(l->cq);
        while (grpc_completion_queue_next(l->cq, forever, NULL).type != GRPC_QUEUE_SHUTDOWN) continue;
        grpc_completion_queue_destroy(l->cq);
    }
    grpc_shutdown_blocking();
    *l = (struct gw_link){0};
}

/* ---- calls ---- */

static gpr_timespec time_of(uint64_t deadline_ns)
{
    uint64_t now = gw_deadline(0);
    if (deadline_ns == GW_NEVER) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos((int64_t)left, GPR_TIMESPAN));
}

static int take_event(struct gw_link *l, gpr_timespec until)
{
    grpc_event e = grpc_completion_queue_next(l->cq, until, NULL);
    if (e.type != GRPC_OP_COMPLETE) return 0;
    ((struct gw_rpc *)e.tag)->seen = gw_deadline(0);
    return 1;
}

void gw_link_pump(struct gw_link *l, uint64_t deadline_ns)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    const gpr_timespec now = gpr_inf_past(GPR_CLOCK_MONOTONIC);
    uint64_t left = gw_deadline(0) < deadline_ns ? deadline_ns - gw_deadline(0) : 0;
    if (left > FINE_NS) {
        take_event(l, time_of(deadline_ns));
        return;
    }
    while (!take_event(l, now) && gw_deadline(0) < deadline_ns) nanosleep(&look, NULL);
}

/* The header that carries the token. The slices are the caller's to free. */
static size_t authorize(const char *token, grpc_metadata *m)
{
    char *line;
    if (!token || asprintf(&line, "Bearer %s", token) < 0) return 0;
    m->key = grpc_slice_from_static_string("authorization");
    m->value = grpc_slice_from_copied_string(line);
    free(line);
    return 1;
}

static int start_batch(struct gw_rpc *r, grpc_metadata *token, size_t tokens)
{
    const grpc_op op[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = tokens, .metadata = token}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = r->out},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &r->first},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &r->in},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &r->last,
                                        .status = &r->status,
                                        .status_details = &r->details}},
    };
    return grpc_call_start_batch(r->call, op, sizeof(op) / sizeof(op[0]), r, NULL) == GRPC_CALL_OK ? 0 : -EIO;
}

int gw_rpc_start(struct gw_link *l, struct gw_rpc *r, const char *method, grpc_byte_buffer *message,
                 uint64_t deadline_ns)
{
    grpc_slice path = grpc_slice_from_copied_string(method);
    grpc_metadata token;
    memset(&token, 0, sizeof(token));
    *r = (struct gw_rpc){.out = message, .details = grpc_empty_slice()};
    grpc_metadata_array_init(&r->first);
    grpc_metadata_array_init(&r->last);
    r->call = grpc_channel_create_call(l->channel, NULL, 0, l->cq, path, NULL, time_of(deadline_ns), NULL);
    grpc_slice_unref(path);
    size_t tokens = authorize(l->client->token, &token);
    int error = start_batch(r, &token, tokens);
    if (tokens) grpc_slice_unref(token.value);
    if (!error) return 0;
    r->seen = 1; /* nothing of it is under way */
    gw_rpc_end(l, r);
    return gw_error(error, "server %s: gRPC takes no call", l->client->url.base);
}

void gw_rpc_end(struct gw_link *l, struct gw_rpc *r)
{
    if (!r->call) return;
    if (!r->seen) grpc_call_cancel(r->call, NULL);
    while (!r->seen) gw_link_pump(l, GW_NEVER);
    grpc_metadata_array_destroy(&r->first);
    grpc_metadata_array_destroy(&r->last);
    grpc_slice_unref(r->details);
    if (r->out) grpc_byte_buffer_destroy(r->out);
    if (r->in) grpc_byte_buffer_destroy(r->in);
    grpc_call_unref(r->call);
    *r = (struct gw_rpc){0};
}

/* ---- what they end with ---- */

static const char *const status_names[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

/* gRPC has one status for a server that has gone and for one that says "not now". */
static int is_gone(const struct gw_link *l, const struct gw_rpc *r, const char *said)
{
    static const char *const signs[] = {
        "failed to connect", "Socket closed", "Connection reset", "GOAWAY",
        "Broken pipe",       "handshake",     "DNS resolution",   "transport"};
    if (r->status != GRPC_STATUS_UNAVAILABLE && r->status != GRPC_STATUS_UNKNOWN) return 0;
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strcasestr(said, signs[i])) return 1;
    return r->status == GRPC_STATUS_UNAVAILABLE &&
           grpc_channel_check_connectivity_state(l->channel, 0) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

static int errno_of(const struct gw_rpc *r, const char *said)
{
    switch (r->status) {
    case GRPC_STATUS_UNAUTHENTICATED:
    case GRPC_STATUS_PERMISSION_DENIED: return -EACCES;
    case GRPC_STATUS_DEADLINE_EXCEEDED: return -ETIME;
    case GRPC_STATUS_RESOURCE_EXHAUSTED: return strstr(said, "larger than max") ? -EINVAL : -EBUSY;
    case GRPC_STATUS_UNAVAILABLE:
        return strcasestr(said, "timeout") || strcasestr(said, "deadline") ? -ETIME : -ESHUTDOWN;
    case GRPC_STATUS_INVALID_ARGUMENT:
    case GRPC_STATUS_NOT_FOUND:
    case GRPC_STATUS_ALREADY_EXISTS:
    case GRPC_STATUS_FAILED_PRECONDITION:
    case GRPC_STATUS_OUT_OF_RANGE:
    case GRPC_STATUS_UNIMPLEMENTED: return -EINVAL;
    default: return -EREMOTEIO;
    }
}

/* gRPC wraps the cause into what it was doing. */
static const char *cause(const char *said)
{
    const char *last = strstr(said, "last error: "), *at = last ? last + strlen("last error: ") : said;
    return strncmp(at, "UNKNOWN: ", 9) ? at : at + 9;
}

static char *text_of(const struct gw_rpc *r, char *to, size_t size)
{
    char *said = grpc_slice_to_c_string(r->details);
    gw_plain_text(to, size, *said ? cause(said) : "no reason given");
    gpr_free(said);
    return to;
}

int gw_rpc_error(const struct gw_link *l, const struct gw_rpc *r, char *why, size_t size)
{
    char plain[240];
    size_t known = sizeof(status_names) / sizeof(status_names[0]);
    if (r->status == GRPC_STATUS_OK) return 0;
    char *said = grpc_slice_to_c_string(r->details);
    int error = is_gone(l, r, said) ? -ECONNRESET : errno_of(r, said);
    gpr_free(said);
    text_of(r, plain, sizeof(plain));
    if (error == -ECONNRESET)
        snprintf(why, size, "server %s has gone: %s", l->client->url.base, plain);
    else
        snprintf(why, size, "refused with status %s: %s",
                 (size_t)r->status < known ? status_names[r->status] : "unknown", plain);
    return error;
}

int gw_rpc_not_reached(const struct gw_link *l, const struct gw_rpc *r)
{
    char plain[240];
    const char *base = l->client->url.base;
    text_of(r, plain, sizeof(plain));
    if (strcasestr(plain, "certificate verify failed") || strstr(plain, "CERTIFICATE_VERIFY_FAILED") ||
        strcasestr(plain, "hostname verification"))
        return gw_error(-EACCES, "server %s: its certificate is not trusted: %s", base, plain);
    if (strcasestr(plain, "DNS resolution") || strcasestr(plain, "resolver"))
        return gw_error(-EHOSTUNREACH, "server %s: %s; check the name", base, plain);
    return gw_error(-ECONNREFUSED, "server %s: %s; is `gpuwire serve` running there, with its gRPC port?",
                    base, plain);
}
