/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that a plan has copied go. For each number of rows there is a graph, with constants that folding
 * has made: without this each batch size kept a copy of the weights. */
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/slim.h"

void gwm_slim_need(struct gwm_slim *s, const void *at)
{
    if (s->n == s->cap) {
        size_t more = s->cap ? 2 * s->cap : 256;
        const void **bigger = (const void **)realloc(s->at, more * sizeof(*bigger));
        s->full = s->full || !bigger;
        if (!bigger) return;
        s->at = bigger;
        s->cap = more;
    }
    s->at[s->n++] = at;
}

/* Whatever could be an address counts as one: a node is a union of many kinds. */
static void need_words(struct gwm_slim *s, const struct gwm_node *n)
{
    const void *word;

    for (size_t at = 0; at + sizeof(word) <= sizeof(*n); at += sizeof(word)) {
        memcpy(&word, (const char *)n + at, sizeof(word));
        if (word) gwm_slim_need(s, word);
    }
}

void gwm_slim_nodes(struct gwm_slim *s, const struct gwm_graph *g, const bool *copied)
{
    for (int v = 0; v < g->nvalue; v++) gwm_slim_need(s, g->value[v].name);
    for (uint32_t i = 0; i < g->ninput; i++) gwm_slim_need(s, g->info[0][i].name);
    for (uint32_t i = 0; i < g->noutput; i++) gwm_slim_need(s, g->info[1][i].name);
    for (int i = 0; i < g->nnode; i++) {
        const struct gwm_node *n = &g->node[i];
        gwm_slim_need(s, n->name);
        gwm_slim_need(s, n->type);
        gwm_slim_need(s, n->in);
        if (!copied[i]) need_words(s, n);
    }
}

static int slim_compare(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;

    return (x > y) - (x < y);
}

void gwm_slim(struct gwm_graph *g, struct gwm_slim *s)
{
    qsort(s->at, s->n, sizeof(*s->at), slim_compare);
    if (!s->full) gwm_graph_keep(g, s->at, s->n);
    if (!s->full && g->source) g->source_keep(g->source, s->at, s->n);
    g->slim = true;
    free(s->at);
    *s = (struct gwm_slim){0};
}
