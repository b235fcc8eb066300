/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a template to a tree: what expressions and statements share. */
#ifndef GW_GENERATE_TEXT_JINJA_PARSE_H
#define GW_GENERATE_TEXT_JINJA_PARSE_H

#include "src/generate/text/jinja_ast.h"
#include "src/generate/text/jinja_lex.h"

#define GEN_JNAME_SLOTS 256
/* How deep expressions and statements may stand in each other. */
#define GEN_MAX_TEMPLATE_DEPTH 200

struct gen_jparser {
    struct gen_jlex lex;
    struct gen_jtoken token; /* the word that comes */
    struct gen_arena *arena;
    struct gen_jname *names[GEN_JNAME_SLOTS];
    unsigned depth, loops; /* that are open */
    int err;
};

/* Records why it fails, with the line of the word that comes; NULL. */
void *gen_jp_fail(struct gen_jparser *p, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Goes on to the next word; false after gen_jp_fail. */
bool gen_jp_next(struct gen_jparser *p);
/* Whether the word that comes is this operator, or this name. */
bool gen_jp_is(const struct gen_jparser *p, const char *operator);
bool gen_jp_names(const struct gen_jparser *p, const char *name);
/* The same; if so it goes on. */
bool gen_jp_take(struct gen_jparser *p, const char *operator);
bool gen_jp_take_name(struct gen_jparser *p, const char *name);
/* Goes past an operator that must come; false after gen_jp_fail. */
bool gen_jp_expect(struct gen_jparser *p, const char *operator);
/* The name that comes, and on; NULL after gen_jp_fail. */
struct gen_jname *gen_jp_name(struct gen_jparser *p);
/* The one name of this text. */
struct gen_jname *gen_jp_intern(struct gen_jparser *p, const char *text, size_t bytes);
struct gen_jnode *gen_jp_node(struct gen_jparser *p, enum gen_jnode_kind kind);
/* One level deeper; false after gen_jp_fail. Each that is true needs a p->depth--. */
bool gen_jp_enter(struct gen_jparser *p);

/* An expression; `choice`: with `if` and `else`. NULL after gen_jp_fail. */
struct gen_jnode *gen_jp_expression(struct gen_jparser *p, bool choice);
/* One or several expressions with commas between: several make a LIST. */
struct gen_jnode *gen_jp_tuple(struct gen_jparser *p, bool choice);
/* Arguments up to the closing bracket, which it passes; the opening one was passed. Yes: they are in *out. */
bool gen_jp_arguments(struct gen_jparser *p, struct gen_jnode **out);
/* Filters after a value, as many as come. */
struct gen_jnode *gen_jp_filters(struct gen_jparser *p, struct gen_jnode *node);
/* A filter by its name, with its arguments, of `of`. */
struct gen_jnode *gen_jp_filter(struct gen_jparser *p, struct gen_jnode *of);

/* A whole template. `p` is zeroed but for its lexer and arena. NULL after gen_jp_fail, or for an empty
 * template. */
struct gen_jnode *gen_jp_template(struct gen_jparser *p);

#endif
