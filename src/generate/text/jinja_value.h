/* SPDX-License-Identifier: Apache-2.0 */
/* The values that a template works with: Python's, as far as templates see them. A text knows which of its
 * bytes are a stranger's. */
#ifndef GW_GENERATE_TEXT_JINJA_VALUE_H
#define GW_GENERATE_TEXT_JINJA_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/text/arena.h"
#include "src/generate/text/pieces.h"

/* What `foreign` of a text is when all its bytes are a stranger's. */
extern const unsigned char gen_jinja_all[1];

struct gen_jtext {
    const char *at;
    const unsigned char *foreign; /* NULL: none; gen_jinja_all: all; else one for each byte */
    size_t bytes;
};

enum gen_jkind {
    GEN_J_UNDEFINED,
    GEN_J_NONE,
    GEN_J_BOOL,
    GEN_J_INT,
    GEN_J_FLOAT,
    GEN_J_TEXT,
    GEN_J_LIST,
    GEN_J_DICT,
    GEN_J_NAMESPACE, /* a dict that templates may write */
    GEN_J_FUNCTION,  /* `number` says which */
    GEN_J_METHOD,
    GEN_J_MACRO,
    GEN_J_LOOP,
};

struct gen_jlist;
struct gen_jdict;
struct gen_jmethod;
struct gen_jmacro;
struct gen_jloop;

struct gen_jvalue {
    enum gen_jkind kind;
    union {
        int64_t number; /* BOOL, INT, FUNCTION */
        double real;
        struct gen_jtext text; /* TEXT; of UNDEFINED: what is not defined */
        struct gen_jlist *list;
        struct gen_jdict *dict; /* DICT, NAMESPACE */
        struct gen_jmethod *method;
        struct gen_jmacro *macro;
        struct gen_jloop *loop;
    };
};

struct gen_jlist {
    struct gen_jvalue *at;
    size_t count, room;
    bool tuple; /* it prints with parentheses */
};

/* Keys in the order in which they came. */
struct gen_jdict {
    struct gen_jlist keys, values;
};

/* A method of a value, such as "abc".upper before it is called. */
struct gen_jmethod {
    struct gen_jvalue of;
    struct gen_jtext name;
};

/* What all of a render shares: its memory, its limits, and where it is. */
struct gen_jinja {
    struct gen_arena arena;
    uint64_t steps; /* that are left */
    unsigned depth; /* of calls in calls */
    uint32_t line;  /* of the template, for errors */
    int err;        /* what failed first, or 0 */
};

/* Records why rendering fails, with the line; false. */
bool gen_j_fail(struct gen_jinja *j, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Memory of the render; NULL after gen_j_fail. */
void *gen_j_take(struct gen_jinja *j, size_t bytes);
/* Counts work. False after gen_j_fail: there was too much. */
bool gen_j_work(struct gen_jinja *j, uint64_t steps);

struct gen_jvalue gen_j_none(void);
struct gen_jvalue gen_j_bool(bool yes);
struct gen_jvalue gen_j_int(int64_t number);
struct gen_jvalue gen_j_text(struct gen_jtext text);
/* A text of the program's own that lives as long as the render. */
struct gen_jvalue gen_j_own(const char *text);
struct gen_jvalue gen_j_undefined(struct gen_jtext name);
bool gen_j_list(struct gen_jinja *j, struct gen_jvalue *out);
bool gen_j_dict(struct gen_jinja *j, enum gen_jkind kind, struct gen_jvalue *out);

bool gen_j_push(struct gen_jinja *j, struct gen_jlist *list, const struct gen_jvalue *value);
/* Sets a key, whether it is there or not. */
bool gen_j_put(struct gen_jinja *j, struct gen_jdict *dict, const struct gen_jvalue *key,
               const struct gen_jvalue *value);
/* The value of a key that is a text; NULL: none, or gen_j_work said no. */
struct gen_jvalue *gen_j_get(struct gen_jinja *j, const struct gen_jdict *dict, const char *key,
                             size_t bytes);

/* A part of a text. */
struct gen_jtext gen_j_part(const struct gen_jtext *text, size_t from, size_t to);
/* Appends a text to one that is being made. */
void gen_j_write(struct gen_marked *m, const struct gen_jtext *text);
/* Makes a text of it, and empties it. */
bool gen_j_made(struct gen_jinja *j, struct gen_marked *m, struct gen_jvalue *out);
bool gen_j_is(const struct gen_jtext *text, const char *own);
bool gen_j_same(const struct gen_jtext *a, const struct gen_jtext *b);

bool gen_j_truth(const struct gen_jvalue *v);
/* As Python's ==. */
bool gen_j_equal(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b);
/* As Python's <: *order is below, at or above 0. False after gen_j_fail: they have no order. */
bool gen_j_order(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b, int *order);
/* Whether `item` is in `of`, as Python's `in`. */
bool gen_j_contains(struct gen_jinja *j, const struct gen_jvalue *of, const struct gen_jvalue *item,
                    bool *yes);
/* The values that a `for` walks: of a list, a dict's keys, a text's characters. */
bool gen_j_items(struct gen_jinja *j, const struct gen_jvalue *of, struct gen_jlist *out);
/* What Python calls the type. */
const char *gen_j_type(const struct gen_jvalue *v);

/* Makes values of JSON; its texts stay where they are, and are a stranger's where `foreign`. */
bool gen_j_from_json(struct gen_jinja *j, const json_t *json, bool foreign, struct gen_jvalue *out);

#endif
