/* SPDX-License-Identifier: Apache-2.0 */
/* Tries out, by runs of a model, whether rows of a batch meet: whether one row's results change with another
 * row's inputs. For models that cannot be read: captured graphs and plug-ins. */
#ifndef GW_SERVER_WORKER_APART_H
#define GW_SERVER_WORKER_APART_H

#include <gpuwire/model.h>

#include "src/server/wire/layout.h"

enum gw_apart {
    GW_APART,         /* no run has shown that rows meet */
    GW_APART_MEET,    /* a row's results depend on other rows */
    GW_APART_CHANGES, /* equal inputs give other results later: it keeps data, or draws random numbers */
};

/* What is tried. */
struct gw_apart_trial {
    const struct gw_model *model;
    const struct gw_layout *in, *out;
    uint32_t rows;
    /* Runs it once. 0 or a negative errno. */
    int (*run)(void *ctx, const void *const in[], void *const out[]);
    /* NULL, or fills in inputs that the model is known to take. */
    int (*example)(void *ctx, void *const in[]);
    void *ctx;
};

/* An enum gw_apart, or a negative errno of a run. It takes some 2 log2(rows) + 5 runs, so that each row is
 * looked at while each other one changes. */
int gw_apart_try(const struct gw_apart_trial *trial);

#endif
