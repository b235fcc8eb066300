/* SPDX-License-Identifier: Apache-2.0 */
/* Matches statements with keywords, and turns their words into numbers, times and addresses. */
#include "src/balance/control/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/balance/control/foreign.h"

struct gw_bal_place gw_bal_place_of(const struct gw_bal_statement *s)
{
    return (struct gw_bal_place){s->file, s->line, s->order};
}

int gw_bal_wrong_at(struct gw_bal_parse *p, const struct gw_bal_place *at)
{
    gw_bal_report_wrong(&p->config->report, at->file, at->line, at->order, gw_last_error());
    return -EINVAL;
}

int gw_bal_wrong(struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct gw_bal_place at = gw_bal_place_of(s);
    gw_error(-EINVAL, "%.64s: %s", s->word[0], text);
    return gw_bal_wrong_at(p, &at);
}

/* ---- words that are no keywords ---- */

static void skip_block(struct gw_bal_parse *p)
{
    struct gw_bal_statement s;
    for (unsigned depth = 1; depth;) {
        int got = gw_bal_reader_next(&p->reader, &s);
        if (!got) return; /* the block around it says that it does not end */
        if (got > 0 && s.ending == GW_BAL_OPENS) depth++;
        if (got > 0 && s.ending == GW_BAL_CLOSES) depth--;
    }
}

static void suggest(struct gw_bal_parse *p, const struct gw_bal_statement *s,
                    const struct gw_bal_keyword *keywords)
{
    const char *where = p->block ? p->block : "the file", *near = NULL;
    unsigned best = 3;
    for (const struct gw_bal_keyword *k = keywords; k->name; k++) {
        unsigned d = gw_bal_word_distance(k->name, s->word[0]);
        if (d < best) near = k->name;
        if (d < best) best = d;
    }
    if (near)
        gw_bal_wrong(p, s, "%s has no such keyword; did you mean %s?", where, near);
    else
        gw_bal_wrong(p, s, "%s has no such keyword; docs/balance.md lists them", where);
}

/* keepalived's "@NAME statement" is for the host of that name, "@^NAME statement" for all others. True:
 * for us, and the statement is the rest. */
static bool is_for_this_host(struct gw_bal_statement *s)
{
    char host[65] = "";
    const char *name = s->word[0] + 1;
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = 0;
    int other = *name == '^', same = !strcmp(name + other, host);
    s->words--;
    memmove(s->word, s->word + 1, (s->words + 1) * sizeof(s->word[0]));
    return s->words && same != other;
}

static void take_unknown(struct gw_bal_parse *p, const struct gw_bal_statement *s,
                         const struct gw_bal_keyword *keywords)
{
    const char *why = gw_bal_foreign(p->block, s->word[0]);
    if (!why)
        suggest(p, s, keywords);
    else if (*why)
        gw_bal_wrong(p, s, "%s", why);
    else
        gw_bal_report_ignored(&p->config->report, s->file, s->line, s->word[0]);
    if (s->ending == GW_BAL_OPENS) skip_block(p);
}

/* ---- keywords ---- */

static const char *const include_words[] = {"include",  "includer", "includem", "includew",
                                            "includeb", "includea", NULL};

static int count_words(struct gw_bal_parse *p, const struct gw_bal_statement *s,
                       const struct gw_bal_keyword *k)
{
    unsigned n = s->words - 1;
    if (k->inside && s->ending != GW_BAL_OPENS) return gw_bal_wrong(p, s, "it needs a block { … }");
    if (!k->inside && s->ending == GW_BAL_OPENS) return gw_bal_wrong(p, s, "it has no block; remove the {");
    if (n >= k->least && n <= k->most) return 0;
    if (k->least == k->most)
        return gw_bal_wrong(p, s, "it takes %u value%s, and %u %s there", k->least, k->least == 1 ? "" : "s",
                            n, n == 1 ? "is" : "are");
    return gw_bal_wrong(p, s, "it takes %u to %u values, and %u %s there", k->least, k->most, n,
                        n == 1 ? "is" : "are");
}

/* A block that begins with a mistake is read all the same, for the mistakes in it. */
static void take_inside(struct gw_bal_parse *p, const struct gw_bal_keyword *k,
                        const struct gw_bal_statement *s, int began, int err)
{
    int outer = p->spoiled;
    p->spoiled |= err != 0;
    gw_bal_parse_block(p, k->inside, s);
    if (k->end && began) k->end(p, s);
    p->spoiled = outer;
}

