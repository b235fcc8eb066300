/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers which models are not served, and why. */
#include "src/server/lifecycle/missing.h"

#include <stdlib.h>
#include <string.h>

static void free_model(struct gw_missing_model *m)
{
    free(m->name);
    free(m->why);
}

void gw_missing_forget(struct gw_missing *m, const char *name)
{
    size_t i = 0;
    while (i < m->count && strcmp(m->model[i].name, name)) i++;
    if (i == m->count) return;
    free_model(&m->model[i]);
    m->count--;
    memmove(&m->model[i], &m->model[i + 1], (m->count - i) * sizeof(m->model[0]));
}

void gw_missing_note(struct gw_missing *m, const char *name, unsigned version, const char *why)
{
    struct gw_missing_model one = {strdup(name), version, strdup(why)};
    gw_missing_forget(m, name);
    if (!one.name || !one.why || m->count == GW_MISSING_MAX) {
        free_model(&one);
        return;
    }
    /* It may quote a file. */
    for (char *c = one.why; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    m->model[m->count++] = one;
}

void gw_missing_free(struct gw_missing *m)
{
    for (size_t i = 0; i < m->count; i++) free_model(&m->model[i]);
    m->count = 0;
}
