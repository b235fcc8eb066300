/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire infer: one request to any model; or a picture, tile by tile. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>

#include "src/cli/door.h"
#include "src/cli/enlarge.h"
#include "src/cli/options.h"
#include "src/cli/tensors.h"

static const char usage[] =
    "usage: gpuwire infer MODEL [--input NAME=IN.npy]... [--output NAME=OUT.npy]... [OPTION...]\n"
    "       gpuwire infer MODEL --image IN.png --out OUT.png [OPTION...]\n"
    "\n"
    "Asks a server for one inference: over RDMA a `gpuwire serve`, over HTTP or gRPC any server of the Open "
    "Inference "
    "Protocol.\n"
    "Without --output it prints the answer as JSON. A model with one input, or one output, needs no NAME=.\n"
    "\n"
    "With --image, MODEL enlarges pictures: one luma tile in, an enlarged one out (superresolution does). "
    "The picture is\n"
    "split into tiles that overlap, many are kept in flight, and the answers are joined without seams.\n"
    "\n"
    "  --server URL         where the server listens: HOST:PORT or rdma:// (RDMA), http://, https://,\n"
    "                       grpc:// or grpcs:// (default 127.0.0.1:8000)\n"
    "  --fleet ADDRESSES    instead: a fleet's controllers, HOST:PORT[,HOST:PORT], or http://HOST:PORT of "
    "its "
    "etcd\n"
    "  --token-file FILE    a file with the server's bearer token\n"
    "  --ca-file FILE       who may sign the server's certificate (PEM; default: the system's)\n"
    "  --model-version V    of the model (default: the server's choice)\n"
    "  --input NAME=IN.npy  an input as numpy saves it, with as many samples as you like\n"
    "  --output NAME=OUT.npy  where an output goes\n"
    "  --priority N         1 is served first (default: the model's)\n"
    "  --deadline TIME      20ms, 500us, 1s: after it the answer is worth nothing: the server then refuses\n"
    "  --image, --out       a PNG picture, and where the larger one goes\n"
    "  --slots N            tiles in flight (default: as many as the server gives)\n"
    "  --stats              say where the time went\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit code 0: answered; 1: not; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum { IMAGE = GW_DOOR_OPTIONS_END, OUT, INPUT, OUTPUT, STATS };

static const struct option options[] = {
    GW_DOOR_OPTIONS,
    {"image", 1, NULL, IMAGE},
    {"out", 1, NULL, OUT},
    {"input", 1, NULL, INPUT},
    {"output", 1, NULL, OUTPUT},
    {"stats", 0, NULL, STATS},
    {"help", 0, NULL, 'h'},
    {0},
};

struct job {
    struct gw_door_options door;
    struct gw_client_opts client;
    const char *image, *out;
    struct gw_files input, output;
    int stats;
};

static int cli_infer_check(const struct job *j)
{
    if ((j->image != NULL) == (j->input.count != 0))
        return gw_usage_error("infer", "give --image or --input");
    if (j->image && !j->out) return gw_usage_error("infer", "--image wants --out");
    if (j->image && j->output.count)
        return gw_usage_error("infer", "--image goes with --out, not with --output");
    if (!j->image && j->out)
        return gw_usage_error("infer", "--out goes with --image; --output is for tensors");
    return -1;
}

static int cli_infer_parse(int argc, char **argv, struct job *j)
{
    int option, wrong = 0;
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (option) {
        case IMAGE: j->image = optarg; break;
        case OUT: j->out = optarg; break;
        case INPUT: wrong = gw_files_add("infer", "--input", &j->input, optarg); break;
        case OUTPUT: wrong = gw_files_add("infer", "--output", &j->output, optarg); break;
        case STATS: j->stats = 1; break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default:
            wrong = gw_door_option("infer", &j->door, option, optarg);
            if (wrong < 0) return gw_option_wrong("infer", argv, option);
        }
    }
    if (!wrong) wrong = gw_door_model("infer", argc, argv, &j->client);
    return wrong ? wrong : cli_infer_check(j);
}

