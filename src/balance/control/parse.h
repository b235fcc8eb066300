/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a configuration file: tables of keywords, and how their words become values. */
#ifndef GW_BALANCE_CONTROL_PARSE_H
#define GW_BALANCE_CONTROL_PARSE_H

#include <stddef.h>

#include "src/balance/control/config.h"
#include "src/balance/control/words.h"

struct gw_bal_parse {
    struct gw_bal_reader reader;
    struct gw_bal_config *config;
    const char *block; /* the one that is being read, for messages */
    struct gw_bal_port *port;
    struct gw_bal_service service; /* being read */
    struct gw_bal_service *added;  /* the service in the model, once a worker or the end needs it */
    struct gw_bal_worker worker;
    unsigned service_line;
    struct gw_bal_check *check;
};

/* least and most: how many words follow the keyword. `inside`: it opens a block of these keywords, and `set`
 * comes first, `end` last. The functions return 0 or a negative errno, with words. */
struct gw_bal_keyword {
    const char *name;
    unsigned least, most;
    int (*set)(struct gw_bal_parse *p, const struct gw_bal_statement *s);
    const struct gw_bal_keyword *inside;
    int (*end)(struct gw_bal_parse *p, const struct gw_bal_statement *s);
};

/* Until the block's brace, or the file's end for the outermost (block NULL). */
int gw_bal_parse_block(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords, const char *block);

/* "FILE:LINE: KEYWORD …"; returns -EINVAL. */
int gw_bal_wrong(const struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The reason is gw_last_error()'s; the place comes before it. */
int gw_bal_wrong_there(const struct gw_bal_parse *p, unsigned line);

/* Values of word k (1: the first behind the keyword). */
int gw_bal_take_number(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                       uint64_t least, uint64_t most, uint64_t *out);
int gw_bal_take_u16(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                    uint16_t least, uint16_t most, uint16_t *out);
int gw_bal_take_seconds(const struct gw_bal_parse *p, const struct gw_bal_statement *s, uint64_t *ns);
int gw_bal_take_addr(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                     struct gw_bal_addr *out);
int gw_bal_take_name(const struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *const *names,
                     uint8_t *out);
int gw_bal_take_yes(const struct gw_bal_parse *p, const struct gw_bal_statement *s, uint8_t *out);
int gw_bal_take_text(const struct gw_bal_parse *p, const struct gw_bal_statement *s, char *out, size_t size);

extern const struct gw_bal_keyword gw_bal_keywords_global[], gw_bal_keywords_service[];
int gw_bal_begin_service(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_end_service(struct gw_bal_parse *p, const struct gw_bal_statement *s);

#endif
