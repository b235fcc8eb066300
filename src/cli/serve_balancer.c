/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/serve_balancer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/client/http_client.h"
#include "src/infer/stats.h"
#include "src/serve/secret.h"

#define BEAT_MS    1000u
#define TIMEOUT_NS 3000000000u

struct gw_cli_balancer {
    struct gw_infer *infer;
    struct gw_http *http;
    pthread_t thread;
    int end_fd;
    char *base, *token;
    char path[256], address[64];
    uint16_t port;
    uint64_t weight;
    int told; /* the balancer has taken the last word */
    int said; /* that it has not, on stderr */
};

/* "http://HOST:PORT/SERVICE" into the base of the API's calls and the service's name. */
static int split_url(struct gw_cli_balancer *b, const char *url, const char **service)
{
    const char *host = strstr(url, "://"), *slash = host ? strchr(host + 3, '/') : NULL;
    if (!slash || !slash[1] || strchr(slash + 1, '/') ||
        (strncmp(url, "http://", 7) && strncmp(url, "https://", 8)))
        return gw_error(-EINVAL, "--balancer %s: http://HOST:PORT/SERVICE is wanted", url);
    *service = slash + 1;
    b->base = strndup(url, (size_t)(slash + 1 - url));
    return b->base ? 0 : gw_error_errno(-ENOMEM, "balancer");
}

/* From which of this host's addresses does a packet to the balancer leave? */
static int own_address(struct gw_cli_balancer *b)
{
    char host[256], *colon;
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *to;
    struct sockaddr_storage mine;
    socklen_t length = sizeof(mine);
    snprintf(host, sizeof(host), "%s", strstr(b->base, "://") + 3);
    host[strcspn(host, "/")] = 0;
    colon = strrchr(host, ':');
    if (colon && !strchr(colon, ']')) *colon = 0;
    char *name = host[0] == '[' ? host + 1 : host;
    name[strcspn(name, "]")] = 0;
    int error = getaddrinfo(name, "9", &hints, &to);
    if (error) return gw_error(-EHOSTUNREACH, "--balancer: %s: %s", name, gai_strerror(error));
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    error = fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) ||
                    getsockname(fd, (struct sockaddr *)&mine, &length)
                ? -errno
                : 0;
    freeaddrinfo(to);
    if (fd >= 0) close(fd);
    if (!error && getnameinfo((struct sockaddr *)&mine, length, b->address, sizeof(b->address), NULL, 0,
                              NI_NUMERICHOST))
        error = -EINVAL;
    return error ? gw_error_errno(error, "--balancer: no way to %s; give --balancer-address", name) : 0;
}

/* The host's name, where it can be one there, and the port. */
static void name_path(struct gw_cli_balancer *b, const char *service)
{
    char host[40] = "";
    gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c)) *c = '-';
    snprintf(b->path, sizeof(b->path), "v1/services/%.64s/workers/%s-%s-%u", service, host, b->address,
             b->port);
}

static uint64_t queue_depth(struct gw_infer *infer)
{
    struct gw_infer_stats s;
    struct gw_worker *w;
    uint64_t depth = 0;
    gw_infer_enter(infer);
    for (size_t i = 0; (w = gw_infer_model(infer, i)); i++) {
        gw_infer_stats(w, &s);
        depth += s.waiting + s.calls_taken;
    }
    gw_infer_leave(infer);
    return depth;
}

static void tell(struct gw_cli_balancer *b)
{
    json_t *reply = NULL, *body;
    body = json_pack("{s:s, s:I, s:I, s:I, s:I}", "address", b->address, "port", (json_int_t)b->port,
                     "weight", (json_int_t)b->weight, "queue", (json_int_t)queue_depth(b->infer), "beat_ms",
                     (json_int_t)BEAT_MS);
    b->told = body && !gw_http_call(b->http, "PUT", b->path, body, &reply);
    if (b->told != !b->said) {
        fprintf(stderr, "gpuwire serve: balancer: %s\n",
                b->told ? "it knows this server now" : gw_last_error());
        b->said = !b->told;
    }
    json_decref(body);
    json_decref(reply);
}

static void *run(void *arg)
{
    struct gw_cli_balancer *b = arg;
    do tell(b);
    while (gw_wait_fds(&b->end_fd, 1, gw_deadline(BEAT_MS * 1000000ull)) <= 0);
    return NULL;
}

static void free_balancer(struct gw_cli_balancer *b)
{
    gw_http_close(b->http);
    gw_secret_forget(b->token);
    free(b->base);
    if (b->end_fd >= 0) close(b->end_fd);
    free(b);
}

static int start_thread(struct gw_cli_balancer *b)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that waits for them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = -pthread_create(&b->thread, NULL, run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? gw_error_errno(error, "balancer: thread") : 0;
}

int gw_cli_balancer_start(const struct gw_cli_balancer_opts *o, struct gw_infer *infer, uint16_t port,
                          struct gw_cli_balancer **out)
{
    const char *service = NULL;
    *out = NULL;
    if (!o->url) return 0;
    struct gw_cli_balancer *b = calloc(1, sizeof(*b));
    if (!b) return gw_error_errno(-ENOMEM, "balancer");
    b->infer = infer;
    b->port = port;
    b->weight = o->weight ? o->weight : 1;
    b->end_fd = eventfd(0, EFD_CLOEXEC);
    int error = split_url(b, o->url, &service);
    if (!error && o->token_file) error = gw_secret_take_token(NULL, o->token_file, &b->token);
    if (!error && o->address) snprintf(b->address, sizeof(b->address), "%s", o->address);
    if (!error && !o->address) error = own_address(b);
    if (!error) {
        struct gw_http_opts http = {.base = b->base, .token = b->token, .timeout_ns = TIMEOUT_NS};
        error = gw_http_open(&http, &b->http);
    }
    if (!error) {
        name_path(b, service);
        error = start_thread(b);
    }
    if (error)
        free_balancer(b);
    else
        *out = b;
    return error;
}

void gw_cli_balancer_stop(struct gw_cli_balancer *b)
{
    uint64_t one = 1;
    json_t *reply = NULL;
    if (!b) return;
    if (write(b->end_fd, &one, sizeof(one)) < 0) { /* an eventfd takes it */
    }
    pthread_join(b->thread, NULL);
    if (b->told && gw_http_call(b->http, "DELETE", b->path, NULL, &reply))
        fprintf(stderr, "gpuwire serve: balancer: %s\n", gw_last_error());
    json_decref(reply);
    free_balancer(b);
}
