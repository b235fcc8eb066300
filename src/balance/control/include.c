/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a configuration: one, and those that it includes. */
#include "src/balance/control/include.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gpuwire/error.h>

#include "src/balance/control/params.h"

#define INCLUDE_DEPTH 8u
#define INCLUDE_FILES 1000u

char *gw_bal_parse_text(const char *file, size_t most, size_t *bytes)
{
    char *text = malloc(most + 1);
    FILE *f = text ? fopen(file, "re") : NULL;
    int err = f ? 0 : text ? -errno : -ENOMEM;
    if (f) {
        errno = 0;
        *bytes = fread(text, 1, most + 1, f);
        err = ferror(f) ? -errno : 0;
        fclose(f);
    }
    if (err)
        gw_error(err, "%s", strerror(-err));
    else if (*bytes > most)
        err = gw_error(-EFBIG, "a configuration may have %u bytes, with all that it includes", GW_BAL_MAX);
    else if (memchr(text, 0, *bytes))
        err = gw_error(-EINVAL, "not a text file: it has a byte that is 0");
    else
        text[*bytes] = 0;
    if (!err) return text;
    free(text);
    return NULL;
}

int gw_bal_parse_from(struct gw_bal_parse *p, const char *text)
{
    struct gw_bal_filled *f = malloc(sizeof(*f));
    if (!f || !(f->text = gw_bal_params_fill(text, &p->params))) {
        if (!f) gw_error(-ENOMEM, "no memory");
        free(f);
        return -EINVAL;
    }
    f->next = p->filled;
    p->filled = f;
    p->reader.at = f->text;
    p->reader.held = 0;
    return 0;
}

void gw_bal_parse_free(struct gw_bal_parse *p)
{
    for (struct gw_bal_filled *f = p->filled, *next; f; f = next) {
        next = f->next;
        free(f->text);
        free(f);
    }
    for (struct gw_bal_file_name *n = p->names, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    gw_bal_params_free(p->params);
}

uint64_t gw_bal_config_hash(uint64_t before, const char *text)
{
    uint64_t h = before ? before : 0xcbf29ce484222325u;
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

/* Messages name files until the last has been read. */
static const char *config_include_keep_name(struct gw_bal_parse *p, const char *file)
{
    struct gw_bal_file_name *n = malloc(sizeof(*n) + strlen(file) + 1);
    if (!n) return NULL;
    strcpy(n->text, file);
    n->next = p->names;
    p->names = n;
    return n->text;
}

static int include_one(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                       const struct gw_bal_statement *s, const char *file)
{
    size_t bytes = 0;
    const char *block = p->block;
    const char *name = config_include_keep_name(p, file);
    char *text = name ? gw_bal_parse_text(file, GW_BAL_MAX - p->bytes, &bytes) : NULL;
    if (!text) return gw_bal_wrong(p, s, "%.200s: %s", file, name ? gw_last_error() : "no memory");
    p->bytes += bytes;
    p->config->model.file_hash = gw_bal_config_hash(p->config->model.file_hash, text);
    struct gw_bal_reader outer = p->reader;
    gw_bal_reader_open(&p->reader, name, text);
    p->depth++;
    if (gw_bal_parse_from(p, p->reader.at))
        gw_bal_wrong(p, s, "%.200s: %s", file, gw_last_error());
    else
        gw_bal_parse_block(p, keywords, NULL);
    p->depth--;
    p->reader = outer;
    p->block = block;
    free(text);
    return 0;
}

static int include_all(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                       const struct gw_bal_statement *s, const glob_t *found)
{
    struct stat st;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        if (stat(found->gl_pathv[i], &st) || !S_ISREG(st.st_mode)) continue;
        if (++p->includes > INCLUDE_FILES)
            return gw_bal_wrong(p, s, "more than %u files are included; put some together", INCLUDE_FILES);
        int err = include_one(p, keywords, s, found->gl_pathv[i]);
        if (err) return err;
    }
    return 0;
}

int gw_bal_parse_include(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                         const struct gw_bal_statement *s)
{
    char pattern[GW_BAL_TEXT * 2];
    glob_t found;
    if (s->words != 2 || s->ending != GW_BAL_ENDS)
        return gw_bal_wrong(p, s, "it takes one file or pattern; quote one with braces");
    if (p->depth == INCLUDE_DEPTH)
        return gw_bal_wrong(p, s, "files include each other more than %u deep", INCLUDE_DEPTH);
    /* It is beside the file that names it. */
    const char *slash = s->word[1][0] == '/' ? NULL : strrchr(s->file, '/');
    int n = snprintf(pattern, sizeof(pattern), "%.*s%s", slash ? (int)(slash - s->file) + 1 : 0, s->file,
                     s->word[1]);
    if (n < 0 || (size_t)n >= sizeof(pattern)) return gw_bal_wrong(p, s, "the path is too long");
    int none = glob(pattern, GLOB_BRACE, NULL, &found);
    if (none == GLOB_NOMATCH && !strpbrk(pattern, "*?[{"))
        return gw_bal_wrong(p, s, "%.200s: there is no such file", pattern);
    if (none) return none == GLOB_NOMATCH ? 0 : gw_bal_wrong(p, s, "%.200s: cannot be looked for", pattern);
    const struct gw_bal_param *before = p->params;
    int err = include_all(p, keywords, s, &found);
    globfree(&found);
    if (err || p->params == before) return err;
    /* Parameters that the files have defined count in the rest of this one. */
    if (p->reader.held) *p->reader.at = p->reader.held;
    return gw_bal_parse_from(p, p->reader.at) ? gw_bal_wrong(p, s, "%s", gw_last_error()) : 0;
}
