/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify roc: how well distances tell people apart, and a threshold for `serve`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/enrol/read.h"
#include "apps/faceverify/roc/curve.h"

static const char roc_call[] = "app faceverify roc";

struct roc_options {
    const char *folder, *svg, *csv, *threshold;
    uint64_t persons, views, seed, enrolled;
    double far;
    bool drawn;
};

static void roc_print_usage(FILE *f)
{
    fprintf(f,
            "usage: gpuwire app faceverify roc FOLDER [OPTION...]\n"
            "       gpuwire app faceverify roc --drawn [OPTION...]\n\n"
            "Compares pictures with people: with their own, and with all others. The first pictures of each "
            "person\n"
            "are enrolled, the rest are compared. Says how often each threshold errs, and chooses one.\n"
            "FOLDER/NAME/ has the pictures of a person, as for `enrol`.\n\n"
            "  --far X               others who may be taken for a person: 0.01 is one in a hundred (0.01)\n"
            "  --enrolled N          pictures of each person that are enrolled (3)\n"
            "  --out FILE            write the curve as a picture (SVG)\n"
            "  --csv FILE            write threshold, false acceptances and false rejections\n"
            "  --threshold-to FILE   write the chosen threshold: serve --threshold $(cat FILE)\n"
            "  --drawn               people that are drawn, as `load` does\n"
            "  --persons N           how many (32)\n"
            "  --views N             pictures of each (8)\n"
            "  --seed N              other people (1)\n"
            "  -h, --help            this text\n");
}

static int roc_option(int option, char **argv, struct roc_options *o)
{
    switch (option) {
    case 'f': return gw_option_real(roc_call, "--far", optarg, 0, 1, &o->far);
    case 'e': return gw_option_number(roc_call, "--enrolled", optarg, 1, 1000, &o->enrolled);
    case 'o': o->svg = optarg; return 0;
    case 'c': o->csv = optarg; return 0;
    case 't': o->threshold = optarg; return 0;
    case 'd': o->drawn = true; return 0;
    case 'p': return gw_option_number(roc_call, "--persons", optarg, 2, 5000, &o->persons);
    case 'v': return gw_option_number(roc_call, "--views", optarg, 2, 1000, &o->views);
    case 's': return gw_option_number(roc_call, "--seed", optarg, 0, UINT64_MAX, &o->seed);
    default: return gw_option_wrong(roc_call, argv, option);
    }
}

/* -1: go on; else the exit code. */
static int roc_arguments(int argc, char **argv, struct roc_options *o)
{
    static const struct option options[] = {
        {"far", 1, NULL, 'f'},
        {"enrolled", 1, NULL, 'e'},
        {"out", 1, NULL, 'o'},
        {"csv", 1, NULL, 'c'},
        {"threshold-to", 1, NULL, 't'},
        {"drawn", 0, NULL, 'd'},
        {"persons", 1, NULL, 'p'},
        {"views", 1, NULL, 'v'},
        {"seed", 1, NULL, 's'},
        {"help", 0, NULL, 'h'},
        {0},
    };
    int option, err;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            roc_print_usage(stdout);
            return GW_EXIT_OK;
        }
        err = roc_option(option, argv, o);
        if (err) return err;
    }
    if (argc - optind > 1 || (o->drawn && argc != optind))
        return gw_usage_error(roc_call, "one folder, or --drawn");
    if (!o->drawn && argc == optind) return gw_usage_error(roc_call, "whose pictures? FOLDER, or --drawn");
    if (o->drawn && o->enrolled >= o->views)
        return gw_usage_error(roc_call, "--enrolled %llu: must be less than --views",
                              (unsigned long long)o->enrolled);
    o->folder = argv[optind];
    return -1;
}

