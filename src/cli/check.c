/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire check: can a model run here? Every node that cannot is named, not the first alone. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/model.h>

#include "src/cli/options.h"
#include "src/model/graph/graph.h"
#include "src/model/import/file.h"
#include "src/model/import/import.h"
#include "src/server/worker/repository.h"

static const char usage[] =
    "usage: gpuwire check FILE... [--exec cpu|gpu] [--batch N]\n"
    "\n"
    "Reads ONNX models and plug-ins (FILE.so) and says whether they can be served: inputs and outputs, and "
    "what memory a plan takes. Of a model\n"
    "that cannot run it lists every node that fails, with the reason. Exit code 0: "
    "all can run, 1: one cannot, 2: wrong\n"
    "usage.\n"
    "\n"
    "  --exec cpu|gpu        where the model is to run; default: cpu\n"
    "  --batch N             samples that one run takes; default: 1\n"
    "  -h, --help            this text\n";

struct check {
    struct gw_plan_options plan;
    unsigned failed; /* nodes of the file at hand */
};

static void print_failed(void *arg, const char *name, const char *type, const char *why)
{
    struct check *c = (struct check *)arg;

    c->failed++;
    printf("  cannot run: '");
    for (const char *p = name; *p; p++)
        putchar(*p >= 0x20 && *p < 0x7f ? *p : '?'); /* the file's: not trusted */
    printf("' (");
    for (const char *p = type; *p; p++) putchar(*p >= 0x20 && *p < 0x7f ? *p : '?');
    printf("): %s\n", why);
}

static void print_tensor(const char *what, const struct gw_tensor_info *t)
{
    printf("  %-8s%-7s", what, gw_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!i && t->batched)
            printf("N");
        else
            printf("%s%" PRIu64, i ? "x" : "", t->dims[i]);
    }
    printf("%s '", t->rank ? "" : "one number");
    for (const char *p = t->name; *p; p++) putchar(*p >= 0x20 && *p < 0x7f ? *p : '?');
    printf("'\n");
}

static int plan(struct check *c, const char *path, const struct gw_model *m)
{
    char err[GW_MODEL_ERR] = "";
    struct gw_plan_stats s;
    struct gw_plan *p;

    for (uint32_t i = 0; i < gw_model_inputs(m); i++) print_tensor("input", gw_model_input(m, i));
    for (uint32_t i = 0; i < gw_model_outputs(m); i++) print_tensor("output", gw_model_output(m, i));
    if (gw_plan_create(m, &c->plan, &p, err, sizeof(err))) {
        printf("  cannot run: %s\n", err);
        printf("%s: cannot run\n", path);
        return GW_EXIT_FAILURE;
    }
    gw_plan_stats(p, &s);
    printf("  memory  %.1f MB of weights, %.1f MB of intermediate results; %u %s\n",
           (double)s.weight_bytes / 1e6, (double)s.arena_bytes / 1e6, s.steps,
           c->plan.place == GW_PLACE_GPU ? "kernels" : "steps");
    printf("%s: runs on the %s\n", path, c->plan.place == GW_PLACE_GPU ? "GPU" : "CPU");
    gw_plan_free(p);
    return GW_EXIT_OK;
}

/* Looks at all nodes of a file that cannot be opened; 0: none of them is the reason. */
static unsigned list_failed(struct check *c, const char *path)
{
    const struct gwm_check each = {print_failed, c};
    char text[GW_MODEL_ERR];
    const struct gwm_msg msg = {text, sizeof(text), ""};
    struct gwm_graph *g = NULL;
    void *bytes = NULL;
    ssize_t len = gwm_read_file(path, &msg, &bytes);
    int dir = len < 0 ? -1 : gwm_open_folder(path);

    c->failed = 0;
    if (len >= 0 && !gwm_import_file(bytes, (size_t)len, dir, &each, &g, &msg)) gwm_graph_free(g);
    if (dir >= 0) close(dir);
    free(bytes);
    return c->failed;
}

static int cli_check_file(struct check *c, const char *path)
{
    char why[GW_MODEL_ERR];
    struct gw_model *m;

    int plugin = gw_repository_is_plugin(path);
    int err =
        plugin ? gw_model_open_plugin(path, &m, why, sizeof(why)) : gw_model_open(path, &m, why, sizeof(why));
    if (err) {
        unsigned n = plugin ? 0 : list_failed(c, path);
        if (n)
            printf("%s: cannot run: %u %s\n", path, n, n == 1 ? "reason" : "reasons");
        else
            fprintf(stderr, "gpuwire check: %s\n", why);
        return GW_EXIT_FAILURE;
    }
    err = plan(c, path, m);
    gw_model_close(m);
    return err;
}

int gw_cli_check(int argc, char **argv)
{
    static const struct option options[] = {{"exec", required_argument, NULL, 'e'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct check c = {.plan = {.place = GW_PLACE_CPU}};
    uint64_t rows = 1;
    int err = 0;

    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (o) {
        case 'e':
            if (strcmp(optarg, "cpu") && strcmp(optarg, "gpu"))
                return gw_usage_error("check", "--exec: '%s': expected cpu or gpu", optarg);
            c.plan.place = *optarg == 'g' ? GW_PLACE_GPU : GW_PLACE_CPU;
            break;
        case 'b':
            if (gw_option_number("check", "--batch", optarg, 1, 65536, &rows)) return GW_EXIT_USAGE;
            c.plan.rows = (uint32_t)rows;
            break;
        case 'h': printf("%s", usage); return GW_EXIT_OK;
        default: return gw_option_wrong("check", argv, o);
        }
    }
    if (optind == argc) return gw_usage_error("check", "a model file is missing");
    for (int i = optind; i < argc; i++) err = cli_check_file(&c, argv[i]) ? GW_EXIT_FAILURE : err;
    return err;
}
