/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that tells the load balancer of this server: its queue, its sessions, its end. */
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

#include "src/cli/serve_pairs.h"
#include "src/client/http_client.h"
#include "src/door/secret.h"

#define BEAT_MS    1000u
#define TIMEOUT_NS 3000000000u

struct gw_cli_balancer {
    struct gw_cli_balanced server;
    struct gw_http *http;
    struct gw_cli_pairs pairs;
    pthread_t thread;
    pthread_mutex_t lock; /* of `leaving` and `left` */
    pthread_cond_t moved;
    int leaving;        /* the server ends: the models are not looked at any more */
    int left;           /* and the balancer has been told, or does not answer */
    int end_fd, now_fd; /* eventfds: the thread ends; it beats at once */
    char *base, *token;
    char path[3 * GW_CLI_SERVICE], address[64];
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
        return gw_error(-EINVAL, "--balancer %s: expected http://HOST:PORT/SERVICE", url);
    *service = slash + 1;
    b->base = strndup(url, (size_t)(slash + 1 - url));
    return b->base ? 0 : gw_error_errno(-ENOMEM, "balancer");
}

/* From which of this host's addresses does a packet to the balancer leave? */
static int serve_balancer_own_address(struct gw_cli_balancer *b)
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
    int err = getaddrinfo(name, "9", &hints, &to);
    if (err) return gw_error(-EHOSTUNREACH, "--balancer: %s: %s", name, gai_strerror(err));
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    err = fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) ||
                  getsockname(fd, (struct sockaddr *)&mine, &length)
              ? -errno
              : 0;
    freeaddrinfo(to);
    if (fd >= 0) close(fd);
    if (!err && getnameinfo((struct sockaddr *)&mine, length, b->address, sizeof(b->address), NULL, 0,
                            NI_NUMERICHOST))
        err = -EINVAL;
    return err ? gw_error_errno(err, "--balancer: no way to %s; give --balancer-address", name) : 0;
}

/* This server's name there: the host's, where that can be one, its address and the port. */
static void name_path(struct gw_cli_balancer *b, const char *service, char worker[GW_CLI_SERVICE])
{
    char host[20] = "";
    gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c)) *c = '-';
    snprintf(worker, GW_CLI_SERVICE, "%s-%.36s-%u", host, b->address, b->server.port);
    snprintf(b->path, sizeof(b->path), "v1/services/%.64s/workers/%s", service, worker);
}

/* What this server says of itself. */
static json_t *beat_of(struct gw_cli_balancer *b, int *leaving)
{
    pthread_mutex_lock(&b->lock);
    *leaving = b->leaving;
    uint64_t queue = b->leaving ? 0 : b->server.load(b->server.ctx);
    pthread_mutex_unlock(&b->lock);
    return json_pack("{s:s, s:I, s:I, s:I, s:b}", "address", b->address, "weight", (json_int_t)b->weight,
                     "queue", (json_int_t)queue, "beat_ms", (json_int_t)BEAT_MS, "leaving", *leaving);
}

static void serve_balancer_tell(struct gw_cli_balancer *b)
{
    int leaving;
    json_t *reply = NULL, *rdma = beat_of(b, &leaving), *body = json_copy(rdma);
    json_object_set_new(body, "port", json_integer(b->server.port));
    b->told = body && !gw_http_call(b->http, "PUT", b->path, body, &reply);
    gw_cli_pairs_hear(&b->pairs, b->told ? reply : NULL);
    if (b->told != !b->said) {
        fprintf(stderr, "gpuwire %s: balancer: %s\n", b->server.command,
                b->told ? "it knows this server now" : gw_last_error());
        b->said = !b->told;
    }
    gw_cli_pairs_beat(&b->pairs, b->http, rdma);
    json_decref(rdma);
    json_decref(body);
    json_decref(reply);
    pthread_mutex_lock(&b->lock);
    b->left = leaving;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
}

