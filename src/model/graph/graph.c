/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: its memory, which is freed at once, and how values and nodes are added and followed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/graph.h"

struct block {
    struct block *next;
    size_t bytes;
    max_align_t data[];
};

struct gwm_graph *gwm_graph_new(size_t budget)
{
    struct gwm_graph *g = calloc(1, sizeof(*g));

    if (g) g->budget = budget;
    return g;
}

void gwm_graph_free(struct gwm_graph *g)
{
    if (!g) return;
    for (struct block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    if (g->source) g->source_free(g->source);
    free(g->value);
    free(g->node);
    free(g);
}

void *gwm_alloc(struct gwm_graph *g, size_t bytes)
{
    if (bytes > g->budget) return NULL;
    struct block *b = calloc(1, sizeof(*b) + bytes);
    if (!b) return NULL;
    g->budget -= bytes;
    b->next = g->blocks;
    b->bytes = bytes;
    g->blocks = b;
    return b->data;
}

bool gwm_graph_points(const void *const *at, size_t n, const void *range, size_t bytes)
{
    const char *first = (const char *)range, *end = first + bytes;
    size_t low = 0, all = n;

    while (n) { /* the first address that is not below the range */
        size_t half = n / 2;
        bool below = (const char *)at[low + half] < first;
        low += below ? half + 1 : 0;
        n = below ? n - half - 1 : half;
    }
    return low < all && (const char *)at[low] < end;
}

void gwm_graph_keep(struct gwm_graph *g, const void *const *at, size_t n)
{
    struct block *b;

    for (struct block **p = (struct block **)&g->blocks; (b = *p);) {
        if (b->bytes < GWM_LARGE || gwm_graph_points(at, n, b->data, b->bytes)) {
            p = &b->next;
        } else {
            *p = b->next;
            free(b);
        }
    }
}

char *gwm_strdup(struct gwm_graph *g, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = gwm_alloc(g, n);

    return p ? memcpy(p, s, n) : NULL;
}

/* Room for one more element of an array that grows by doubling; NULL when there is none. */
static void *graph_grow(void *array, int n, int *cap, size_t size)
{
    if (n < *cap) return array;
    int more = *cap ? 2 * *cap : 64;
    void *p = realloc(array, more * size);
    if (p) *cap = more;
    return p;
}

int gwm_value_new(struct gwm_graph *g, const char *name, uint32_t dtype, const struct gwm_shape *shape)
{
    int32_t count = gwm_count(shape);
    void *p = g->nvalue < 4 * GWM_MAX_NODES
                  ? graph_grow(g->value, g->nvalue, &g->cap_value, sizeof(*g->value))
                  : NULL;
    const char *copy = gwm_strdup(g, name ? name : "");

    if (p) g->value = p;
    if (!p || !copy) return -ENOMEM;
    if (count < 0) return -EOVERFLOW;
    g->value[g->nvalue] = (struct gwm_value){.name = copy,
                                             .dtype = dtype,
                                             .type = dtype,
                                             .shape = *shape,
                                             .count = count,
                                             .root = g->nvalue,
                                             .input = -1,
                                             .output = -1};
    return g->nvalue++;
}

int gwm_view_new(struct gwm_graph *g, const char *name, int of, const struct gwm_shape *shape)
{
    int v = gwm_value_new(g, name, g->value[of].dtype, shape);

    if (v < 0) return v;
    g->value[v].root = g->value[of].root;
    g->value[v].type = g->value[of].type;
    return v;
}

int gwm_node_new(struct gwm_graph *g, enum gwm_op op, const int *in, uint32_t nin, int out)
{
    void *p = g->nnode < GWM_MAX_NODES ? graph_grow(g->node, g->nnode, &g->cap_node, sizeof(*g->node)) : NULL;

    if (!p) return -ENOMEM;
    g->node = p;
    int *copy = gwm_alloc(g, nin * sizeof(int));
    if (!copy) return -ENOMEM;
    memcpy(copy, in, nin * sizeof(int));
    struct gwm_node *n = &g->node[g->nnode];
    memset(n, 0, sizeof(*n));
    n->op = op;
    n->in = copy;
    n->nin = nin;
    n->out = out;
    n->name = n->type = "";
    return g->nnode++;
}

void gwm_uses(const struct gwm_graph *g, int *uses, int *maker)
{
    for (int v = 0; v < g->nvalue; v++) {
        uses[v] = 0;
        maker[v] = -1;
    }
    for (int i = 0; i < g->nnode; i++) {
        const struct gwm_node *n = &g->node[i];
        if (n->dead) continue;
        for (uint32_t k = 0; k < n->nin; k++) uses[g->value[n->in[k]].root]++;
        maker[g->value[n->out].root] = i;
    }
    for (uint32_t o = 0; o < g->noutput; o++) uses[g->value[g->output[o]].root]++;
}

int gwm_sole_reader(const struct gwm_graph *g, const int *uses, int root, int after)
{
    if (uses[root] != 1) return -1;
    for (int i = after + 1; i < g->nnode; i++)
        for (uint32_t k = 0; k < g->node[i].nin && !g->node[i].dead; k++)
            if (g->value[g->node[i].in[k]].root == root) return i;
    return -1; /* the model's output is its one use */
}
