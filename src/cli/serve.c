/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve: the inference server. */
#include "src/cli/cli.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#include "src/cli/serve_args.h"
#include "src/cli/serve_balancer.h"
#include "src/http/http.h"
#include "src/infer/infer.h"
#include "src/serve/server.h"

static int is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Other hosts may come in. */
static void warn(const struct gw_http_door_opts *o)
{
    fprintf(stderr,
            "gpuwire serve: listening on %s: %s, and %s; tensors that go by RDMA are never encrypted\n",
            o->host,
            o->token_file ? "whoever has the token may use every model"
                          : "whoever reaches it may use every model (see --token-file)",
            o->cert ? "HTTP is encrypted" : "HTTP is not encrypted (see --tls-cert)");
}

/* A model that is at work is not waited for: nothing but the end of the process ends it. */
static void cut_short(int error)
{
    printf("stopped; %s\n", gw_last_error());
    fflush(stdout);
    _exit(error ? GW_EXIT_FAILURE : GW_EXIT_OK);
}

struct doors {
    struct gw_control *control; /* NULL: models neither come nor go */
    struct gw_infer *infer;
    struct gw_http_door *http;
    struct gw_cli_balancer *balancer;
    uint16_t grpc_port; /* 0: there is none */
};

static int open_doors(struct gw_server *server, const struct gw_cli_serving *all, struct doors *d)
{
    struct gw_server_view view;
    gw_server_view(server, &view);
    int error = all->control ? gw_control_create(server, all->server.models, &d->control) : 0;
    struct gw_infer_opts infer = {
        .worker = view.worker, .workers = view.workers, .control = d->control, .lock = view.lock};
    if (!error) error = gw_infer_create(&infer, &d->infer);
    if (!error) error = gw_http_door_start(server, d->infer, &all->http, &d->http);
    if (!error) error = gw_cli_grpc_open(server, d->infer, &all->http, &all->grpc, &d->grpc_port);
    return error ? error
                 : gw_cli_balancer_start(&all->balancer, d->infer, gw_http_door_port(d->http), &d->balancer);
}

/* Until a signal comes, or a worker fails. */
static int run(struct gw_server *server, struct gw_control *control)
{
    const int fds[] = {gw_interrupt_fd(), control ? gw_control_fd(control) : -1};
    for (;;) {
        int error = gw_server_run(server, fds, 2);
        if (error || gw_wait_fds(fds, 1, 0) > 0) return error;
        gw_control_do(control);
    }
}

static int stop(struct gw_server *server, struct doors *d, uint64_t *stop_ns)
{
    gw_cli_balancer_stop(d->balancer);
    gw_control_close(d->control);
    int error = gw_server_stop(server, stop_ns);
    if (error) return error; /* nothing was freed */
    gw_infer_destroy(d->infer);
    gw_control_destroy(d->control);
    return 0;
}

int gw_cli_serve(int argc, char **argv)
{
    struct gw_cli_serving all = {.server = {.models = gw_default_models(),
                                            .exec = "auto",
                                            .sessions = 16,
                                            .idle_ns = 300000000000u,
                                            .slots = 8,
                                            .threads = 1},
                                 .http = {.port = 8000}};
    struct doors doors = {0};
    struct gw_server *server;
    uint64_t stop_ns = 0;
    int done = gw_cli_serve_args(argc, argv, &all);
    if (done >= 0) return done;

    gw_catch_signals();
    if (gw_server_start(&all.server, &server)) return gw_failed("serve");
    if (open_doors(server, &all, &doors)) {
        done = gw_failed("serve");
        stop(server, &doors, &stop_ns);
        return done;
    }
    if (all.http.host && !is_loopback(all.http.host)) warn(&all.http);
    printf("serving %s; HTTP on port %u", gw_server_text(server), gw_http_door_port(doors.http));
    if (doors.grpc_port) printf("; gRPC on port %u", doors.grpc_port);
    printf("\n");
    fflush(stdout);

    int error = run(server, doors.control);
    if (error) gw_failed("serve");
    if (stop(server, &doors, &stop_ns)) cut_short(error);
    printf("stopped; the slowest loop took %.2f ms to stop\n", (double)stop_ns / 1e6);
    return error ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