/* ---- tensors ---- */

static void print_times(const struct gw_client_times *t)
{
    fprintf(stderr, "%.3f ms", (double)t->total / 1e6);
    if (t->model)
        fprintf(stderr, ": network in %.3f, wait %.3f, model %.3f, post %.3f, network out %.3f",
                (double)t->net_in / 1e6, (double)t->wait / 1e6, (double)t->model / 1e6, (double)t->post / 1e6,
                (double)t->net_out / 1e6);
    fputc('\n', stderr);
}

static int infer_tensors(struct gw_client *c, struct job *j, struct gw_arrays *in)
{
    struct gw_client_reply reply;
    j->door.request.id = 1;
    int err = gw_arrays_fit(in, c, &j->door.request.rows);
    if (!err) err = gw_files_fit(&j->output, c);
    if (err) return err;
    gw_arrays_copy(in, c, 0, j->door.request.rows);
    err = gw_client_submit(c, 0, &j->door.request);
    if (!err) err = gw_next_answer(c, &reply);
    if (err) return err;
    if (j->stats) print_times(&reply.times);
    return j->output.count ? gw_reply_save(c, &reply, &j->output) : gw_reply_print(c, &reply);
}

/* Room for as many samples as the inputs have, and no more. */
static int cli_infer_tensors(struct job *j)
{
    struct gw_arrays in = {0};
    struct gw_client *client = NULL;
    int err = gw_arrays_read(&in, &j->input);
    if (!err) {
        j->client.slots = 1;
        j->client.shapes = in.shape;
        j->client.shape_count = in.count;
        err = gw_client_open(&j->client, &client);
    }
    if (!err) err = infer_tensors(client, j, &in);
    if (err) gw_failed("infer");
    gw_client_close(client);
    gw_arrays_free(&in);
    return gw_exit_code(err);
}

/* ---- pictures ---- */

static int infer_image(struct gw_client *c, const struct job *j)
{
    struct gw_latency *latency = gw_latency_new();
    struct gw_image in = {0}, out = {0};
    char why[GW_IMAGE_ERR] = "";
    int err = latency ? gw_png_read(j->image, &in, why, sizeof(why)) : -ENOMEM;
    if (err) {
        free(latency);
        return gw_error(err, "%s", latency ? why : "out of memory");
    }
    err = gw_enlarge_by(c, &in, 1, &out, latency);
    if (!err) {
        err = gw_png_write(j->out, &out, why, sizeof(why));
        if (err) gw_error(err, "%s", why);
    }
    if (!err) {
        printf("%s: %ux%u to %ux%u, %" PRIu64 " tiles\n", j->out, in.width, in.height, out.width, out.height,
               latency->part[GW_TOTAL].count);
        if (j->stats) gw_latency_print(latency, stdout);
    }
    gw_image_free(&in);
    gw_image_free(&out);
    free(latency);
    return err;
}

static int image(struct job *j)
{
    struct gw_client *client = NULL;
    j->client.rows = 1;
    int err = gw_client_open(&j->client, &client);
    if (!err) err = infer_image(client, j);
    if (err) gw_failed("infer");
    gw_client_close(client);
    return gw_exit_code(err);
}

int gw_cli_infer(int argc, char **argv)
{
    struct job j = {.client = {.give_up = gw_interrupted}};
    int done = cli_infer_parse(argc, argv, &j);
    if (done >= 0) return done;

    int err = gw_door_options_use(&j.door, &j.client);
    if (!err && j.image) err = gw_option_writable("--out", j.out);
    for (uint32_t i = 0; !err && i < j.output.count; i++)
        err = gw_option_writable("--output", j.output.file[i].path);
    if (err) return gw_failed("infer");
    gw_catch_signals();
    return j.image ? image(&j) : cli_infer_tensors(&j);
}
