/* SPDX-License-Identifier: Apache-2.0 */
/* A parsed template. */
#ifndef GW_GENERATE_TEXT_JINJA_AST_H
#define GW_GENERATE_TEXT_JINJA_AST_H

#include <stdint.h>

#include "src/generate/text/jinja_value.h"

/* A name has one address in a template: names are compared by it. */
struct gen_jname {
    struct gen_jname *next;
    struct gen_jtext text;
};

enum gen_jnode_kind {
    /* expressions */
    GEN_JN_CONST,     /* value */
    GEN_JN_NAME,      /* name */
    GEN_JN_LIST,      /* args */
    GEN_JN_DICT,      /* args: PAIRs */
    GEN_JN_PAIR,      /* a: b */
    GEN_JN_ATTRIBUTE, /* a.name */
    GEN_JN_ITEM,      /* a[b] */
    GEN_JN_SLICE,     /* a[b:c:args] */
    GEN_JN_CALL,      /* a(args) */
    GEN_JN_KEYWORD,   /* name=a, in args */
    GEN_JN_FILTER,    /* a | name(args); a NULL: of a block */
    GEN_JN_TEST,      /* a is name(args) */
    GEN_JN_NOT,
    GEN_JN_NEGATE,
    GEN_JN_PLUS,
    GEN_JN_AND,
    GEN_JN_OR,
    GEN_JN_BINARY,  /* a op b */
    GEN_JN_COMPARE, /* a op b, and further ones in args: each has op and a */
    GEN_JN_CHOICE,  /* a if b else c; c NULL: undefined */
    /* statements; each has its next one */
    GEN_JN_DATA,         /* value */
    GEN_JN_PRINT,        /* a */
    GEN_JN_FOR,          /* args: targets; in a; if b; body; otherwise */
    GEN_JN_IF,           /* if a: body; otherwise */
    GEN_JN_SET,          /* args: targets; = a, or the output of body, through the filters b */
    GEN_JN_MACRO,        /* name; args: KEYWORDs, whose a may be NULL; body */
    GEN_JN_CALL_BLOCK,   /* a: CALL; args: parameters of caller; body */
    GEN_JN_FILTER_BLOCK, /* a: FILTER; body */
    GEN_JN_SCOPE,        /* args: KEYWORDs; body */
    GEN_JN_BREAK,
    GEN_JN_CONTINUE,
};

/* Which operator: its first character, or for those of two, one of these. */
enum gen_jop {
    GEN_JO_POWER = 256,
    GEN_JO_FLOOR,
    GEN_JO_EQ,
    GEN_JO_NE,
    GEN_JO_LE,
    GEN_JO_GE,
    GEN_JO_IN,
    GEN_JO_NOT_IN
};

struct gen_jnode {
    enum gen_jnode_kind kind;
    uint32_t line;
    int op;       /* BINARY, COMPARE; FILTER, TEST: which */
    bool negated; /* TEST: is not */
    bool tuple;   /* LIST */
    struct gen_jname *name;
    struct gen_jnode *a, *b, *c, *args, *body, *otherwise;
    struct gen_jnode *next;
    struct gen_jvalue value;
};

#endif
