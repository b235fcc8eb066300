/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <gpuwire/error.h>

int gw_bal_wrong(const struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return gw_error(-EINVAL, "%s:%u: %.64s: %s", p->reader.file, s->line, s->word[0], text);
}

int gw_bal_wrong_there(const struct gw_bal_parse *p, unsigned line)
{
    return gw_error(-EINVAL, "%s:%u: %s", p->reader.file, line, gw_last_error());
}

/* Keywords of keepalived's that mean something here which there is not. */
static const char *const not_here[] = {"vrrp_instance",
                                       "vrrp_script",
                                       "vrrp_sync_group",
                                       "MISC_CHECK",
                                       "SMTP_CHECK",
                                       "DNS_CHECK",
                                       "SSL_GET",
                                       "UDP_CHECK",
                                       "sorry_server",
                                       "persistence_timeout",
                                       "quorum",
                                       "virtual_server_group",
                                       "include",
                                       "ha_suspend",
                                       "alpha",
                                       "omega",
                                       "inhibit_on_failure",
                                       NULL};

static int unknown(const struct gw_bal_parse *p, const struct gw_bal_statement *s,
                   const struct gw_bal_keyword *keywords)
{
    const char *where = p->block ? p->block : "the file", *near = NULL;
    unsigned best = 3;
    if (gw_bal_name_index(not_here, s->word[0]) >= 0)
        return gw_bal_wrong(p, s, "keepalived has this, and the balancer does not; remove it");
    for (const struct gw_bal_keyword *k = keywords; k->name; k++) {
        unsigned d = gw_bal_word_distance(k->name, s->word[0]);
        if (d < best) near = k->name;
        if (d < best) best = d;
    }
    return near ? gw_bal_wrong(p, s, "%s has no such keyword; did you mean %s?", where, near)
                : gw_bal_wrong(p, s, "%s has no such keyword; docs/balance.md lists them", where);
}

static int count_words(const struct gw_bal_parse *p, const struct gw_bal_statement *s,
                       const struct gw_bal_keyword *k)
{
    unsigned n = s->words - 1;
    if (n < k->least || n > k->most) {
        if (k->least == k->most)
            return gw_bal_wrong(p, s, "%u %s wanted, and %u %s there", k->least,
                                k->least == 1 ? "value is" : "values are", n, n == 1 ? "is" : "are");
        return gw_bal_wrong(p, s, "%u to %u values are wanted, and %u %s there", k->least, k->most, n,
                            n == 1 ? "is" : "are");
    }
    if (k->inside && s->ending != GW_BAL_OPENS) return gw_bal_wrong(p, s, "a block { … } is wanted");
    if (!k->inside && s->ending == GW_BAL_OPENS) return gw_bal_wrong(p, s, "it has no block; remove the {");
    return 0;
}

static int take(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                const struct gw_bal_statement *s)
{
    const struct gw_bal_keyword *k = keywords;
    const char *outer = p->block;
    while (k->name && strcasecmp(k->name, s->word[0])) k++;
    if (!k->name) return unknown(p, s, keywords);
    int error = count_words(p, s, k);
    if (!error && k->set) error = k->set(p, s);
    if (!error && k->inside) error = gw_bal_parse_block(p, k->inside, k->name);
    if (!error && k->end) error = k->end(p, s);
    p->block = outer;
    return error;
}

int gw_bal_parse_block(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords, const char *block)
{
    struct gw_bal_statement s;
    unsigned opened = p->reader.line;
    for (;;) {
        int got = gw_bal_reader_next(&p->reader, &s);
        p->block = block;
        if (got < 0) return got;
        if (!got && block)
            return gw_error(-EINVAL, "%s:%u: the block of %s does not end; a } is missing", p->reader.file,
                            opened, block);
        if (!got) return 0;
        if (s.ending == GW_BAL_CLOSES && block) return 0;
        if (s.ending == GW_BAL_CLOSES)
            return gw_error(-EINVAL, "%s:%u: } without a block; remove it", p->reader.file, s.line);
        int error = take(p, keywords, &s);
        if (error) return error;
    }
}

/* ---- values ---- */

int gw_bal_take_number(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                       uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(s->word[k], &end, 10);
    if (s->word[k][0] < '0' || s->word[k][0] > '9' || errno || *end || n < least || n > most)
        return gw_bal_wrong(p, s, "%.64s: a number from %llu to %llu is wanted", s->word[k],
                            (unsigned long long)least, (unsigned long long)most);
    *out = n;
    return 0;
}

int gw_bal_take_u16(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                    uint16_t least, uint16_t most, uint16_t *out)
{
    uint64_t n = 0;
    int error = gw_bal_take_number(p, s, k, least, most, &n);
    if (!error) *out = (uint16_t)n;
    return error;
}

int gw_bal_take_seconds(const struct gw_bal_parse *p, const struct gw_bal_statement *s, uint64_t *ns)
{
    char *end;
    double seconds = strtod(s->word[1], &end);
    if (s->word[1][0] < '0' || s->word[1][0] > '9' || *end || !(seconds >= 0.01 && seconds <= 86400))
        return gw_bal_wrong(p, s, "%.64s: seconds from 0.01 to 86400 are wanted", s->word[1]);
    *ns = (uint64_t)(seconds * 1e9);
    return 0;
}

int gw_bal_take_addr(const struct gw_bal_parse *p, const struct gw_bal_statement *s, unsigned k,
                     struct gw_bal_addr *out)
{
    if (!gw_bal_addr_parse(s->word[k], out)) return 0;
    return gw_bal_wrong(p, s, "%.64s: a numeric IPv4 or IPv6 address is wanted", s->word[k]);
}

int gw_bal_take_name(const struct gw_bal_parse *p, const struct gw_bal_statement *s, const char *const *names,
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
    return gw_bal_wrong(p, s, "%.64s: one of these is wanted: %s", s->word[1], all);
}

int gw_bal_take_yes(const struct gw_bal_parse *p, const struct gw_bal_statement *s, uint8_t *out)
{
    static const char *const names[] = {"no", "yes", NULL};
    *out = 1;
    return s->words == 1 ? 0 : gw_bal_take_name(p, s, names, out);
}

int gw_bal_take_text(const struct gw_bal_parse *p, const struct gw_bal_statement *s, char *out, size_t size)
{
    size_t n = strlen(s->word[1]);
    if (!n) return gw_bal_wrong(p, s, "it is empty");
    if (n >= size) return gw_bal_wrong(p, s, "%.40s…: at most %zu bytes are wanted", s->word[1], size - 1);
    memcpy(out, s->word[1], n + 1);
    return 0;
}