static void control_parse_take(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                               struct gw_bal_statement *s)
{
    const struct gw_bal_keyword *k = keywords;
    const char *outer = p->block;
    if (s->word[0][0] == '@' && !is_for_this_host(s)) {
        if (s->ending == GW_BAL_OPENS) skip_block(p);
        return;
    }
    if (gw_bal_name_index(include_words, s->word[0]) >= 0) {
        if (p->include)
            p->include(p, keywords, s);
        else
            gw_bal_wrong(p, s, "only a file can include others");
        return;
    }
    while (k->name && strcasecmp(k->name, s->word[0]) && strcmp(k->name, GW_BAL_ANY_WORD)) k++;
    if (!k->name || (!strcmp(k->name, GW_BAL_ANY_WORD) && gw_bal_foreign(p->block, s->word[0]))) {
        take_unknown(p, s, keywords);
        return;
    }
    int err = count_words(p, s, k), began = !err;
    if (began && k->set) err = k->set(p, s);
    if (s->ending != GW_BAL_OPENS) return;
    p->block = k->name;
    if (k->inside)
        take_inside(p, k, s, began, err);
    else
        skip_block(p);
    p->block = outer;
}

static void wrong_brace(struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *why)
{
    struct gw_bal_place at = gw_bal_place_of(s);
    if (why) gw_error(-EINVAL, "%s", why);
    gw_bal_wrong_at(p, &at);
}

void gw_bal_parse_block(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                        const struct gw_bal_statement *opener)
{
    struct gw_bal_statement s;
    const char *block = p->block;
    for (;;) {
        int got = gw_bal_reader_next(&p->reader, &s);
        s.order = ++p->order;
        p->block = block;
        if (!got && opener) gw_bal_wrong(p, opener, "the block does not end; a } is missing");
        if (!got || (s.ending == GW_BAL_CLOSES && opener)) return;
        if (got < 0)
            wrong_brace(p, &s, NULL);
        else if (s.ending == GW_BAL_CLOSES)
            wrong_brace(p, &s, "} without a block; remove it");
        else
            control_parse_take(p, keywords, &s);
    }
}

/* ---- values ---- */

int gw_bal_take_number(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k, uint64_t least,
                       uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(s->word[k], &end, 10);
    if (s->word[k][0] < '0' || s->word[k][0] > '9' || errno || *end || n < least || n > most)
        return gw_bal_wrong(p, s, "%.64s: it must be a number from %llu to %llu", s->word[k],
                            (unsigned long long)least, (unsigned long long)most);
    *out = n;
    return 0;
}

int gw_bal_take_u16(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k, uint16_t least,
                    uint16_t most, uint16_t *out)
{
    uint64_t n = 0;
    int err = gw_bal_take_number(p, s, k, least, most, &n);
    if (!err) *out = (uint16_t)n;
    return err;
}

int gw_bal_take_seconds(struct gw_bal_parse *p, const struct gw_bal_statement *s, uint64_t *ns)
{
    char *end;
    double seconds = strtod(s->word[1], &end);
    if (s->word[1][0] < '0' || s->word[1][0] > '9' || *end || !(seconds >= 0.01 && seconds <= 86400))
        return gw_bal_wrong(p, s, "%.64s: it must be seconds, from 0.01 to 86400", s->word[1]);
    *ns = (uint64_t)(seconds * 1e9);
    return 0;
}

int gw_bal_take_addr(struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                     struct gw_bal_addr *out)
{
    if (!gw_bal_addr_parse(s->word[k], out)) return 0;
    return gw_bal_wrong(p, s, "%.64s: it must be a numeric IPv4 or IPv6 address", s->word[k]);
}

int gw_bal_take_name(struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *const *names,
                     uint8_t *out)
{
    char all[128] = "";
    size_t n = 0;
    int i = gw_bal_name_index(names, s->word[1]);
    if (i >= 0) {
        *out = (uint8_t)i;
        return 0;
    }
    for (i = 0; names[i] && n < sizeof(all); i++)
        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "", names[i]);
    return gw_bal_wrong(p, s, "%.64s: it must be one of %s", s->word[1], all);
}

int gw_bal_take_yes(struct gw_bal_parse *p, const struct gw_bal_statement *s, uint8_t *out)
{
    static const char *const names[] = {"no", "yes", "false", "true", "off", "on", NULL};
    *out = 1;
    int err = s->words == 1 ? 0 : gw_bal_take_name(p, s, names, out);
    *out &= 1;
    return err;
}

int gw_bal_take_text(struct gw_bal_parse *p, const struct gw_bal_statement *s, char *out, size_t size)
{
    size_t n = strlen(s->word[1]);
    if (!n) return gw_bal_wrong(p, s, "it is empty");
    if (n >= size) return gw_bal_wrong(p, s, "%.40s…: it may have %zu bytes", s->word[1], size - 1);
    memcpy(out, s->word[1], n + 1);
    return 0;
}