static int compare_distance(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Compares each view that is not enrolled with all people. */
static int roc_compare(const struct face_crowd *crowd, struct face_curve *c)
{
    uint32_t probes = 0;
    for (uint32_t v = 0; v < crowd->views; v++) probes += !crowd->view[v].enrolled;
    if (!probes)
        return gw_error(-EINVAL, "no person has more pictures than are enrolled; take a smaller --enrolled");
    if (crowd->persons < 2) return gw_error(-EINVAL, "there is only one person: two at least are needed");
    c->genuine = malloc(probes * sizeof(float));
    c->impostor = malloc((size_t)probes * (crowd->persons - 1) * sizeof(float));
    if (!c->genuine || !c->impostor) return gw_error(-ENOMEM, "no memory for %u comparisons", probes);
    for (uint32_t v = 0; v < crowd->views && !gw_interrupted(); v++)
        for (uint32_t p = 0; !crowd->view[v].enrolled && p < crowd->persons; p++) {
            float d = face_compare(&crowd->person[p].histogram, &crowd->view[v].histogram);
            if (p == crowd->view[v].person)
                c->genuine[c->genuines++] = d;
            else
                c->impostor[c->impostors++] = d;
        }
    qsort(c->genuine, c->genuines, sizeof(float), compare_distance);
    qsort(c->impostor, c->impostors, sizeof(float), compare_distance);
    return gw_interrupted() ? gw_error(-EINTR, "interrupted") : 0;
}

static int roc_write_threshold(const char *path, float threshold)
{
    FILE *f = fopen(path, "we");
    if (!f) return gw_error_errno(-errno, "%s", path);
    fprintf(f, "%.4f\n", (double)threshold);
    return fclose(f) ? gw_error_errno(-errno, "%s: cannot be written", path) : 0;
}

static int roc_tell(const struct roc_options *o, const struct face_crowd *crowd, const struct face_curve *c)
{
    float equal = face_curve_equal(c), chosen = face_curve_for(c, o->far);
    struct face_rates at_equal = face_curve_at(c, equal), at = face_curve_at(c, chosen);
    printf("%u people; %u comparisons with the same person, %u with others\n\n", crowd->persons, c->genuines,
           c->impostors);
    face_curve_print(c, chosen, stdout);
    printf("\n  equal error rate: %.2f %% at %.4f\n", 50 * (at_equal.far + at_equal.frr), (double)equal);
    printf("  threshold %.4f: %.2f %% of others are taken for the person, %.2f %% of people are refused\n",
           (double)chosen, 100 * at.far, 100 * at.frr);
    int err = o->csv ? face_curve_csv(c, o->csv) : 0;
    if (!err && o->svg) err = face_curve_svg(c, chosen, o->svg);
    if (!err && o->threshold) err = roc_write_threshold(o->threshold, chosen);
    return err;
}

int face_cmd_roc(int argc, char **argv)
{
    struct roc_options o = {.persons = 32, .views = 8, .seed = 1, .enrolled = 3, .far = .01};
    struct face_crowd crowd;
    struct face_curve curve = {0};
    uint32_t skipped = 0;
    int err = roc_arguments(argc, argv, &o);
    if (err >= 0) return err;
    gw_catch_signals();
    struct face_crowd_opts opts = {o.seed, (uint32_t)o.persons, (uint32_t)o.views, (uint32_t)o.enrolled, 1};
    err = o.drawn ? face_crowd_draw(&crowd, &opts)
                  : face_folder_read(o.folder, (uint32_t)o.enrolled, &crowd, &skipped);
    if (!err) {
        err = roc_compare(&crowd, &curve);
        if (!err) err = roc_tell(&o, &crowd, &curve);
        face_crowd_free(&crowd);
    }
    if (!err && skipped) err = gw_error(-EBADMSG, "%u pictures were left out", skipped);
    free(curve.genuine);
    free(curve.impostor);
    if (err && !gw_interrupted()) gw_fail(roc_call, "%s", gw_last_error());
    return gw_exit_code(err != 0);
}
