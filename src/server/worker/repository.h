/* SPDX-License-Identifier: Apache-2.0 */
/* A model repository, laid out as Triton's: DIR/NAME/VERSION/model.onnx, VERSION a positive number. Where
 * there is a plug-in, DIR/NAME/VERSION/model.so, it is the model: it may well use the model.onnx beside
 * it. A model.onnx may be a folder with the file of that name and its weights in it. */
#ifndef GW_SERVER_WORKER_REPOSITORY_H
#define GW_SERVER_WORKER_REPOSITORY_H

#include <stdbool.h>
#include <stddef.h>

struct gw_repository_entry {
    char *name;
    unsigned version; /* the highest there is */
    char *path;       /* of model.so or model.onnx */
    int has_config;   /* there is a config.pbtxt, which is not read */
};

/* A model of another kind: it has versions, or a configuration, but no file of ours. Or one whose name no
 * client could ask for. Name and reason are UTF-8. */
struct gw_repository_other {
    char *name;
    unsigned version; /* the highest there is; 0: none */
    char *why;
};

struct gw_repository {
    struct gw_repository_entry *entry; /* sorted by name */
    size_t count;
    struct gw_repository_other *other; /* in no order */
    size_t others;
};

/* Lists the models below `dir`. Folders that look like no model are passed over.
 * 0; -ENOENT when there is no such folder or no model of ours in it; another negative errno. Says why in
 * gw_last_error(). */
int gw_repository_scan(const char *dir, struct gw_repository *out);
void gw_repository_free(struct gw_repository *r);

/* Is that file a plug-in, by its name? */
bool gw_repository_is_plugin(const char *path);

#endif
