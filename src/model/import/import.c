/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of a file, for one row or for several: constants folded, then made smaller. */
#include <errno.h>
#include <stddef.h>

#include "src/model/import/import.h"

#include "src/model/graph/fuse.h"
#include "src/model/graph/msg.h"
#include "src/model/import/external.h"
#include "src/model/import/source.h"
#include "src/model/import/walk.h"

/* A graph of the file for `rows` rows. */
static int make_graph(struct gwm_source *s, uint32_t rows, const struct gwm_check *check,
                      struct gwm_graph **graph, const struct gwm_msg *msg)
{
    struct gwm_import im = {.msg = msg, .check = check, .opset = s->opset, .rows = rows};
    int err = 0;

    im.g = gwm_graph_new(((size_t)64 << 20) + 12 * s->len);
    if (!im.g) return gwm_fail(msg, -ENOMEM, "out of memory");
    im.g->work = ((int64_t)1 << 28) + 16 * (int64_t)s->len;
    im.g->rows = rows;
    err = gwm_import_graph(&im, s->model->graph);
    if (!err && gwm_optimise(im.g)) err = gwm_fail(msg, -ENOMEM, "out of memory");
    if (err)
        gwm_graph_free(im.g);
    else
        *graph = im.g;
    return err;
}

int gwm_import_file(const void *bytes, size_t len, int dir, const struct gwm_check *check,
                    struct gwm_graph **graph, const struct gwm_msg *msg)
{
    struct gwm_source *s;
    int err = gwm_source_open(bytes, len, msg, &s);

    *graph = NULL;
    if (err) return err;
    if (dir >= 0) err = gwm_external(s, dir, msg);
    if (!err) err = make_graph(s, 1, check, graph, msg);
    if (err) {
        gwm_source_free(s);
        return err;
    }
    (*graph)->source = s;
    (*graph)->source_free = gwm_source_free;
    (*graph)->source_keep = gwm_source_keep;
    return 0;
}

int gwm_import(const void *bytes, size_t len, struct gwm_graph **graph, const struct gwm_msg *msg)
{
    return gwm_import_file(bytes, len, -1, NULL, graph, msg);
}

int gwm_import_rows(const struct gwm_graph *g, uint32_t rows, struct gwm_graph **graph,
                    const struct gwm_msg *msg)
{
    const struct gwm_msg here = {msg->text, msg->len, g->source->file};

    *graph = NULL;
    return make_graph(g->source, rows, NULL, graph, &here);
}
