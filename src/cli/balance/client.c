/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire balance list, add, weight, drain, up, remove, save. */
#include "src/cli/balance/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/client/http_client.h"
#include "src/cli/options.h"
#include "src/door/secret.h"

#define TIMEOUT_NS 60000000000u
#define MAX_ANSWER (256u << 20) /* ten thousand services with their workers have some 10 MiB */

int gw_balance_connect(const struct gw_balance_args *a, struct gw_balance_client *c)
{
    *c = (struct gw_balance_client){0};
    size_t n = strlen(a->api);
    int err = a->token_file ? gw_secret_take_token(NULL, a->token_file, &c->token) : 0;
    if (!err && asprintf(&c->base, "%s%s%s", strstr(a->api, "://") ? "" : "http://", a->api,
                         n && a->api[n - 1] == '/' ? "" : "/") < 0) {
        c->base = NULL;
        err = gw_error_errno(-ENOMEM, "balance");
    }
    struct gw_http_opts opts = {.base = c->base,
                                .token = c->token,
                                .ca_file = a->ca_file,
                                .timeout_ns = TIMEOUT_NS,
                                .max_answer = MAX_ANSWER,
                                .give_up = gw_interrupted};
    if (!err) err = gw_http_open(&opts, &c->http);
    if (!err) return 0;
    gw_balance_disconnect(c);
    return gw_failed("balance");
}

void gw_balance_disconnect(struct gw_balance_client *c)
{
    gw_http_close(c->http);
    gw_secret_forget(c->token);
    free(c->base);
}

int gw_balance_ask(struct gw_balance_client *c, const char *method, const char *path, const json_t *body,
                   json_t **reply)
{
    int err = gw_http_call(c->http, method, path, body, reply);
    if (!err) return 0;
    if (err == -EINTR) return GW_EXIT_INTERRUPTED;
    if (err == -ECONNREFUSED)
        gw_error(
            err,
            "%s: no balancer listens there; is `gpuwire balance --config FILE` running? (--api says where)",
            c->base);
    if (err == -EACCES)
        gw_error(
            err,
            "%s: the API wants a token from this user; --token-file names the file that has it, which is "
            "api.token in run_dir unless token_file says otherwise",
            c->base);
    return gw_failed("balance");
}

/* ---- naming ---- */

void gw_balance_endpoint(const json_t *of, char *text, size_t size)
{
    const char *addr = json_string_value(json_object_get(of, "address"));
    const char *proto = json_string_value(json_object_get(of, "protocol"));
    int port = (int)json_integer_value(json_object_get(of, "port"));
    snprintf(text, size, addr && strchr(addr, ':') ? "[%s]:%d%s%s" : "%s:%d%s%s", addr ? addr : "?", port,
             proto ? "/" : "", proto ? proto : "");
}

static const char *balance_client_text_of(const json_t *j, const char *name)
{
    const char *text = json_string_value(json_object_get(j, name));
    return text ? text : "?";
}

/* "v1/services/S" or "v1/services/S/workers/W", as the words say. A word is a name, or an address. */
static int path_of(const struct gw_balance_args *a, int worker, char *path, size_t size)
{
    for (unsigned i = 0; i < a->words; i++)
        for (const char *c = a->word[i]; *c; c++)
            if (*c <= ' ' || *c > '~' || strchr("?#%", *c) || (*c == '/' && i))
                return gw_usage_error("balance", "%s: not a name or an address", a->word[i]);
    int n = snprintf(path, size, worker ? "v1/services/%s/workers/%s" : "v1/services/%s", a->word[0],
                     worker ? a->word[1] : "");
    return n < (int)size ? 0 : gw_usage_error("balance", "%.64s: the name is too long", a->word[0]);
}

/* ---- changing ---- */

/* Sends it to what the words name; takes the body. */
static int balance_client_change(const struct gw_balance_args *a, const char *method, json_t *body,
                                 const char *did)
{
    struct gw_balance_client c;
    char path[256];
    json_t *reply;
    int code = gw_balance_connect(a, &c);
    if (!code) {
        code = path_of(a, a->words > 1, path, sizeof(path));
        if (!code) code = gw_balance_ask(&c, method, path, body, &reply);
        if (!code) {
            printf("%s%s%s: %s\n", a->word[0], a->words > 1 ? " " : "", a->words > 1 ? a->word[1] : "", did);
            json_decref(reply);
        }
        gw_balance_disconnect(&c);
    }
    json_decref(body);
    return code;
}

