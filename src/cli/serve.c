/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve: the inference server. */
#include "src/cli/cli.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#include "src/cli/serve_grpc.h"
#include "src/http/http.h"
#include "src/infer/infer.h"
#include "src/serve/server.h"
#include "src/serve/wire.h"

static const char usage[] =
    "usage: gpuwire serve [OPTION...]\n"
    "\n"
    "Serves the models of a repository (DIR/NAME/VERSION/model.onnx). Clients set a session up over HTTP, "
    "then write\n"
    "their inputs straight into this process's memory by RDMA and get the answers written back.\n"
    "\n"
    "  --models DIR     the repository (default: the models that come with gpuwire)\n"
    "  --model NAME     serve this one only\n"
    "  --exec WHERE     gpu, cpu or auto: the GPU when there is one (default auto)\n"
    "  --gpu N          which GPU, by its CUDA number (default 0)\n"
    "  --device NAME    RDMA device, or softnic (default: GPUWIRE_DEVICE, a real one, else softnic)\n"
    "  --listen ADDRESS where HTTP and gRPC listen, a numeric address; 0.0.0.0 and :: are all of the host's "
    "(default "
    "127.0.0.1:\n"
    "                   this host alone)\n"
    "  --port N         HTTP port, 0 for any free one (default 8000)\n"
    "  --grpc PORT      gRPC port, 0 for any free one; off: no gRPC (default 8001; with --port 0 any free "
    "one)\n"
    "  --sessions N     sessions of each model at once (default 16)\n"
    "  --sessions-per-client N\n"
    "                   of them, what one host, or one user of this host, may have (default: all but a "
    "quarter)\n"
    "  --idle SECONDS   a session without requests for so long is closed, 0 for never (default 300); one "
    "that never had\n"
    "                   any after 10 s\n"
    "  --slots N        requests in flight of each session (default 8)\n"
    "  --max-batch N    requests share runs of the models that allow it, up to so many samples together "
    "(default 1)\n"
    "  --batch-delay US a request waits so long for others to share its run, in microseconds (default 0)\n"
    "  --threads N      CPU threads that one inference uses on --exec cpu (default 1)\n"
    "  --model-memory-limit MIB\n"
    "                   what a model may take with the slots of its sessions (default 2048)\n"
    "  --max-body MIB   the longest body of an inference over HTTP, the longest message over gRPC (default "
    "64)\n"
    "  --tls-cert FILE  HTTP and gRPC are encrypted, with this certificate (PEM, with the chain behind it)\n"
    "  --tls-key FILE   and its key\n"
    "  --token-file FILE\n"
    "                   every call must bring the token in this file: \"Authorization: Bearer TOKEN\"\n"
    "  --open-health    but for v2/health and its like, which whoever reaches the server may ask\n"
    "  --model-control  clients may load and unload models of the repository\n"
    "  -h, --help       this text\n"
    "\n"
    "Prints one line when it is ready. SIGINT or SIGTERM ends it.\n";

enum {
    MODELS = 256,
    MODEL,
    EXEC,
    GPU,
    DEVICE,
    LISTEN,
    PORT,
    SESSIONS,
    EACH,
    IDLE,
    SLOTS,
    THREADS,
    BATCH,
    DELAY,
    MEMORY,
    GRPC,
    BODY,
    CERT,
    KEY,
    TOKEN,
    HEALTH,
    CONTROL
};

static const struct option options[] = {
    {"models", 1, NULL, MODELS},      {"model", 1, NULL, MODEL},
    {"exec", 1, NULL, EXEC},          {"gpu", 1, NULL, GPU},
    {"device", 1, NULL, DEVICE},      {"listen", 1, NULL, LISTEN},
    {"port", 1, NULL, PORT},          {"grpc", 1, NULL, GRPC},
    {"sessions", 1, NULL, SESSIONS},  {"slots", 1, NULL, SLOTS},
    {"threads", 1, NULL, THREADS},    {"max-batch", 1, NULL, BATCH},
    {"batch-delay", 1, NULL, DELAY},  {"sessions-per-client", 1, NULL, EACH},
    {"idle", 1, NULL, IDLE},          {"model-memory-limit", 1, NULL, MEMORY},
    {"max-body", 1, NULL, BODY},      {"tls-cert", 1, NULL, CERT},
    {"tls-key", 1, NULL, KEY},        {"token-file", 1, NULL, TOKEN},
    {"open-health", 0, NULL, HEALTH}, {"model-control", 0, NULL, CONTROL},
    {"help", 0, NULL, 'h'},           {0},
};

