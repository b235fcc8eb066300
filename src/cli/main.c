/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuwire` itself: the commands of the network, and where the others are. */
#include "src/cli/cli.h"
#include "src/cli/dispatch.h"

#ifdef GW_HAVE_SERVE
#define SERVING     "gpuwire-serving"
#define SERVE(text) text
#else
#define SERVING     "GW_SERVE"
#define SERVE(text) NULL
#endif
#ifdef GW_HAVE_GENERATE
#define GENERATING     "gpuwire-serving"
#define GENERATE(text) text
#else
#define GENERATING     "GW_SERVE=ON and GW_GENERATE"
#define GENERATE(text) NULL
#endif
#ifdef GW_HAVE_ROUTER
#define ROUTING     "gpuwire-serving"
#define ROUTE(text) text
#else
#define ROUTING     "GW_SERVE=ON and GW_FLEET"
#define ROUTE(text) NULL
#endif
#ifdef GW_HAVE_BALANCE
#define BALANCING     "gpuwire-balance"
#define BALANCE(text) text
#else
#define BALANCING     "GW_SERVE=ON and GW_BALANCE"
#define BALANCE(text) NULL
#endif
#ifdef GW_HAVE_FLEET
#define FLEET        "gpuwire-fleet"
#define FLEETS(text) text
#else
#define FLEET        "GW_SERVE=ON and GW_FLEET"
#define FLEETS(text) NULL
#endif

#ifdef GW_HAVE_APPS
#define APP_RUN    gw_cli_app
#define APPS(text) text
#else
#define APP_RUN    NULL
#define APPS(text) NULL
#endif

static const struct gw_command commands[] = {
    {"demo", SERVE("a real picture through a worker process, and where the time went"), .in = SERVING},
    {"serve", SERVE("serve models to clients that write their inputs by RDMA"), .in = SERVING},
    {"generate", GENERATE("serve language models: OpenAI's API over HTTP, tokens by RDMA"), .in = GENERATING},
    {"infer", SERVE("ask a server for one inference: a picture or tensors"), .in = SERVING},
    {"load", SERVE("load a server at levels of concurrency or rate, and report latencies"), .in = SERVING},
    {"chat", SERVE("talk to a language model: in the terminal, or for a script"), .in = SERVING},
    {"check", SERVE("can a model run here, and if not, which of its nodes cannot"), .in = SERVING},
    {"router", ROUTE("serve the models of a fleet over HTTP and gRPC, to clients without RDMA"),
     .in = ROUTING},
    {"balance", BALANCE("spread clients over workers: TCP, UDP and RoCEv2, each connection where it began"),
     .in = BALANCING},
    {"controller", FLEETS("decide which model lies on which GPU of a fleet, and who may ask it"),
     .in = FLEET},
    {"fleet", FLEETS("workers, models and deadlines of many GPUs: see them, drain them, emulate them"),
     .in = FLEET},
    {"app", APPS("run an application whose kernels use the network: a server of matrices, faces, MapReduce"),
     .in = "GW_APPS", .run = APP_RUN},
    {"info", "what works on this machine, what does not, and why", .run = gw_cli_info},
    {"nic", "see into the software NICs that are in use, live", .run = gw_cli_nic},
    {"perf", "measure bandwidth, latency, message rate and posting, from a GPU or CPU threads",
     .run = gw_cli_perf},
    {"cat", "netcat whose end is a kernel: over TCP, UNIX sockets or RDMA", .run = gw_cli_cat},
    {"hwcheck", "check and measure between two hosts, and write a report to send to us",
     .run = gw_cli_hwcheck},
    {"run", "run any verbs program on the software NIC", .run = gw_cli_run},
    {.name = NULL},
};

int main(int argc, char **argv)
{
    return gw_dispatch(commands, argc, argv);
}
