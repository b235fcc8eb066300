/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire infer: one model, one picture or tensor. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>
#include <gpuwire/model.h>

#include "src/cli/enlarge.h"
#include "src/cli/options.h"
#include "src/model/npy.h"

static const char usage[] =
    "usage: gpuwire infer MODEL --image IN.png --out OUT.png [OPTION...]\n"
    "       gpuwire infer MODEL --input X.npy --output Y.npy [OPTION...]\n"
    "\n"
    "Asks a `gpuwire serve` for one inference; the tensors travel by RDMA.\n"
    "\n"
    "With --image, MODEL enlarges pictures: one luma tile in, an enlarged one out (superresolution does). "
    "The picture is\n"
    "split into tiles that overlap, many are kept in flight, and the answers are joined without seams.\n"
    "\n"
    "  --server HOST:PORT  where `gpuwire serve` listens (default 127.0.0.1:8000)\n"
    "  --image, --out      a PNG picture, and where the larger one goes\n"
    "  --input, --output   a float32 tensor as numpy saves it, and where the answer goes\n"
    "  --slots N           requests in flight (default: as many as the server gives)\n"
    "  --stats             say where the time went\n"
    "  -h, --help          this text\n"
    "\n"
    "Exit code 0: answered; 1: not; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum { SERVER = 256, IMAGE, OUT, INPUT, OUTPUT, SLOTS, STATS };

static const struct option options[] = {
    {"server", 1, NULL, SERVER}, {"image", 1, NULL, IMAGE},   {"out", 1, NULL, OUT},
    {"input", 1, NULL, INPUT},   {"output", 1, NULL, OUTPUT}, {"slots", 1, NULL, SLOTS},
    {"stats", 0, NULL, STATS},   {"help", 0, NULL, 'h'},      {0},
};

struct job {
    struct gw_client_opts client;
    const char *image, *out, *input, *output;
    int stats;
};

static int parse(int argc, char **argv, struct job *j)
{
    int option, wrong = 0;
    uint64_t n;
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (option) {
        case SERVER: j->client.server = optarg; break;
        case IMAGE: j->image = optarg; break;
        case OUT: j->out = optarg; break;
        case INPUT: j->input = optarg; break;
        case OUTPUT: j->output = optarg; break;
        case STATS: j->stats = 1; break;
        case SLOTS:
            wrong = gw_option_number("infer", "--slots", optarg, 1, 256, &n);
            if (!wrong) j->client.slots = (uint32_t)n;
            break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("infer", argv, option);
        }
    }
    if (wrong) return wrong;
    if (optind >= argc) return gw_usage_error("infer", "which model?");
    j->client.model = argv[optind++];
    if (optind < argc) return gw_usage_error("infer", "%s: not an option", argv[optind]);
    if ((j->image != NULL) == (j->input != NULL)) return gw_usage_error("infer", "give --image or --input");
    if (j->image && !j->out) return gw_usage_error("infer", "--image wants --out");
    if (j->input && !j->output) return gw_usage_error("infer", "--input wants --output");
    return -1;
}

/* The client's description of a tensor in the model's terms, for checking and writing arrays. */
static struct gw_tensor_info info_of(const struct gw_client_tensor *t)
{
    struct gw_tensor_info info = {.name = t->name, .dtype = GW_DTYPE_F32, .rank = t->ndim, .bytes = t->bytes};
    for (uint32_t i = 0; i < t->ndim; i++) info.dims[i] = (uint64_t)t->dim[i];
    return info;
}

static int infer_tensor(struct gw_client *c, const struct job *j)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_npy x;
    struct gw_tensor_info in = info_of(gw_client_input(c)), out = info_of(gw_client_output(c));
    int error = gw_npy_read(j->input, &x, why, sizeof(why));
    if (error) return gw_error(error, "%s", why);
    error = gw_npy_fits(&x, &in, why, sizeof(why));
    if (error)
        gw_error(error, "%s: %s", j->input, why);
    else {
        struct gw_client_reply reply;
        memcpy(gw_client_slot_input(c, 0), x.data, in.bytes);
        error = gw_client_submit(c, 0, 1);
        if (!error) error = gw_next_answer(c, &reply);
        if (!error) {
            error = gw_npy_write(j->output, out.dims, out.rank, reply.output, why, sizeof(why));
            if (error) gw_error(error, "%s", why);
        }
    }
    gw_npy_free(&x);
    return error;
}

static int infer_image(struct gw_client *c, const struct job *j)
{
    struct gw_latency latency = {0};
    struct gw_image in = {0}, out = {0};
    char why[GW_IMAGE_ERR] = "";
    int error = gw_png_read(j->image, &in, why, sizeof(why));
    if (error) return gw_error(error, "%s", why);
    error = gw_enlarge_by(c, &in, 1, &out, &latency);
    if (!error) {
        error = gw_png_write(j->out, &out, why, sizeof(why));
        if (error) gw_error(error, "%s", why);
    }
    if (!error) {
        printf("%s: %ux%u to %ux%u, %zu tiles\n", j->out, in.width, in.height, out.width, out.height,
               latency.total.count);
        if (j->stats) gw_latency_print(&latency, stdout);
    }
    gw_image_free(&in);
    gw_image_free(&out);
    gw_latency_free(&latency);
    return error;
}

int gw_cli_infer(int argc, char **argv)
{
    struct job j = {.client = {.server = "127.0.0.1:8000", .give_up = gw_interrupted}};
    struct gw_client *client = NULL;
    int done = parse(argc, argv, &j);
    if (done >= 0) return done;

    if (j.image ? gw_option_writable("--out", j.out) : gw_option_writable("--output", j.output))
        return gw_failed("infer");
    gw_catch_signals();
    int error = gw_client_open(&j.client, &client);
    if (!error) error = j.image ? infer_image(client, &j) : infer_tensor(client, &j);
    if (error) gw_failed("infer");
    gw_client_close(client);
    return gw_exit_code(error);
}