int gw_balance_weight(const struct gw_balance_args *a)
{
    char did[32];
    snprintf(did, sizeof(did), "weight %u", (unsigned)a->weight);
    return balance_client_change(a, "PATCH", json_pack("{s:I}", "weight", (json_int_t)a->weight), did);
}

/* With how long the drain may last, if that was said. */
static json_t *with_limit(const struct gw_balance_args *a, json_t *body)
{
    if (a->has_limit)
        json_object_set_new(body, "drain_limit_ms", json_integer((json_int_t)a->limit_s * 1000));
    return body;
}

int gw_balance_drain(const struct gw_balance_args *a)
{
    return balance_client_change(a, "PATCH", with_limit(a, json_pack("{s:s}", "state", "draining")),
                                 "draining: it gets no new connections");
}

int gw_balance_up(const struct gw_balance_args *a)
{
    return balance_client_change(a, "PATCH", json_pack("{s:s}", "state", "up"),
                                 "it gets new connections again");
}

int gw_balance_remove(const struct gw_balance_args *a)
{
    int gone = a->words == 1 || a->now;
    json_t *body = a->words == 1 ? NULL
                   : a->now      ? json_pack("{s:b}", "now", 1)
                                 : with_limit(a, json_object());
    return balance_client_change(a, "DELETE", body,
                                 gone ? "removed" : "it leaves when its last connection has ended");
}

/* "10.0.0.1:80/tcp" into the members of a service, "10.0.0.11:80" into a worker's. */
static json_t *split_endpoint(const char *said, int service)
{
    char text[128], *slash = NULL, *colon, *addr = text;
    json_t *j = json_object();
    snprintf(text, sizeof(text), "%s", said);
    if (service && (slash = strchr(text, '/'))) *slash = 0;
    colon = strrchr(text, ':');
    if (colon && strchr(text, ':') != colon && colon[-1] != ']') colon = NULL; /* a bare IPv6 address */
    if (colon) {
        char *end;
        *colon = 0;
        unsigned long port = strtoul(colon + 1, &end, 10);
        json_object_set_new(
            j, "port", *end || end == colon + 1 ? json_string(colon + 1) : json_integer((json_int_t)port));
    }
    size_t n = strlen(text);
    if (text[0] == '[' && n > 1 && text[n - 1] == ']') {
        text[n - 1] = 0;
        addr++;
    }
    json_object_set_new(j, "address", json_string(addr));
    if (slash) json_object_set_new(j, "protocol", json_string(slash + 1));
    return j;
}

static int add_service(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    json_t *reply, *body = split_endpoint(a->word[0], 1);
    if (a->scheduler) json_object_set_new(body, "scheduler", json_string(a->scheduler));
    if (a->forward) json_object_set_new(body, "forward", json_string(a->forward));
    if (a->name) json_object_set_new(body, "name", json_string(a->name));
    int code = gw_balance_connect(a, &c);
    if (!code) {
        code = gw_balance_ask(&c, "POST", "v1/services", body, &reply);
        if (!code) printf("added service %s\n", balance_client_text_of(reply, "name"));
        if (!code) json_decref(reply);
        gw_balance_disconnect(&c);
    }
    json_decref(body);
    return code;
}

int gw_balance_add(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    char path[256];
    json_t *reply;
    if (a->words == 1) return add_service(a);
    json_t *body = split_endpoint(a->word[1], 0);
    if (a->has_weight) json_object_set_new(body, "weight", json_integer((json_int_t)a->weight));
    if (a->name) json_object_set_new(body, "name", json_string(a->name));
    int code = gw_balance_connect(a, &c);
    if (!code) {
        code = path_of(a, 0, path, sizeof(path) - 8);
        if (!code) code = gw_balance_ask(&c, "POST", strcat(path, "/workers"), body, &reply);
        if (!code)
            printf("added worker %s; it is %s until its check succeeds\n",
                   balance_client_text_of(reply, "name"), balance_client_text_of(reply, "state"));
        if (!code) json_decref(reply);
        gw_balance_disconnect(&c);
    }
    json_decref(body);
    return code;
}

/* ---- looking ---- */