static void *serve_balancer_run(void *arg)
{
    struct gw_cli_balancer *b = arg;
    const int fds[] = {b->end_fd, b->now_fd, b->pairs.wake_fd};
    uint64_t next = 0, count;
    for (int64_t ready = 0; !(ready & 1);) {
        int now = read(b->now_fd, &count, sizeof(count)) > 0;
        if (now || gw_deadline(0) >= next) {
            serve_balancer_tell(b);
            next = gw_deadline(BEAT_MS * 1000000ull);
        }
        gw_cli_pairs_sync(&b->pairs, b->http);
        ready = gw_wait_fds(fds, 3, next);
        if (ready < 0) ready = 0;
    }
    gw_cli_pairs_sync(&b->pairs, b->http);
    return NULL;
}

static void free_balancer(struct gw_cli_balancer *b)
{
    gw_http_close(b->http);
    gw_secret_forget(b->token);
    free(b->base);
    gw_cli_pairs_free(&b->pairs);
    if (b->end_fd >= 0) close(b->end_fd);
    if (b->now_fd >= 0) close(b->now_fd);
    pthread_cond_destroy(&b->moved);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static int serve_balancer_start_thread(struct gw_cli_balancer *b)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that waits for them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = -pthread_create(&b->thread, NULL, serve_balancer_run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? gw_error_errno(err, "balancer: thread") : 0;
}

static struct gw_cli_balancer *new_balancer(const struct gw_cli_balancer_opts *o,
                                            const struct gw_cli_balanced *server)
{
    struct gw_cli_balancer *b = calloc(1, sizeof(*b));
    if (!b) return NULL;
    b->server = *server;
    b->weight = o->weight ? o->weight : 1;
    b->end_fd = eventfd(0, EFD_CLOEXEC);
    b->now_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->pairs.wake_fd = -1;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->moved, NULL);
    return b;
}

static int take_options(struct gw_cli_balancer *b, const struct gw_cli_balancer_opts *o)
{
    const char *service = NULL;
    char worker[GW_CLI_SERVICE];
    int err = split_url(b, o->url, &service);
    if (!err && o->token_file) err = gw_secret_take_token(NULL, o->token_file, &b->token);
    if (!err && o->address) snprintf(b->address, sizeof(b->address), "%s", o->address);
    if (!err && !o->address) err = serve_balancer_own_address(b);
    if (err) return err;
    struct gw_http_opts http = {
        .base = b->base, .token = b->token, .timeout_ns = TIMEOUT_NS, .program = "gpuwire balance"};
    err = gw_http_open(&http, &b->http);
    if (err) return err;
    name_path(b, service, worker);
    return gw_cli_pairs_init(&b->pairs, worker);
}

int gw_cli_balancer_start(const struct gw_cli_balancer_opts *o, const struct gw_cli_balanced *server,
                          struct gw_cli_balancer **out)
{
    *out = NULL;
    if (!o->url) return 0;
    struct gw_cli_balancer *b = new_balancer(o, server);
    if (!b) return gw_error_errno(-ENOMEM, "balancer");
    int err = take_options(b, o);
    if (!err) err = serve_balancer_start_thread(b);
    if (err) {
        free_balancer(b);
        return err;
    }
    if (server->sessions) gw_table_set_route(server->sessions, &b->pairs.route);
    *out = b;
    return 0;
}

void gw_cli_balancer_leave(struct gw_cli_balancer *b)
{
    const uint64_t one = 1;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->leaving = 1;
    if (write(b->now_fd, &one, sizeof(one)) < 0) b->left = 1; /* it beats every second anyway */
    while (!b->left) pthread_cond_wait(&b->moved, &b->lock);  /* a call ends after TIMEOUT_NS */
    pthread_mutex_unlock(&b->lock);
}

void gw_cli_balancer_stop(struct gw_cli_balancer *b)
{
    const uint64_t one = 1;
    json_t *reply = NULL;
    if (!b) return;
    if (write(b->end_fd, &one, sizeof(one)) < 0) { /* an eventfd takes it */
    }
    pthread_join(b->thread, NULL);
    gw_cli_pairs_leave(&b->pairs, b->http);
    /* It has left already where none of its connections was open. */
    int err = b->told ? gw_http_call(b->http, "DELETE", b->path, NULL, &reply) : 0;
    if (err && err != -ENOENT)
        fprintf(stderr, "gpuwire %s: balancer: %s\n", b->server.command, gw_last_error());
    json_decref(reply);
    free_balancer(b);
}
