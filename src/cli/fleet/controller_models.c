/* SPDX-License-Identifier: Apache-2.0 */
/* Reads --models of `gpuwire controller`: a model repository, whose names are taken, or a file of JSON that
 * also says on how many GPUs each model shall be. */
#include "src/cli/fleet/controller_models.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gpuwire/error.h>

#ifdef GW_HAVE_REPOSITORY
#include "src/server/worker/repository.h"
#endif

enum { MODELS_MOST = 1 << 20 };

static int models_name(const char *path, const char *name, struct fleet_control_wish *w)
{
    if (!name || !*name || strlen(name) >= sizeof(w->name))
        return gw_error(-EINVAL, "%s: a model needs a \"name\" of 1 to %d bytes", path, FLEET_MODEL - 1);
    strcpy(w->name, name);
    return 0;
}

/* ---- a repository */

#ifdef GW_HAVE_REPOSITORY
static int models_of_folder(const char *path, struct fleet_control_wish **out, uint32_t *n)
{
    struct gw_repository all;
    int err = gw_repository_scan(path, &all);
    if (err) return err;
    struct fleet_control_wish *w = calloc(all.count + 1, sizeof(*w));
    if (!w) err = gw_error(-ENOMEM, "%s: no memory for its models", path);
    for (size_t i = 0; !err && i < all.count; i++) err = models_name(path, all.entry[i].name, &w[i]);
    *n = (uint32_t)all.count;
    gw_repository_free(&all);
    *out = w;
    return err;
}
#else
static int models_of_folder(const char *path, struct fleet_control_wish **out, uint32_t *n)
{
    (void)out, (void)n;
    return gw_error(-ENOTSUP, "%s: this gpuwire was built without the server: give a file", path);
}
#endif

/* ---- a file */

static int models_number(const char *path, const char *name, const json_t *value, uint32_t *out)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > UINT32_MAX)
        return gw_error(-EINVAL, "%s: \"%s\" must be a whole number", path, name);
    *out = (uint32_t)n;
    return 0;
}

/* "NAME", or {"name": "NAME", "version": 1, "replicas": 2}. */
static int models_one(const char *path, json_t *one, struct fleet_control_wish *w)
{
    const char *key;
    json_t *value;
    if (!json_is_object(one)) return models_name(path, json_string_value(one), w);
    int err = models_name(path, json_string_value(json_object_get(one, "name")), w);
    json_object_foreach(one, key, value)
    {
        if (err) return err;
        if (!strcmp(key, "version"))
            err = models_number(path, key, value, &w->version);
        else if (!strcmp(key, "replicas"))
            err = models_number(path, key, value, &w->replicas);
        else if (strcmp(key, "name"))
            err = gw_error(-EINVAL, "%s: model %s: \"%s\": a model has name, version and replicas", path,
                           w->name, key);
    }
    return err;
}

static int models_of_list(const char *path, const json_t *list, struct fleet_control_wish **out, uint32_t *n)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > MODELS_MOST)
        return gw_error(-EINVAL,
                        "%s: give a list of at most %d models: [\"NAME\", {\"name\": \"NAME\", ...}]", path,
                        MODELS_MOST);
    struct fleet_control_wish *w = calloc(count + 1, sizeof(*w));
    int err = w ? 0 : gw_error(-ENOMEM, "%s: no memory for its models", path);
    for (size_t i = 0; !err && i < count; i++) err = models_one(path, json_array_get(list, i), &w[i]);
    *out = w;
    *n = (uint32_t)count;
    return err;
}

static int models_of_file(const char *path, struct fleet_control_wish **out, uint32_t *n)
{
    json_error_t wrong;
    json_t *list = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (!list) return gw_error(-EINVAL, "%s: line %d: %s", path, wrong.line, wrong.text);
    int err = models_of_list(path, list, out, n);
    json_decref(list);
    return err;
}

int gw_controller_models(const char *path, struct fleet_control *control)
{
    struct fleet_control_wish *wish = NULL;
    struct stat st;
    uint32_t n = 0;
    if (stat(path, &st)) return gw_error_errno(-errno, "--models %s", path);
    int err = S_ISDIR(st.st_mode) ? models_of_folder(path, &wish, &n) : models_of_file(path, &wish, &n);
    if (!err) err = fleet_control_wishes(control, wish, n);
    free(wish);
    return err;
}
