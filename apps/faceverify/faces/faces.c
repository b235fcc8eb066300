/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify faces: draws people into a folder, as `enrol` and `roc` read them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/faces/draw.h"
#include "apps/faceverify/picture/picture.h"

static const char faces_call[] = "app faceverify faces";

struct faces_options {
    const char *folder;
    uint64_t persons, views, seed, width;
    double spread;
    int eyes;
};

static void faces_print_usage(FILE *f)
{
    fprintf(f,
            "usage: gpuwire app faceverify faces FOLDER [OPTION...]\n\n"
            "Draws people who do not exist: FOLDER/person-0001/1.png and so on.\n\n"
            "  --persons N           how many people (8)\n"
            "  --views N             pictures of each (8)\n"
            "  --seed N              other people (1)\n"
            "  --width N             pixels (320); a picture is an eighth higher than wide\n"
            "  --spread X            how much the pictures of a person differ (1)\n"
            "  --eyes                write the places of the eyes beside each picture, in 1.eyes and so on\n"
            "  -h, --help            this text\n");
}

static int faces_option(int option, char **argv, struct faces_options *o)
{
    switch (option) {
    case 'p': return gw_option_number(faces_call, "--persons", optarg, 1, 9999, &o->persons);
    case 'v': return gw_option_number(faces_call, "--views", optarg, 1, 9999, &o->views);
    case 's': return gw_option_number(faces_call, "--seed", optarg, 0, UINT64_MAX, &o->seed);
    case 'w': return gw_option_number(faces_call, "--width", optarg, 32, 4096, &o->width);
    case 'x': return gw_option_real(faces_call, "--spread", optarg, 0, 2, &o->spread);
    case 'e': o->eyes = 1; return 0;
    default: return gw_option_wrong(faces_call, argv, option);
    }
}

static int faces_make_folder(const char *path)
{
    return mkdir(path, 0777) && errno != EEXIST ? gw_error_errno(-errno, "%s", path) : 0;
}

static int faces_write_eyes(const char *path, const struct face_eyes *eyes)
{
    FILE *f = fopen(path, "we");
    if (!f) return gw_error_errno(-errno, "%s", path);
    fprintf(f, "%.1f %.1f %.1f %.1f\n", (double)eyes->x[0], (double)eyes->y[0], (double)eyes->x[1],
            (double)eyes->y[1]);
    return fclose(f) ? gw_error_errno(-errno, "%s", path) : 0;
}

static int faces_draw_one(const struct faces_options *o, uint32_t person, uint32_t view,
                          struct face_picture *p)
{
    char path[4096];
    struct face_eyes eyes;
    struct face_sitting sitting = {o->seed, person, view, (float)o->spread};
    face_draw(&sitting, p->width, p->height, p->grey, &eyes);
    snprintf(path, sizeof(path), "%s/person-%04u/%u.png", o->folder, person + 1, view + 1);
    int err = face_picture_write(path, p);
    if (err || !o->eyes) return err;
    strcpy(path + strlen(path) - 3, "eyes");
    return faces_write_eyes(path, &eyes);
}

static int faces_draw_all(const struct faces_options *o)
{
    struct face_picture p;
    int err = face_picture_new(&p, o->width, o->width + o->width / 8, o->folder);
    if (!err) err = faces_make_folder(o->folder);
    for (uint32_t person = 0; !err && person < o->persons && !gw_interrupted(); person++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/person-%04u", o->folder, person + 1);
        err = faces_make_folder(path);
        for (uint32_t view = 0; !err && view < o->views && !gw_interrupted(); view++)
            err = faces_draw_one(o, person, view, &p);
    }
    face_picture_free(&p);
    return err;
}

int face_cmd_faces(int argc, char **argv)
{
    static const struct option options[] = {
        {"persons", 1, NULL, 'p'}, {"views", 1, NULL, 'v'}, {"seed", 1, NULL, 's'}, {"width", 1, NULL, 'w'},
        {"spread", 1, NULL, 'x'},  {"eyes", 0, NULL, 'e'},  {"help", 0, NULL, 'h'}, {0},
    };
    struct faces_options o = {.persons = 8, .views = 8, .seed = 1, .width = 320, .spread = 1};
    int option, err;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            faces_print_usage(stdout);
            return GW_EXIT_OK;
        }
        err = faces_option(option, argv, &o);
        if (err) return err;
    }
    if (argc - optind != 1) return gw_usage_error(faces_call, "where to? FOLDER");
    o.folder = argv[optind];
    if (strlen(o.folder) > 3900) return gw_usage_error(faces_call, "the folder's name is too long");
    gw_catch_signals();
    err = faces_draw_all(&o);
    if (err) gw_fail(faces_call, "%s", gw_last_error());
    if (!err && !gw_interrupted())
        printf("%llu pictures of %llu people are in %s\n", (unsigned long long)(o.persons * o.views),
               (unsigned long long)o.persons, o.folder);
    return gw_exit_code(err != 0);
}
