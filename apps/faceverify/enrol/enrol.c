/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify enrol: pictures of people become histograms in memcached. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/enrol/read.h"
#include "apps/faceverify/enrol/store.h"
#include "apps/faceverify/picture/align.h"

static const char enrol_call[] = "app faceverify enrol";

struct enrol_options {
    const char *servers, *spread, *save;
    struct face_eyes eyes;
    bool have_eyes, aligned, drawn, removes;
    uint64_t persons, views, seed;
    int count; /* of arguments */
    char **argument;
};

static void enrol_print_usage(FILE *f)
{
    fprintf(
        f,
        "usage: gpuwire app faceverify enrol --memcached LIST [OPTION...] NAME PICTURE...\n"
        "       gpuwire app faceverify enrol --memcached LIST [OPTION...] FOLDER\n"
        "       gpuwire app faceverify enrol --memcached LIST --drawn [OPTION...]\n"
        "       gpuwire app faceverify enrol --memcached LIST --remove NAME...\n\n"
        "Stores what tells a person from others: the mean of the pictures' histograms. Pictures are PNG or\n"
        "JPEG files; FOLDER/NAME/ has those of one person. A picture is aligned by its eyes. Where they are\n"
        "says --eyes, or the file beside the picture (anna.eyes for anna.png), or they are found.\n\n"
        "  --memcached LIST      HOST[:PORT][/WEIGHT],...\n"
        "  --spread HOW          which server has a name: modula, ketama or ketama-weighted (modula)\n"
        "  --eyes X1,Y1,X2,Y2    the eyes' places in the one picture, in pixels from its upper left corner\n"
        "  --aligned             the pictures are aligned already: %d by %d pixels\n"
        "  --save FILE           write the one aligned picture as PNG, to look at\n"
        "  --drawn               enrol the people that `load` draws\n"
        "  --persons N           how many (32)\n"
        "  --views N             pictures of each; the first three are enrolled (8)\n"
        "  --seed N              another crowd (1)\n"
        "  --remove              forget people\n"
        "  -h, --help            this text\n",
        FACE_SIDE, FACE_SIDE);
}

enum { O_EYES = 256, O_ALIGNED, O_SAVE, O_DRAWN, O_PERSONS, O_VIEWS, O_SEED, O_REMOVE };

static const struct option enrol_long[] = {
    {"memcached", 1, NULL, 'm'},     {"spread", 1, NULL, 's'},    {"eyes", 1, NULL, O_EYES},
    {"aligned", 0, NULL, O_ALIGNED}, {"save", 1, NULL, O_SAVE},   {"drawn", 0, NULL, O_DRAWN},
    {"persons", 1, NULL, O_PERSONS}, {"views", 1, NULL, O_VIEWS}, {"seed", 1, NULL, O_SEED},
    {"remove", 0, NULL, O_REMOVE},   {"help", 0, NULL, 'h'},      {0},
};

static int enrol_option(int option, char **argv, struct enrol_options *o)
{
    switch (option) {
    case 'm': o->servers = optarg; return 0;
    case 's': o->spread = optarg; return 0;
    case O_EYES:
        o->have_eyes = true;
        return face_eyes_parse(optarg, &o->eyes) ? gw_usage_error(enrol_call, "--eyes %s", gw_last_error())
                                                 : 0;
    case O_ALIGNED: o->aligned = true; return 0;
    case O_SAVE: o->save = optarg; return 0;
    case O_DRAWN: o->drawn = true; return 0;
    case O_PERSONS: return gw_option_number(enrol_call, "--persons", optarg, 1, FACE_MAX_VIEWS, &o->persons);
    case O_VIEWS: return gw_option_number(enrol_call, "--views", optarg, 1, 1000, &o->views);
    case O_SEED: return gw_option_number(enrol_call, "--seed", optarg, 0, UINT64_MAX, &o->seed);
    case O_REMOVE: o->removes = true; return 0;
    default: return gw_option_wrong(enrol_call, argv, option);
    }
}

/* 0: they make sense together. */
static int enrol_check(const struct enrol_options *o)
{
    if (!o->servers) return gw_usage_error(enrol_call, "where to? --memcached LIST");
    if (o->drawn && (o->removes || o->count))
        return gw_usage_error(enrol_call, "--drawn takes no names and pictures");
    if (!o->drawn && !o->count)
        return gw_usage_error(enrol_call,
                              o->removes ? "forget whom? NAME..." : "whom? NAME PICTURE..., or FOLDER");
    if ((o->have_eyes || o->save) && o->count != 2)
        return gw_usage_error(enrol_call, "%s is for one picture", o->have_eyes ? "--eyes" : "--save");
    return 0;
}

