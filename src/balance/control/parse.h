/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a configuration file: tables of keywords, and how their words become values. */
#ifndef GW_BALANCE_CONTROL_PARSE_H
#define GW_BALANCE_CONTROL_PARSE_H

#include <stddef.h>

#include "src/balance/control/config.h"
#include "src/balance/control/words.h"

/* Where a statement stood, for words about it when the whole file is known. */
struct gw_bal_place {
    const char *file;
    unsigned line, order;
};

struct gw_bal_file_name {
    struct gw_bal_file_name *next;
    char text[];
};

/* A text with the values of its parameters. */
struct gw_bal_filled {
    struct gw_bal_filled *next;
    char *text;
};

struct gw_bal_plan; /* config_plan.h */
struct gw_bal_keyword;

struct gw_bal_parse {
    struct gw_bal_reader reader;
    struct gw_bal_config *config;
    const char *block; /* the one that is being read, for messages */
    unsigned order;    /* statements so far */
    int spoiled;       /* the block that is being read began with a mistake, and will not enter the model */
    struct gw_bal_port *port, spare_port;
    struct gw_bal_plan *plan;
    /* Reads the files that an include statement names as if they stood in its place; NULL: it may not. */
    int (*include)(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                   const struct gw_bal_statement *s);
    unsigned depth, includes; /* how deep it is in such files, and how many there were */
    size_t bytes;             /* of all files */
    struct gw_bal_file_name *names;
    struct gw_bal_param *params;
    struct gw_bal_filled *filled; /* texts that are being read */
};

/* least and most: how many words follow the keyword. `inside`: it opens a block of these keywords, and `set`
 * comes first, `end` last. Both are called when the block has mistakes, too. The functions return 0 or a
 * negative errno; gw_bal_wrong has said why. */
struct gw_bal_keyword {
    const char *name;
    unsigned least, most;
    int (*set)(struct gw_bal_parse *p, const struct gw_bal_statement *s);
    const struct gw_bal_keyword *inside;
    int (*end)(struct gw_bal_parse *p, const struct gw_bal_statement *s);
};
/* A keyword of this name, the last of its table, takes every statement that is none of the others. */
#define GW_BAL_ANY_WORD "*"

/* Reads until the block's brace, or the file's end when `opener` is NULL. A mistake is noted in the report,
 * and the next statement is read. */
void gw_bal_parse_block(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                        const struct gw_bal_statement *opener);
/* Notes "FILE:LINE: KEYWORD: …"; returns -EINVAL. */
int gw_bal_wrong(struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The reason is gw_last_error()'s; the place comes before it. */
int gw_bal_wrong_at(struct gw_bal_parse *p, const struct gw_bal_place *at);
struct gw_bal_place gw_bal_place_of(const struct gw_bal_statement *s);

/* Values of word k (1: the first after the keyword). */
int gw_bal_take_number(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k, uint64_t least,
                       uint64_t most, uint64_t *out);
int gw_bal_take_u16(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k, uint16_t least,
                    uint16_t most, uint16_t *out);
int gw_bal_take_seconds(struct gw_bal_parse *p, const struct gw_bal_statement *s, uint64_t *ns);
int gw_bal_take_addr(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                     struct gw_bal_addr *out);
int gw_bal_take_name(struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *const *names,
                     uint8_t *out);
int gw_bal_take_yes(struct gw_bal_parse *p, const struct gw_bal_statement *s, uint8_t *out);
int gw_bal_take_text(struct gw_bal_parse *p, const struct gw_bal_statement *s, char *out, size_t size);

extern const struct gw_bal_keyword gw_bal_keywords_service[], gw_bal_keywords_group[];
int gw_bal_begin_service(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_end_service(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_group(struct gw_bal_parse *p, const struct gw_bal_statement *s);
/* A line of a virtual_server_group: an address, or a range of them. */
int gw_bal_group_member(struct gw_bal_parse *p, const struct gw_bal_statement *s);

#endif
