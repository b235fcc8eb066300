/* SPDX-License-Identifier: Apache-2.0 */
/* Reads pictures of people: one file, or FOLDER/NAME/PICTURE. */
#include "apps/faceverify/enrol/read.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include <gpuwire/error.h>

#include "apps/faceverify/picture/align.h"

static int view_eyes(const char *path, const struct face_picture *p, const struct face_read_opts *opts,
                     struct face_eyes *eyes)
{
    if (opts->eyes) {
        *eyes = *opts->eyes;
        return 0;
    }
    int err = face_eyes_beside(path, eyes);
    return err == -ENOENT ? face_eyes_find(p, path, eyes) : err;
}

int face_view_read(const char *path, const struct face_read_opts *opts, uint8_t pixels[FACE_PIXELS],
                   struct face_eyes *found)
{
    struct face_picture p;
    struct face_eyes eyes = FACE_EYES_ALIGNED;
    int err = face_picture_read(path, &p);
    if (err) return err;
    if (opts->aligned && (p.width != FACE_SIDE || p.height != FACE_SIDE))
        err = gw_error(-EINVAL, "%s: %u by %u pixels; an aligned picture has %d by %d", path, p.width,
                       p.height, FACE_SIDE, FACE_SIDE);
    else if (opts->aligned)
        memcpy(pixels, p.grey, FACE_PIXELS);
    else
        err = view_eyes(path, &p, opts, &eyes);
    if (!err && !opts->aligned) {
        char why[256];
        err = face_align(&p, &eyes, pixels);
        snprintf(why, sizeof(why), "%s", err ? gw_last_error() : "");
        if (err) gw_error(err, "%s: %s", path, why);
    }
    face_picture_free(&p);
    if (found) *found = eyes;
    return err;
}

/* ---- folders ---- */

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return name[0] != '.' && dot &&
           (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static void names_free(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}

struct walk {
    int (*each)(void *ctx, const char *name, const char *path);
    void *ctx;
    uint64_t pictures;
};

static int walk_person(struct walk *w, const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    struct dirent **files;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return gw_error(-ENAMETOOLONG, "%s/%s", folder, name);
    if (name[0] == '.' || stat(path, &st) || !S_ISDIR(st.st_mode)) return 0;
    if (!face_name_valid(name, strlen(name)))
        return gw_error(-EINVAL, "%s: a person's name has 1 to %d bytes, and no blanks", path, FACE_NAME_MAX);
    int n = scandir(path, &files, NULL, alphasort), err = 0;
    if (n < 0) return gw_error_errno(-errno, "%s", path);
    for (int i = 0; i < n && !err; i++) {
        char file[4096 + 260];
        if (!is_picture(files[i]->d_name)) continue;
        snprintf(file, sizeof(file), "%s/%s", path, files[i]->d_name);
        w->pictures++;
        err = w->each(w->ctx, name, file);
    }
    names_free(files, n);
    return err;
}

int face_folder_walk(const char *folder, int (*each)(void *ctx, const char *name, const char *path),
                     void *ctx)
{
    struct walk w = {each, ctx, 0};
    struct dirent **people;
    int n = scandir(folder, &people, NULL, alphasort), err = 0;
    if (n < 0) return gw_error_errno(-errno, "%s", folder);
    for (int i = 0; i < n && !err; i++) err = walk_person(&w, folder, people[i]->d_name);
    names_free(people, n);
    if (!err && !w.pictures)
        return gw_error(-ENOENT, "%s: no pictures; they are %s/NAME/*.png or *.jpg", folder, folder);
    return err;
}

/* ---- a folder as a crowd ---- */

struct reading {
    struct face_crowd *crowd;
    uint32_t enrolled, of_last, skipped;
};

/* Makes the arrays one longer, now and then. */
static int crowd_grow(void **array, size_t each, uint32_t count)
{
    if (count & (count - 1)) return 0;
    void *more = realloc(*array, each * (count ? 2 * (size_t)count : 1));
    if (!more) return gw_error(-ENOMEM, "no memory for more pictures");
    *array = more;
    return 0;
}

static int read_one(void *ctx, const char *name, const char *path)
{
    static const struct face_read_opts opts = {NULL, false};
    struct reading *r = ctx;
    struct face_crowd *c = r->crowd;
    bool fresh = !c->persons || strcmp(c->person[c->persons - 1].name, name);
    if (c->views == FACE_MAX_VIEWS) return gw_error(-E2BIG, "more than %d pictures", FACE_MAX_VIEWS);
    int err = crowd_grow((void **)&c->view, sizeof(*c->view), c->views);
    if (!err && fresh) err = crowd_grow((void **)&c->person, sizeof(*c->person), c->persons);
    if (err) return err;
    struct face_view *v = &c->view[c->views];
    memset(v, 0, sizeof(*v));
    if (face_view_read(path, &opts, v->pixels, NULL)) {
        fprintf(stderr, "gpuwire app faceverify: %s; left out\n", gw_last_error());
        r->skipped++;
        return 0;
    }
    if (fresh) {
        memset(&c->person[c->persons], 0, sizeof(*c->person));
        snprintf(c->person[c->persons++].name, sizeof(c->person->name), "%s", name);
        r->of_last = 0;
    }
    face_histogram_of(v->pixels, &v->histogram);
    v->person = c->persons - 1;
    v->enrolled = !r->enrolled || r->of_last++ < r->enrolled;
    c->views++;
    return 0;
}

int face_folder_read(const char *folder, uint32_t enrolled, struct face_crowd *crowd, uint32_t *skipped)
{
    struct reading r = {.crowd = crowd, .enrolled = enrolled};
    memset(crowd, 0, sizeof(*crowd));
    int err = face_folder_walk(folder, read_one, &r);
    if (!err && !crowd->views) err = gw_error(-ENOENT, "%s: none of the pictures could be used", folder);
    if (err) {
        face_crowd_free(crowd);
        return err;
    }
    face_crowd_mean(crowd);
    *skipped = r.skipped;
    return 0;
}