static int enrol_drawn(struct face_store *store, const struct enrol_options *o)
{
    struct face_crowd_opts opts = {o->seed, (uint32_t)o->persons, (uint32_t)o->views, o->views < 3 ? 0 : 3,
                                   1};
    struct face_crowd crowd;
    int err = face_crowd_draw(&crowd, &opts);
    if (err) return err;
    for (uint32_t p = 0; p < crowd.persons && !err && !gw_interrupted(); p++)
        err = face_store_put(store, crowd.person[p].name, &crowd.person[p].histogram);
    if (!err) printf("%u drawn people are enrolled\n", crowd.persons);
    face_crowd_free(&crowd);
    return err;
}

static int enrol_picture(const struct enrol_options *o, const char *path, struct face_sum *sum)
{
    struct face_read_opts opts = {o->have_eyes ? &o->eyes : NULL, o->aligned};
    uint8_t pixels[FACE_PIXELS];
    struct face_histogram h;
    struct face_eyes eyes;
    int err = face_view_read(path, &opts, pixels, &eyes);
    if (err) return err;
    if (!o->aligned)
        printf("%s: eyes at %.0f,%.0f and %.0f,%.0f\n", path, (double)eyes.x[0], (double)eyes.y[0],
               (double)eyes.x[1], (double)eyes.y[1]);
    face_histogram_of(pixels, &h);
    face_sum_add(sum, &h);
    return o->save ? face_picture_write(o->save, &(struct face_picture){FACE_SIDE, FACE_SIDE, pixels}) : 0;
}

static int enrol_sum(struct face_store *store, const char *name, const struct face_sum *sum)
{
    struct face_histogram mean;
    face_sum_mean(sum, &mean);
    int err = face_store_put(store, name, &mean);
    if (!err)
        printf("%s is enrolled, from %u picture%s\n", name, sum->histograms, sum->histograms == 1 ? "" : "s");
    return err;
}

/* NAME PICTURE...: all of them, or none. */
static int enrol_person(struct face_store *store, const struct enrol_options *o)
{
    struct face_sum sum = {0};
    const char *name = o->argument[0];
    if (!face_name_valid(name, strlen(name)))
        return gw_error(-EINVAL, "%.40s: a name has 1 to %d bytes, and no blanks", name, FACE_NAME_MAX);
    for (int i = 1; i < o->count; i++) {
        int err = gw_interrupted() ? gw_error(-EINTR, "interrupted") : enrol_picture(o, o->argument[i], &sum);
        if (err) return err;
    }
    return enrol_sum(store, name, &sum);
}

/* What is enrolled while a folder is read: a person ends where the next begins. */
struct folder {
    struct face_store *store;
    const struct enrol_options *o;
    char name[FACE_NAME_MAX + 1];
    struct face_sum sum;
    uint32_t people, skipped;
};

static int folder_person_end(struct folder *f)
{
    if (!f->sum.histograms) return 0;
    int err = enrol_sum(f->store, f->name, &f->sum);
    memset(&f->sum, 0, sizeof(f->sum));
    f->people += !err;
    return err;
}

static int folder_picture(void *ctx, const char *name, const char *path)
{
    struct folder *f = ctx;
    int err = strcmp(f->name, name) ? folder_person_end(f) : 0;
    if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
    snprintf(f->name, sizeof(f->name), "%s", name);
    if (!err && enrol_picture(f->o, path, &f->sum)) {
        fprintf(stderr, "gpuwire app faceverify enrol: %s; left out\n", gw_last_error());
        f->skipped++;
    }
    return err;
}

static int enrol_folder(struct face_store *store, const struct enrol_options *o)
{
    struct folder f = {.store = store, .o = o};
    int err = face_folder_walk(o->argument[0], folder_picture, &f);
    if (!err) err = folder_person_end(&f);
    if (err) return err;
    printf("%u people are enrolled\n", f.people);
    return f.skipped ? gw_error(-EBADMSG, "%u pictures were left out", f.skipped) : 0;
}

static int enrol_remove(struct face_store *store, const struct enrol_options *o)
{
    int err = 0;
    for (int i = 0; i < o->count && !err; i++) err = face_store_remove(store, o->argument[i]);
    return err;
}

int face_cmd_enrol(int argc, char **argv)
{
    struct enrol_options o = {.persons = 32, .views = 8, .seed = 1};
    struct face_store *store;
    int option, err;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":hm:s:", enrol_long, NULL)) != -1) {
        if (option == 'h') {
            enrol_print_usage(stdout);
            return GW_EXIT_OK;
        }
        err = enrol_option(option, argv, &o);
        if (err) return err;
    }
    o.count = argc - optind;
    o.argument = argv + optind;
    err = enrol_check(&o);
    if (err) return err;
    err = face_store_open(enrol_call, o.servers, o.spread, &store);
    if (err) return err;
    gw_catch_signals();
    err = o.drawn        ? enrol_drawn(store, &o)
          : o.removes    ? enrol_remove(store, &o)
          : o.count == 1 ? enrol_folder(store, &o)
                         : enrol_person(store, &o);
    face_store_close(store);
    if (err && !gw_interrupted()) gw_fail(enrol_call, "%s", gw_last_error());
    return gw_exit_code(err != 0);
}
