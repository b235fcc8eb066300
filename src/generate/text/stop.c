/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings by Aho and Corasick's automaton: a node is the longest end of the stream that begins a stop
 * string, so the text that is held back is the node's own path, and is stored nowhere else. */
#include "src/generate/text/stop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"

struct stop_node {
    uint32_t child, sibling; /* 0: none; node 0 is the root */
    uint32_t shorter;        /* the node of the longest end of this one's path that has a node */
    uint32_t depth;          /* bytes of its path */
    int16_t string;          /* a string that begins with its path */
    int16_t hit;             /* the longest string that its path ends with, or -1 */
    unsigned char byte;
};

struct gen_stop {
    struct stop_node *nodes;
    uint32_t count;
    uint32_t at; /* where the stream stands */
    int which;
    char *text; /* the strings, one after the other */
    const char *strings[GEN_MAX_STOP_STRINGS];
    size_t bytes[GEN_MAX_STOP_STRINGS];
};

static int stop_check(const size_t *bytes, unsigned count, size_t *total)
{
    if (count > GEN_MAX_STOP_STRINGS)
        return gw_error(-E2BIG, "%u stop strings; the limit is %d", count, GEN_MAX_STOP_STRINGS);
    for (unsigned i = 0; i < count; i++) {
        if (!bytes[i]) return gw_error(-EINVAL, "a stop string is empty");
        if (bytes[i] > GEN_MAX_STOP_BYTES - *total)
            return gw_error(-E2BIG, "the stop strings have more than %d bytes in all", GEN_MAX_STOP_BYTES);
        *total += bytes[i];
    }
    return 0;
}

static uint32_t stop_child(const struct gen_stop *s, uint32_t node, unsigned char byte)
{
    uint32_t child = s->nodes[node].child;
    while (child && s->nodes[child].byte != byte) child = s->nodes[child].sibling;
    return child;
}

/* Where the stream stands after one more byte. */
static uint32_t stop_next(const struct gen_stop *s, uint32_t node, unsigned char byte)
{
    uint32_t child;
    while (!(child = stop_child(s, node, byte)) && node) node = s->nodes[node].shorter;
    return child;
}

static void stop_put(struct gen_stop *s, int string)
{
    uint32_t node = 0;
    for (size_t i = 0; i < s->bytes[string]; i++) {
        unsigned char byte = (unsigned char)s->strings[string][i];
        uint32_t child = stop_child(s, node, byte);
        if (!child) {
            child = s->count++;
            s->nodes[child] = (struct stop_node){.sibling = s->nodes[node].child,
                                                 .depth = (uint32_t)i + 1,
                                                 .string = (int16_t)string,
                                                 .hit = -1,
                                                 .byte = byte};
            s->nodes[node].child = child;
        }
        node = child;
    }
    if (s->nodes[node].hit < 0) s->nodes[node].hit = (int16_t)string;
}

/* Breadth first: a node's shorter ones are finished before it. `queue` has room for all nodes. */
static void stop_link(struct gen_stop *s, uint32_t *queue)
{
    uint32_t head = 0, tail = 1;
    queue[0] = 0;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t child = s->nodes[node].child; child; child = s->nodes[child].sibling) {
            struct stop_node *c = &s->nodes[child];
            c->shorter = node ? stop_next(s, s->nodes[node].shorter, c->byte) : 0;
            if (c->hit < 0) c->hit = s->nodes[c->shorter].hit;
            queue[tail++] = child;
        }
    }
}

static int stop_build(struct gen_stop *s, const char *const *strings, unsigned count, size_t total)
{
    uint32_t *queue = calloc(total + 1, sizeof(*queue));
    s->nodes = calloc(total + 1, sizeof(*s->nodes));
    s->text = malloc(total + 1);
    if (!queue || !s->nodes || !s->text) {
        free(queue);
        return gw_error(-ENOMEM, "no memory for the stop strings");
    }
    s->nodes[0].hit = -1;
    s->count = 1;
    char *to = s->text;
    for (unsigned i = 0; i < count; i++) {
        memcpy(to, strings[i], s->bytes[i]);
        s->strings[i] = to;
        to += s->bytes[i];
        stop_put(s, (int)i);
    }
    stop_link(s, queue);
    free(queue);
    return 0;
}

int gen_stop_open(const char *const *strings, const size_t *bytes, unsigned count, struct gen_stop **out)
{
    size_t total = 0;
    *out = NULL;
    int err = stop_check(bytes, count, &total);
    if (err) return err;
    struct gen_stop *s = calloc(1, sizeof(*s));
    if (!s) return gw_error(-ENOMEM, "no memory for the stop strings");
    s->which = -1;
    for (unsigned i = 0; i < count; i++) s->bytes[i] = bytes[i];
    err = stop_build(s, strings, count, total);
    if (err)
        gen_stop_close(s);
    else
        *out = s;
    return err;
}

void gen_stop_close(struct gen_stop *s)
{
    if (!s) return;
    free(s->nodes);
    free(s->text);
    free(s);
}

/* Appends the first `count` bytes of what was held back at `node`, followed by the piece. */
static void stop_show(const struct gen_stop *s, uint32_t node, const char *piece, size_t count,
                      struct gw_text *text)
{
    size_t held = s->nodes[node].depth, of_held = count < held ? count : held;
    if (of_held) gw_text_add(text, s->strings[s->nodes[node].string], of_held);
    if (count > of_held) gw_text_add(text, piece, count - of_held);
}

int gen_stop_feed(struct gen_stop *s, const char *piece, size_t bytes, struct gw_text *text)
{
    if (s->which >= 0) return 1;
    uint32_t before = s->at;
    size_t held = s->nodes[before].depth;
    for (size_t i = 0; i < bytes; i++) {
        s->at = stop_next(s, s->at, (unsigned char)piece[i]);
        s->which = s->nodes[s->at].hit;
        if (s->which >= 0) {
            stop_show(s, before, piece, held + i + 1 - s->bytes[s->which], text);
            return text->broken ? -ENOMEM : 1;
        }
    }
    stop_show(s, before, piece, held + bytes - s->nodes[s->at].depth, text);
    return text->broken ? -ENOMEM : 0;
}

int gen_stop_end(struct gen_stop *s, struct gw_text *text)
{
    if (s->which < 0) stop_show(s, s->at, NULL, s->nodes[s->at].depth, text);
    s->at = 0;
    return text->broken ? -ENOMEM : 0;
}

int gen_stop_which(const struct gen_stop *s)
{
    return s->which;
}