static void balance_client_print_worker(const json_t *w)
{
    char at[80], left[48] = "";
    const json_t *ms = json_object_get(w, "drain_left_ms");
    const json_t *flows = json_object_get(w, "flows"), *health = json_object_get(w, "health");
    const char *refused = json_string_value(json_object_get(w, "refused"));
    const char *why = refused ? refused : balance_client_text_of(health, "why");
    gw_balance_endpoint(w, at, sizeof(at));
    if (json_is_integer(ms) && !strcmp(balance_client_text_of(w, "state"), "draining"))
        snprintf(left, sizeof(left), "  ends in %lld s", (long long)json_integer_value(ms) / 1000 + 1);
    int down = refused || !json_is_true(json_object_get(health, "up"));
    json_t *clients = json_object_get(flows, "clients");
    char stick[48] = "";
    if (json_integer_value(clients))
        snprintf(stick, sizeof(stick), "  %lld clients stick", (long long)json_integer_value(clients));
    printf("  %-22s %-26s %-8s %6lld %8lld %10lld%s%s%s%s%s\n", balance_client_text_of(w, "name"), at,
           balance_client_text_of(w, "state"), (long long)json_integer_value(json_object_get(w, "weight")),
           (long long)json_integer_value(json_object_get(flows, "live")),
           (long long)json_integer_value(json_object_get(flows, "opened")), stick,
           json_is_true(json_object_get(w, "sorry")) ? "  sorry server" : "", left, down && *why ? "  " : "",
           down ? why : "");
}

static void print_services(const json_t *all)
{
    size_t i, k;
    json_t *s, *w;
    char at[80];
    if (!json_array_size(all)) printf("no services; `gpuwire balance add VIP:PORT` adds one\n");
    json_array_foreach(all, i, s)
    {
        gw_balance_endpoint(s, at, sizeof(at));
        const char *refused = json_string_value(json_object_get(s, "refused"));
        printf("%s%s  %s  %s  %s%s%s\n", i ? "\n" : "", balance_client_text_of(s, "name"), at,
               balance_client_text_of(s, "scheduler"), balance_client_text_of(s, "forward"),
               refused ? "  refused: " : "", refused ? refused : "");
        printf("  %-22s %-26s %-8s %6s %8s %10s\n", "worker", "address", "state", "weight", "live", "opened");
        json_array_foreach(json_object_get(s, "workers"), k, w) balance_client_print_worker(w);
    }
}

void gw_balance_print_silent(const json_t *stats)
{
    const json_t *sync = json_object_get(json_object_get(stats, "data"), "sync");
    if (!json_is_true(json_object_get(stats, "attached")))
        printf("NO DATA PLANE: it does not answer, and forwards nothing\n");
    else if (json_is_object(sync) && !json_is_true(json_object_get(sync, "connected")))
        printf("NO STANDBY: it does not answer, or no active balancer speaks\n");
}

int gw_balance_list(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    json_t *reply, *stats = NULL;
    int code = gw_balance_connect(a, &c);
    if (code) return code;
    code = gw_balance_ask(&c, "GET", "v1/services", NULL, &reply);
    if (!code && a->json) {
        json_dumpf(reply, stdout, JSON_INDENT(2));
        printf("\n");
    } else if (!code) {
        print_services(json_object_get(reply, "services"));
        if (!gw_balance_ask(&c, "GET", "v1/stats", NULL, &stats)) gw_balance_print_silent(stats);
        json_decref(stats);
    }
    if (!code) json_decref(reply);
    gw_balance_disconnect(&c);
    return code;
}

int gw_balance_reload(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    json_t *reply;
    int code = gw_balance_connect(a, &c);
    if (code) return code;
    code = gw_balance_ask(&c, "POST", "v1/reload", NULL, &reply);
    if (!code) printf("the file is in force\n");
    if (!code) json_decref(reply);
    gw_balance_disconnect(&c);
    return code;
}

int gw_balance_save(const struct gw_balance_args *a)
{
    struct gw_balance_client c;
    json_t *reply;
    int code = gw_balance_connect(a, &c);
    if (code) return code;
    code = gw_balance_ask(&c, "GET", "v1/config", NULL, &reply);
    if (!code) fputs(balance_client_text_of(reply, "config"), stdout);
    if (!code) json_decref(reply);
    gw_balance_disconnect(&c);
    return code;
}
