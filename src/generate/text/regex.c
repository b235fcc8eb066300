/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions by Oniguruma, with limits: a pattern comes from a file, the text from a stranger. */
#include "src/generate/text/regex.h"

#include <errno.h>
#include <oniguruma.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/utf8.h"

/* What one search may retry. A pattern that needs more is of the kind that takes exponential time. */
#define MAX_RETRIES 50000000ul
/* The longest pattern. */
#define MAX_PATTERN 65536

struct gen_regex {
    OnigRegex re; /* NULL: `plain` is meant */
    char *plain;
    size_t bytes;
};

static pthread_once_t regex_once = PTHREAD_ONCE_INIT;

static void regex_start(void)
{
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
}

static int regex_new(struct gen_regex **out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : gw_error(-ENOMEM, "no memory for a pattern");
}

int gen_regex_open(const char *pattern, size_t bytes, struct gen_regex **out)
{
    if (bytes > MAX_PATTERN)
        return gw_error(-EINVAL, "a pattern has %zu bytes; the limit is %d", bytes, MAX_PATTERN);
    int err = regex_new(out);
    if (err) return err;
    pthread_once(&regex_once, regex_start);
    const OnigUChar *p = (const OnigUChar *)pattern;
    OnigErrorInfo info;
    int code =
        onig_new(&(*out)->re, p, p + bytes, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
    if (code == ONIG_NORMAL) return 0;
    OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
    onig_error_code_to_str(why, code, &info);
    (*out)->re = NULL;
    gen_regex_close(*out);
    *out = NULL;
    return gw_error(-EINVAL, "pattern '%.80s': %s", pattern, (const char *)why);
}

int gen_regex_open_plain(const char *text, size_t bytes, struct gen_regex **out)
{
    int err = regex_new(out);
    if (err) return err;
    (*out)->bytes = bytes;
    (*out)->plain = malloc(bytes + 1);
    if (!(*out)->plain) {
        gen_regex_close(*out);
        *out = NULL;
        return gw_error(-ENOMEM, "no memory for a pattern");
    }
    memcpy((*out)->plain, text, bytes);
    return 0;
}

void gen_regex_close(struct gen_regex *re)
{
    if (!re) return;
    if (re->re) onig_free(re->re);
    free(re->plain);
    free(re);
}

static int regex_find_plain(const struct gen_regex *re, const char *text, size_t bytes, size_t match[2])
{
    const char *hit = re->bytes ? memmem(text + match[0], bytes - match[0], re->plain, re->bytes) : NULL;
    if (!hit) return 0;
    match[0] = (size_t)(hit - text);
    match[1] = match[0] + re->bytes;
    return 1;
}

/* One search: its position, or ONIG_MISMATCH, or what failed. */
static int regex_search(const struct gen_regex *re, const char *text, size_t bytes, size_t from,
                        OnigRegion *region)
{
    OnigMatchParam *limits = onig_new_match_param();
    if (!limits) return ONIGERR_MEMORY;
    onig_initialize_match_param(limits);
    onig_set_retry_limit_in_match_of_match_param(limits, MAX_RETRIES);
    onig_set_retry_limit_in_search_of_match_param(limits, MAX_RETRIES);
    const OnigUChar *s = (const OnigUChar *)text;
    int at =
        onig_search_with_param(re->re, s, s + bytes, s + from, s + bytes, region, ONIG_OPTION_NONE, limits);
    onig_free_match_param(limits);
    return at;
}

int gen_regex_find(const struct gen_regex *re, const char *text, size_t bytes, size_t from, size_t match[2])
{
    match[0] = from;
    if (!re->re) return regex_find_plain(re, text, bytes, match);
    OnigRegion region;
    memset(&region, 0, sizeof(region));
    int at = ONIG_MISMATCH;
    while (from < bytes && (at = regex_search(re, text, bytes, from, &region)) >= 0) {
        match[0] = (size_t)region.beg[0];
        match[1] = (size_t)region.end[0];
        if (match[1] > match[0]) break;
        from = match[0] < bytes ? match[0] + gen_utf8_length(text + match[0]) : bytes;
        at = ONIG_MISMATCH;
    }
    onig_region_free(&region, 0);
    if (at >= 0) return 1;
    if (at == ONIG_MISMATCH) return 0;
    return at == ONIGERR_MEMORY
               ? gw_error(-ENOMEM, "no memory to match a pattern")
               : gw_error(-EINVAL, "a pattern of the tokenizer takes too many steps for this text");
}
