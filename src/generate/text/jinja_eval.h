/* SPDX-License-Identifier: Apache-2.0 */
/* A render: its variables, and where its text goes; and the values of its expressions. */
#ifndef GW_GENERATE_TEXT_JINJA_EVAL_H
#define GW_GENERATE_TEXT_JINJA_EVAL_H

#include "src/generate/text/jinja_args.h"
#include "src/generate/text/jinja_ast.h"

/* How deep expressions, statements and macros may stand in each other while they run. */
#define GEN_MAX_RENDER_DEPTH 600

struct gen_jvariable {
    const struct gen_jname *name;
    struct gen_jvalue value;
    struct gen_jvariable *next;
};

/* Variables of a template, a loop's turn or a macro's call. What is not in it is looked for in its parent. */
struct gen_jscope {
    struct gen_jscope *parent;
    struct gen_jvariable *variables;
};

/* A macro: what it was written as, and where. `caller` of a call block is one, too. */
struct gen_jmacro {
    const struct gen_jnode *node;
    struct gen_jscope *scope;
};

enum gen_jleave { GEN_JL_NOT, GEN_JL_BREAK, GEN_JL_CONTINUE };

struct gen_jrun {
    struct gen_jinja j;
    struct gen_jscope *scope;
    struct gen_marked *out;
    /* Calls a macro, which runs statements: *out is its text. */
    bool (*macro)(struct gen_jrun *r, const struct gen_jmacro *macro, const struct gen_jargs *args,
                  struct gen_jvalue *out);
    enum gen_jleave leave;                 /* a loop that is being left */
    const struct gen_jname *loop, *caller; /* the names "loop" and "caller"; NULL: the template has none */
};

/* The value of a variable in a scope or its parents; NULL: none. */
struct gen_jvalue *gen_j_lookup(struct gen_jscope *scope, const struct gen_jname *name);
/* Sets a variable of the scope itself. */
bool gen_j_set(struct gen_jinja *j, struct gen_jscope *scope, const struct gen_jname *name,
               const struct gen_jvalue *value);
/* A new scope within the present one, which becomes the present one; the caller sets it back. */
bool gen_j_scope(struct gen_jrun *r, struct gen_jscope *parent);

bool gen_j_eval(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out);
/* Evaluates arguments. */
bool gen_j_arguments(struct gen_jrun *r, const struct gen_jnode *nodes, struct gen_jargs *out);
#endif