/* What the command line says. */
struct all {
    struct gw_server_opts server;
    struct gw_http_door_opts http;
    struct gw_cli_grpc grpc;
    int control; /* clients may load and unload models */
};

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct all *all)
{
    struct gw_server_opts *o = &all->server;
    struct gw_http_door_opts *http = &all->http;
    struct gw_cli_grpc *grpc = &all->grpc;
    int option, wrong = 0;
    uint64_t n = 0;
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (option) {
        case MODELS: o->models = optarg; break;
        case MODEL: o->only = optarg; break;
        case EXEC: o->exec = optarg; break;
        case DEVICE: o->device = optarg; break;
        case LISTEN: http->host = optarg; break;
        case GPU:
            wrong = gw_option_number("serve", "--gpu", optarg, 0, 1023, &n);
            o->gpu = (uint32_t)n;
            break;
        case PORT:
            wrong = gw_option_number("serve", "--port", optarg, 0, 65535, &n);
            http->port = (uint16_t)n;
            break;
        case GRPC: wrong = gw_cli_grpc_port(optarg, grpc); break;
        case SESSIONS:
            wrong = gw_option_number("serve", "--sessions", optarg, 1, 1024, &n);
            o->sessions = (uint32_t)n;
            break;
        case EACH:
            wrong = gw_option_number("serve", "--sessions-per-client", optarg, 1, 1024, &n);
            o->sessions_each = (uint32_t)n;
            break;
        case IDLE:
            wrong = gw_option_number("serve", "--idle", optarg, 0, 1000000, &n);
            o->idle_ns = n * 1000000000u;
            break;
        case MEMORY:
            wrong = gw_option_number("serve", "--model-memory-limit", optarg, 1, 1u << 30, &n);
            o->model_memory = n << 20;
            break;
        case BODY:
            wrong = gw_option_number("serve", "--max-body", optarg, 1, 2048, &n);
            http->most_body = n << 20;
            break;
        case CERT: http->cert = optarg; break;
        case KEY: http->key = optarg; break;
        case TOKEN: http->token_file = optarg; break;
        case HEALTH: http->open_health = 1; break;
        case CONTROL: all->control = 1; break;
        case SLOTS:
            wrong = gw_option_number("serve", "--slots", optarg, 1, GW_SERVE_MAX_SLOTS, &n);
            o->slots = (uint32_t)n;
            break;
        case BATCH:
            wrong = gw_option_number("serve", "--max-batch", optarg, 1, GW_SERVING_MAX_ROWS, &n);
            o->max_batch = (uint32_t)n;
            break;
        case DELAY:
            wrong = gw_option_number("serve", "--batch-delay", optarg, 0, 10000000, &n);
            o->batch_delay_ns = n * 1000;
            break;
        case THREADS:
            wrong = gw_option_number("serve", "--threads", optarg, 1, 1024, &n);
            o->threads = (uint32_t)n;
            break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("serve", argv, option);
        }
    }
    if (wrong) return wrong;
    if (optind < argc) return gw_usage_error("serve", "%s: not an option", argv[optind]);
    if (strcmp(o->exec, "gpu") && strcmp(o->exec, "cpu") && strcmp(o->exec, "auto"))
        return gw_usage_error("serve", "--exec %s: gpu, cpu or auto is wanted", o->exec);
    if (!o->models) return gw_usage_error("serve", "no models found beside the program; give --models");
    if (!grpc->asked) grpc->port = http->port ? GW_CLI_GRPC_PORT : 0;
    return -1;
}

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
    uint16_t grpc_port; /* 0: there is none */
};

static int open_doors(struct gw_server *server, const struct all *all, struct doors *d)
{
    struct gw_server_view view;
    gw_server_view(server, &view);
    int error = all->control ? gw_control_create(server, all->server.models, &d->control) : 0;
    struct gw_infer_opts infer = {
        .worker = view.worker, .workers = view.workers, .control = d->control, .lock = view.lock};
    if (!error) error = gw_infer_create(&infer, &d->infer);
    if (!error) error = gw_http_door_start(server, d->infer, &all->http, &d->http);
    return error ? error : gw_cli_grpc_open(server, d->infer, &all->http, &all->grpc, &d->grpc_port);
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
    gw_control_close(d->control);
    int error = gw_server_stop(server, stop_ns);
    if (error) return error; /* nothing was freed */
    gw_infer_destroy(d->infer);
    gw_control_destroy(d->control);
    return 0;
}

int gw_cli_serve(int argc, char **argv)
{
    struct all all = {.server = {.models = gw_default_models(),
                                 .exec = "auto",
                                 .sessions = 16,
                                 .idle_ns = 300000000000u,
                                 .slots = 8,
                                 .threads = 1},
                      .http = {.port = 8000}};
    struct doors doors = {0};
    struct gw_server *server;
    uint64_t stop_ns = 0;
    int done = parse(argc, argv, &all);
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
