/* SPDX-License-Identifier: Apache-2.0 */
/* The demonstration: some megabytes of text, word count by four ranks, and the same by coreutils. */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs.h"
#include "run.h"

enum { TEXT_BYTES = 16 << 20, WORDS = 20000, TOP = 10, MAX_WORD = 64 };

struct counted {
    char word[MAX_WORD];
    unsigned long long n;
};

struct counts {
    struct counted *c;
    size_t n, room;
};

static volatile sig_atomic_t demo_stopped;

static void demo_stop(int signal)
{
    (void)signal;
    demo_stopped = 1;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static uint64_t demo_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Word number n: syllables, so that it can be read. Rarer words are longer. */
static int demo_word(uint32_t n, char *to)
{
    static const char *const syllable[] = {"ka", "lo", "mi", "ne", "ru", "sa", "te", "vo",
                                           "be", "di", "fa", "go", "hu", "ji", "pe", "zu"};
    char *at = to;

    do {
        memcpy(at, syllable[n % 16], 2);
        at += 2;
    } while (n /= 16);
    *at = 0;
    return (int)(at - to);
}

/* Words as in real text: the n-th is used about 1/n times as often as the first. */
static int demo_text(const char *path)
{
    FILE *f = fopen(path, "w");
    uint64_t state = 42;
    char word[MAX_WORD];
    size_t bytes = 0;
    int column = 0;

    if (!f) return -errno;
    while (bytes < TEXT_BYTES && !demo_stopped) {
        double u = (double)(demo_random(&state) >> 11) / 9007199254740992.0, power = 1;

        while (u > 0.1) { /* a power law, without a logarithm */
            u = (u - 0.1) / 0.9;
            power *= 2;
        }
        bytes += (size_t)demo_word((uint32_t)(power * (1 + u * 10)) % WORDS, word) + 1;
        column = column > 10 ? 0 : column + 1;
        fprintf(f, "%s%c", word, column ? ' ' : '\n');
    }
    return fclose(f) ? -errno : 0;
}

/* ---- counts -------------------------------------------------------------------------------------------- */

static int counts_add(struct counts *c, const char *word, unsigned long long n)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 1024;
        struct counted *more = (struct counted *)realloc(c->c, room * sizeof(*more));

        if (!more) return -ENOMEM;
        c->c = more;
        c->room = room;
    }
    snprintf(c->c[c->n].word, MAX_WORD, "%s", word);
    c->c[c->n++].n = n;
    return 0;
}

/* Reads lines of a word and a count (`first`: the word stands first). */
static int counts_read(struct counts *c, FILE *f, bool first)
{
    char line[256], word[MAX_WORD];
    unsigned long long n;
    int err = 0;

    while (!err && fgets(line, sizeof(line), f))
        if ((first ? sscanf(line, "%63s %llu", word, &n) : sscanf(line, "%llu %63s", &n, word)) == 2)
            err = counts_add(c, word, n);
    return err;
}

static int by_word(const void *a, const void *b)
{
    return strcmp(((const struct counted *)a)->word, ((const struct counted *)b)->word);
}

static int by_count(const void *a, const void *b)
{
    const struct counted *x = (const struct counted *)a, *y = (const struct counted *)b;

    return x->n != y->n ? x->n < y->n ? 1 : -1 : strcmp(x->word, y->word);
}

static bool counts_same(struct counts *a, struct counts *b)
{
    if (a->n != b->n) return false;
    qsort(a->c, a->n, sizeof(*a->c), by_word);
    qsort(b->c, b->n, sizeof(*b->c), by_word);
    for (size_t i = 0; i < a->n; i++)
        if (a->c[i].n != b->c[i].n || strcmp(a->c[i].word, b->c[i].word)) return false;
    return true;
}

