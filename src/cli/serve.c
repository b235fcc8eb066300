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
    "  --listen ADDRESS where HTTP listens, a numeric address; 0.0.0.0 and :: are all of the host's (default "
    "127.0.0.1:\n"
    "                   this host alone)\n"
    "  --port N         HTTP port, 0 for any free one (default 8000)\n"
    "  --sessions N     sessions of each model at once (default 16)\n"
    "  --sessions-per-client N\n"
    "                   of them, what one host, or one user of this host, may have (default: all but a "
    "quarter)\n"
    "  --idle SECONDS   a session without requests for so long is closed, 0 for never (default 300); one "
    "that never had\n"
    "                   any after 10 s\n"
    "  --slots N        requests in flight of each session (default 8)\n"
    "  --threads N      CPU threads that one inference uses on --exec cpu (default 1)\n"
    "  --model-memory-limit MIB\n"
    "                   what a model may take with the slots of its sessions (default 2048)\n"
    "  --max-body MIB   the longest body of an inference over HTTP (default 64)\n"
    "  --tls-cert FILE  HTTP is HTTPS, with this certificate (PEM, with the chain behind it)\n"
    "  --tls-key FILE   and its key\n"
    "  --token-file FILE\n"
    "                   every call must bring the token in this file: \"Authorization: Bearer TOKEN\"\n"
    "  --open-health    but for v2/health, which whoever reaches the server may ask\n"
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
    MEMORY,
    BODY,
    CERT,
    KEY,
    TOKEN,
    HEALTH
};

static const struct option options[] = {
    {"models", 1, NULL, MODELS},
    {"model", 1, NULL, MODEL},
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"device", 1, NULL, DEVICE},
    {"listen", 1, NULL, LISTEN},
    {"port", 1, NULL, PORT},
    {"sessions", 1, NULL, SESSIONS},
    {"slots", 1, NULL, SLOTS},
    {"threads", 1, NULL, THREADS},
    {"sessions-per-client", 1, NULL, EACH},
    {"idle", 1, NULL, IDLE},
    {"model-memory-limit", 1, NULL, MEMORY},
    {"max-body", 1, NULL, BODY},
    {"tls-cert", 1, NULL, CERT},
    {"tls-key", 1, NULL, KEY},
    {"token-file", 1, NULL, TOKEN},
    {"open-health", 0, NULL, HEALTH},
    {"help", 0, NULL, 'h'},
    {0},
};

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct gw_server_opts *o, struct gw_http_door_opts *http)
{
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
        case SLOTS:
            wrong = gw_option_number("serve", "--slots", optarg, 1, GW_SERVE_MAX_SLOTS, &n);
            o->slots = (uint32_t)n;
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
    struct gw_infer *infer;
    struct gw_http_door *http;
};

static int open_doors(struct gw_server *server, const struct gw_http_door_opts *http, struct doors *d)
{
    struct gw_server_view view;
    gw_server_view(server, &view);
    struct gw_infer_opts infer = {.worker = view.worker, .workers = view.workers, .lock = view.lock};
    int error = gw_infer_create(&infer, &d->infer);
    return error ? error : gw_http_door_start(server, d->infer, http, &d->http);
}

int gw_cli_serve(int argc, char **argv)
{
    struct gw_server_opts opts = {.models = gw_default_models(),
                                  .exec = "auto",
                                  .sessions = 16,
                                  .idle_ns = 300000000000u,
                                  .slots = 8,
                                  .threads = 1};
    struct gw_http_door_opts http_opts = {.port = 8000};
    struct doors doors = {0};
    struct gw_server *server;
    int done = parse(argc, argv, &opts, &http_opts);
    if (done >= 0) return done;

    gw_catch_signals();
    if (gw_server_start(&opts, &server)) return gw_failed("serve");
    if (open_doors(server, &http_opts, &doors)) {
        done = gw_failed("serve");
        gw_server_stop(server, NULL);
        gw_infer_destroy(doors.infer);
        return done;
    }
    if (http_opts.host && !is_loopback(http_opts.host)) warn(&http_opts);
    printf("serving %s; HTTP on port %u\n", gw_server_text(server), gw_http_door_port(doors.http));
    fflush(stdout);

    int fd = gw_interrupt_fd();
    int error = gw_server_run(server, &fd, 1);
    if (error) gw_failed("serve");
    uint64_t stop_ns = 0;
    if (gw_server_stop(server, &stop_ns)) cut_short(error);
    gw_infer_destroy(doors.infer);
    printf("stopped; the slowest loop took %.2f ms to stop\n", (double)stop_ns / 1e6);
    return error ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
