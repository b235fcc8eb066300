/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire generate`. */
#include "src/cli/generate/args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/dtype.h>

#include "src/cli/options.h"
#include "src/generate/step/step.h"
#include "src/generate/wire/wire.h"

static const char usage[] =
    "usage: gpuwire generate [OPTION...] [NAME=]FOLDER...\n"
    "       gpuwire generate load [OPTION...] URL\n"
    "\n"
    "Serves language models: each FOLDER holds one as onnxruntime-genai or transformers save it. Clients of\n"
    "OpenAI's API come over HTTP. Programs that need tokens alone open an RDMA session; their requests and\n"
    "tokens then pass no CPU of this host.\n"
    "\n"
    "  --name NAME        what clients call the model (default: the folder's name); with several folders:\n"
    "                     NAME=FOLDER\n"
    "  --exec WHERE       gpu, cpu or auto: the GPU when there is one (default auto)\n"
    "  --gpu N            which GPU, by its CUDA number (default 0)\n"
    "  --threads N        CPU threads of the network with --exec cpu (default: one for each processor)\n"
    "  --lanes N          requests that make tokens at the same time (default 32)\n"
    "  --context N        tokens of prompt and answer together (default: what the model knows, 4096 at "
    "most)\n"
    "  --max-tokens N     tokens of an answer, at most (default: the context)\n"
    "  --kv-memory SIZE   memory for keys and values, such as 512M or 8G (default: what all lanes take with\n"
    "                     their longest context, 1G at most)\n"
    "  --kv TYPE          how keys and values are kept: fp32, fp16 or bf16 (default: as the network likes)\n"
    "  --prompt-rows N    tokens of prompts in a step that also makes tokens: more is better for first "
    "tokens,\n"
    "                     less for the time between tokens; a quarter of the longest step is the least "
    "(default\n"
    "                     32 on CPU threads, 256 on a GPU)\n"
    "  --sessions N       RDMA sessions of each model at once (default 16)\n"
    "  --sessions-per-client N\n"
    "                     of them, what one host, or one user of this host, may have (default: all but a\n"
    "                     quarter)\n"
    "  --slots N          requests of a session at the same time (default 64)\n"
    "  --device NAME      RDMA device, or softnic (default: GPUWIRE_DEVICE, a real one, else softnic)\n"
    "  --listen ADDRESS   where HTTP listens, a numeric address; 0.0.0.0 and :: are all of the host's\n"
    "                     (default 127.0.0.1: this host alone)\n"
    "  --port N           HTTP port, 0 for any free one (default 8000)\n"
    "  --connections-per-client N\n"
    "                     connections that one host, or one user of this host, may have (default 512)\n"
    "  --trusted-proxy LIST\n"
    "                     reverse proxies whose X-Forwarded-For names the client: addresses, networks, or\n"
    "                     users of this host (10.0.0.7,user 33)\n"
    "  --host-name LIST   names of this server that calls may have in their Host, beside addresses,\n"
    "                     localhost and the host's own name\n"
    "  --max-body MIB     the longest body of a request (default 16)\n"
    "  --tls-cert FILE    HTTP is encrypted, with this certificate (PEM, followed by the chain)\n"
    "  --tls-key FILE     and its key\n"
    "  --token-file FILE  every call must bring the token in this file: \"Authorization: Bearer TOKEN\"\n"
    "  --open-health      but for health, which every client may ask\n"
    "  --metrics-port N   metrics are answered on this port, too, and nothing else is\n"
    "  --balancer URL     this server is a worker of that service of a load balancer (gpuwire balance):\n"
    "                     http://HOST:PORT/SERVICE\n"
    "  --balancer-address ADDRESS\n"
    "                     where the balancer reaches it (default: as it reaches the balancer)\n"
    "  --balancer-token-file FILE\n"
    "                     the token of the balancer's API\n"
    "  --drain-seconds N  how long answers under way may take when the server ends (default 30)\n"
    "  --access-log FILE  a line of JSON for each request, - for standard output; SIGHUP opens the file\n"
    "                     again\n"
    "  --log-level LEVEL  what is said on standard error: error, warning, info or debug (default info)\n"
    "  -h, --help         this text\n"
    "\n"
    "Prints what it serves when it is ready. SIGINT or SIGTERM ends it, a second one at once.\n"
    "`gpuwire generate load --help` is about loading such a server, and measuring it.\n";

enum {
    NAME = GW_CLI_DOORS_END,
    EXEC,
    GPU,
    THREADS,
    LANES,
    CONTEXT,
    TOKENS,
    KV_MEMORY,
    KV,
    ROWS,
    SESSIONS,
    EACH,
    SLOTS,
    DEVICE,
    BALANCER,
    BALANCER_ADDRESS,
    BALANCER_TOKEN
};

static const struct option options[] = {
    GW_CLI_DOORS_OPTIONS,
    {"name", 1, NULL, NAME},
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"threads", 1, NULL, THREADS},
    {"lanes", 1, NULL, LANES},
    {"context", 1, NULL, CONTEXT},
    {"max-tokens", 1, NULL, TOKENS},
    {"kv-memory", 1, NULL, KV_MEMORY},
    {"kv", 1, NULL, KV},
    {"prompt-rows", 1, NULL, ROWS},
    {"sessions", 1, NULL, SESSIONS},
    {"sessions-per-client", 1, NULL, EACH},
    {"slots", 1, NULL, SLOTS},
    {"device", 1, NULL, DEVICE},
    {"balancer", 1, NULL, BALANCER},
    {"balancer-address", 1, NULL, BALANCER_ADDRESS},
    {"balancer-token-file", 1, NULL, BALANCER_TOKEN},
    {"help", 0, NULL, 'h'},
    {0},
};

/* Options that are whole numbers, from min to max. -1: this is none. */
static int generate_args_number(struct gw_cli_generate *all, int id, const char *name, const char *value)
{
    const struct {
        int id;
        uint32_t min, max, *to;
    } numbers[] = {
        {GPU, 0, 1023, &all->gpu},
        {THREADS, 1, 1024, &all->threads},
        {LANES, 1, GEN_MAX_LANES, &all->lanes},
        {CONTEXT, 2, 1u << 24, &all->context},
        {TOKENS, 1, 1u << 24, &all->max_tokens},
        {ROWS, 1, GEN_MAX_ROWS, &all->rows},
        {SESSIONS, 1, 10000, &all->sessions},
        {EACH, 1, 10000, &all->sessions_each},
        {SLOTS, 1, GEN_MAX_SLOTS, &all->slots},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (numbers[i].id == id)
            return gw_option_u32("generate", name, value, numbers[i].min, numbers[i].max, numbers[i].to);
    return -1;
}

static int generate_args_name(struct gw_cli_generate_model *m, const char *name, size_t n)
{
    if (!n || n >= sizeof(m->name))
        return gw_usage_error("generate", "%.*s: a name has 1 to %zu characters", (int)n, name,
                              sizeof(m->name) - 1);
    memcpy(m->name, name, n);
    m->name[n] = 0;
    return 0;
}

static int generate_args_set(struct gw_cli_generate *all, int id, const char *name, const char *value)
{
    uint32_t word = 0;
    int wrong = gw_cli_doors_set("generate", &all->doors, id, name, value);
    if (wrong < 0) wrong = generate_args_number(all, id, name, value);
    if (wrong >= 0) return wrong;
    switch (id) {
    case NAME: return generate_args_name(&all->model[0], value, strlen(value));
    case EXEC: all->exec = value; return gw_option_word("generate", name, value, "gpu cpu auto", NULL);
    case DEVICE: all->device = value; return 0;
    case BALANCER: all->balancer.url = value; return 0;
    case BALANCER_ADDRESS: all->balancer.address = value; return 0;
    case BALANCER_TOKEN: all->balancer.token_file = value; return 0;
    case KV_MEMORY: return gw_option_bytes("generate", name, value, 1, UINT64_C(1) << 50, &all->kv_bytes);
    default:
        wrong = gw_option_word("generate", name, value, "fp32 fp16 bf16", &word);
        all->kv = word == 0 ? GW_DTYPE_F32 : word == 1 ? GW_DTYPE_F16 : GW_DTYPE_BF16;
        return wrong;
    }
}

/* [NAME=]FOLDER */
static int generate_args_folder(struct gw_cli_generate *all, const char *text)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    struct gw_cli_generate_model *m = &all->model[all->models];
    if (all->models == GW_CLI_GENERATE_MODELS)
        return gw_usage_error("generate", "%s: %u folders at most", text, GW_CLI_GENERATE_MODELS);
    all->models++;
    m->folder = text;
    if (!equals || (slash && slash < equals)) return 0;
    m->folder = equals + 1;
    return generate_args_name(m, text, (size_t)(equals - text));
}

static void generate_args_defaults(struct gw_cli_generate *all)
{
    all->exec = "auto";
    all->doors.http.port = 8000;
    all->doors.http.max_body = UINT64_C(16) << 20;
    all->doors.drain_ns = 30000000000u;
    all->sessions = 16;
    all->slots = 64;
}

int gw_cli_generate_args(int argc, char **argv, struct gw_cli_generate *all)
{
    char name[64];
    int option, which = 0, wrong = 0;
    generate_args_defaults(all);
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, &which)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong("generate", argv, option);
        snprintf(name, sizeof(name), "--%s", options[which].name);
        wrong = generate_args_set(all, option, name, optarg);
    }
    bool named = all->model[0].name[0];
    for (int i = optind; !wrong && i < argc; i++) wrong = generate_args_folder(all, argv[i]);
    if (wrong) return wrong;
    if (!all->models) return gw_usage_error("generate", "the folder of a model is missing");
    if (named && all->models > 1)
        return gw_usage_error("generate", "--name names one model; give NAME=FOLDER for each of several");
    return -1;
}