static int counts_parts(struct counts *c, const char *out)
{
    DIR *d = opendir(out);
    struct dirent *entry;
    int err = d ? 0 : -errno;

    while (d && !err && (entry = readdir(d))) {
        char path[4096];
        FILE *f;

        if (strncmp(entry->d_name, "part-", 5)) continue;
        if (snprintf(path, sizeof(path), "%s/%s", out, entry->d_name) >= (int)sizeof(path)) continue;
        f = fopen(path, "r");
        err = f ? counts_read(c, f, true) : -errno;
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return err;
}

/* ---- the show ------------------------------------------------------------------------------------------ */

static void print_top(struct counts *c)
{
    qsort(c->c, c->n, sizeof(*c->c), by_count);
    printf("\nthe ten most frequent of %zu words:\n", c->n);
    for (size_t i = 0; i < TOP && i < c->n; i++) printf("  %-12s %10llu\n", c->c[i].word, c->c[i].n);
}

/* coreutils count the same words. 0: the same result; 1: another one; 77: they could not. */
static int demo_compare(struct counts *ours, const char *text, double *seconds)
{
    uint64_t began = gw_clock_ns();
    struct counts theirs = {0};
    char command[4300];
    int result = 77;
    FILE *f;

    snprintf(command, sizeof(command),
             "LC_ALL=C; export LC_ALL; tr -s '[:space:]' '\\n' < '%s' | sort | uniq -c", text);
    f = popen(command, "r");
    if (f && !counts_read(&theirs, f, false) && theirs.n) result = counts_same(ours, &theirs) ? 0 : 1;
    if (f) pclose(f);
    *seconds = (double)(gw_clock_ns() - began) / 1e9;
    free(theirs.c);
    return result;
}

static int demo_show(const char *text, const char *out)
{
    struct counts ours = {0};
    double seconds = 0;
    int result = counts_parts(&ours, out);

    if (result) {
        fprintf(stderr, "gpuwire app mapreduce: %s: cannot read the output\n", out);
        return 1;
    }
    result = demo_compare(&ours, text, &seconds);
    if (demo_stopped) {
        free(ours.c);
        return 130;
    }
    if (result != 77)
        printf("coreutils    %10.1f %6d %8.2f %8.1f   tr, sort, uniq -c: %s\n", TEXT_BYTES / 1e6, 1, seconds,
               TEXT_BYTES / 1e6 / seconds, result ? "ANOTHER RESULT" : "the same result");
    print_top(&ours);
    free(ours.c);
    return result == 1;
}

static void demo_clean(const char *folder, const char *text, const char *out)
{
    DIR *d = opendir(out);
    struct dirent *entry;

    while (d && (entry = readdir(d)))
        if (entry->d_name[0] != '.' || !strncmp(entry->d_name, ".part-", 6))
            (void)unlinkat(dirfd(d), entry->d_name, 0);
    if (d) closedir(d);
    (void)rmdir(out);
    (void)unlink(text);
    (void)rmdir(folder);
}

int demo_run(struct options *o)
{
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    struct sigaction stop = {.sa_handler = demo_stop};
    char folder[4000], text[4096], out[4096], why[64];
    char *input[] = {text};
    int code;

    snprintf(folder, sizeof(folder), "%s/gpuwire-mapreduce-XXXXXX", base);
    if (!mkdtemp(folder)) {
        fprintf(stderr, "gpuwire app mapreduce: %s: cannot make a folder: %s\n", folder, strerror(errno));
        return 1;
    }
    snprintf(text, sizeof(text), "%s/text", folder);
    snprintf(out, sizeof(out), "%s/out", folder);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    o->job = jobs_find("wordcount", why, sizeof(why));
    o->input = input;
    o->inputs = 1;
    o->out = out;
    if (!o->workers) o->workers = 4;
    printf("word count of %d MB of generated text, by %u ranks on this host\n\n", TEXT_BYTES >> 20,
           o->workers);
    fflush(stdout);
    code = demo_text(text) ? 1 : 0;
    if (code) fprintf(stderr, "gpuwire app mapreduce: %s: cannot write it: %s\n", text, strerror(errno));
    if (!code) code = demo_stopped ? 130 : run_job(o);
    if (!code) code = demo_show(text, out);
    demo_clean(folder, text, out);
    return demo_stopped ? 130 : code;
}
