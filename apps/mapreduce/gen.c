/* SPDX-License-Identifier: Apache-2.0 */
/* Input files: text with Zipf's frequencies, TeraSort's records, points around centres, matrices. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>

#include "formats.h"
#include "gen.h"

struct gen {
    FILE *f;
    uint64_t size, state; /* bytes to write; the random numbers' */
    uint64_t columns, clusters;
    bool odd, ascii;
};

/* SplitMix64. */
static uint64_t gen_random(struct gen *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* From 0 up to 1. */
static double fraction(struct gen *g)
{
    return (double)(gen_random(g) >> 11) * 0x1p-53;
}

/* What a write that failed means. */
static int gen_failed(void)
{
    return errno ? -errno : -EIO;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* The word of rank r has a frequency in proportion to 1 / r. They are longer, the rarer they are. */
enum { WORDS = 50000, WORD_MAX = 16, ODD_WORD = 1000, BATCH = 1 << 20 };

struct vocabulary {
    double until[WORDS]; /* the share of all ranks up to this one */
    char word[WORDS][WORD_MAX];
    uint8_t length[WORDS];
};

static void vocabulary_make(struct vocabulary *v, struct gen *g)
{
    static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz";
    double sum = 0;

    for (int i = 0; i < WORDS; i++) {
        double mean = 2 + (31 - __builtin_clz(1 + (unsigned)i)) * 0.5;

        v->until[i] = sum += 1.0 / (1 + i);
        v->length[i] = (uint8_t)(1 + mean * (0.5 + fraction(g)));
        for (int k = 0; k < v->length[i]; k++) v->word[i][k] = letters[(int)(26 * fraction(g) * fraction(g))];
    }
    for (int i = 0; i < WORDS; i++) v->until[i] /= sum;
}

static int vocabulary_draw(const struct vocabulary *v, struct gen *g)
{
    double x = fraction(g);
    int low = 0, high = WORDS - 1;

    while (low < high) {
        int middle = (low + high) / 2;

        if (v->until[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What real files hold, too: bytes that are no UTF-8, NULs, long words, empty lines, all kinds of white
 * space. */
static size_t gen_oddity(struct gen *g, char *out, size_t room)
{
    static const char *const things[] = {"\xff\xfe",     "\xc3\x28 ", "\n\n\n",   "\t\v\f\r",
                                         "caf\xc3\xa9 ", " \r\n",     "\xa0\x80 "};
    uint64_t r = gen_random(g);
    size_t n = 1;

    if (r % 1000 == 0) { /* as long as jobs take them, nearly */
        n = 1 + (r >> 10) % ODD_WORD;
        if (n > room) n = room;
        memset(out, 'a' + (int)(r >> 40) % 26, n);
    } else if (r % 10 == 1) {
        *out = 0;
    } else {
        const char *what = things[(r >> 32) % (sizeof(things) / sizeof(*things))];

        n = strlen(what) < room ? strlen(what) : room;
        memcpy(out, what, n);
    }
    return n;
}

static int gen_text(struct gen *g)
{
    struct vocabulary *v = (struct vocabulary *)malloc(sizeof(*v));
    char *out = (char *)malloc(BATCH);
    size_t have = 0;
    int err = v && out ? 0 : -ENOMEM;

    if (!err) vocabulary_make(v, g);
    for (uint64_t left = g->size; left && !err; left -= have) {
        size_t room = left < BATCH ? left : BATCH, n;

        for (have = 0; have < room;) {
            int w = vocabulary_draw(v, g);

            if (g->odd && gen_random(g) % 64 == 0) {
                have += gen_oddity(g, out + have, room - have);
                continue;
            }
            n = v->length[w] < room - have ? v->length[w] : room - have;
            memcpy(out + have, v->word[w], n);
            have += n;
            if (have < room) out[have++] = gen_random(g) % 12 ? ' ' : '\n';
        }
        if (left == have && !g->odd) out[have - 1] = '\n';
        if (fwrite(out, 1, have, g->f) != have) err = gen_failed();
    }
    free(v);
    free(out);
    return err;
}

/* ---- records ------------------------------------------------------------------------------------------- */

/* The layout is gensort's: the key, a break, the record's number in hexadecimal, a break, filler, an end. */
static void record_make(struct gen *g, uint64_t number, char *r)
{
    char digits[33];

    snprintf(digits, sizeof(digits), "%032llX", (unsigned long long)number);
    for (int i = 0; i < MR_RECORD_KEY; i++)
        r[i] = (char)(g->ascii ? ' ' + gen_random(g) % 95 : gen_random(g) >> 32);
    memcpy(r + 10, g->ascii ? "  " : "\x00\x11", 2);
    memcpy(r + 12, digits, 32);
    memcpy(r + 44, g->ascii ? "    " : "\x88\x99\xaa\xbb", 4);
    for (int i = 0; i < 12; i++) memset(r + 48 + 4 * i, "0123456789ABCDEF"[gen_random(g) % 16], 4);
    memcpy(r + 96, g->ascii ? "  \r\n" : "\xcc\xdd\xee\xff", 4);
}

static int gen_records(struct gen *g)
{
    char r[MR_RECORD];

    for (uint64_t i = 0; i < g->size / MR_RECORD; i++) {
        record_make(g, i, r);
        if (fwrite(r, 1, MR_RECORD, g->f) != MR_RECORD) return gen_failed();
    }
    return 0;
}

/* ---- .npy ---------------------------------------------------------------------------------------------- */

static int write_header(struct gen *g, uint64_t rows, uint64_t columns)
{
    char header[MR_NPY_WRITTEN];
    size_t n = mr_npy_header(header, rows, columns);

    return fwrite(header, 1, n, g->f) == n ? 0 : gen_failed();
}

/* Around centres in a cube from -10 to 10, with a spread that lets neighbours overlap. */
static int gen_points(struct gen *g)
{
    uint64_t rows = g->size / 4 / g->columns;
    float *centre = (float *)malloc(g->clusters * g->columns * sizeof(float));
    float *point = (float *)malloc(g->columns * sizeof(float));
    int err = centre && point ? write_header(g, rows, g->columns) : -ENOMEM;

    for (uint64_t i = 0; i < g->clusters * g->columns && !err; i++)
        centre[i] = (float)(20 * fraction(g) - 10);
    for (uint64_t i = 0; i < rows && !err; i++) {
        const float *c = centre + gen_random(g) % g->clusters * g->columns;

        for (uint64_t d = 0; d < g->columns; d++) {
            uint64_t r = gen_random(g); /* the sum of four: nearly a normal distribution */
            int sum = (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);

            point[d] = c[d] + (float)(sum - 131070) * (1.0f / 32768);
        }
        if (fwrite(point, sizeof(float), g->columns, g->f) != g->columns) err = gen_failed();
    }
    free(centre);
    free(point);
    return err;
}

static int gen_matrix(struct gen *g)
{
    uint64_t rows = g->size / 4 / g->columns;
    int err = write_header(g, rows, g->columns);

    for (uint64_t i = 0; i < rows * g->columns && !err; i++) {
        float v = (float)(2 * fraction(g) - 1);

        if (fwrite(&v, sizeof(v), 1, g->f) != 1) err = gen_failed();
    }
    return err;
}

static int gen_vector(struct gen *g)
{
    g->columns = 1;
    return gen_matrix(g);
}

/* ---- the command --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*make)(struct gen *g);
} kinds[] = {{"text", gen_text},
             {"records", gen_records},
             {"points", gen_points},
             {"matrix", gen_matrix},
             {"vector", gen_vector}};

static const char gen_help[] =
    "usage: gpuwire app mapreduce gen KIND SIZE FILE [OPTION...]\n\n"
    "Writes an input file. The same seed makes the same file. SIZE is in bytes, with K, M or G: 600M.\n\n"
    "  text      words whose frequencies are Zipf's\n"
    "  records   of 100 bytes with keys of 10, as TeraSort has them\n"
    "  points    an .npy array of float32, a row for each point\n"
    "  matrix    an .npy array of float32;   vector: one of a single column\n\n"
    "  --seed N       another file (default 1)\n"
    "  --odd          text: bytes that are no UTF-8, NULs, long words, empty lines, no newline at the end\n"
    "  --ascii        records: printable, one a line\n"
    "  --columns N    points, matrix: values in a row (default 32)\n"
    "  --clusters N   points: how many centres they lie around (default 500)\n";

static const char gen_call[] = "app mapreduce gen";

static int gen_option(struct gen *g, int option, char **argv)
{
    switch (option) {
    case 's': return gw_option_number(gen_call, "--seed", optarg, 0, UINT64_MAX, &g->state);
    case 'o': return g->odd = true, 0;
    case 'a': return g->ascii = true, 0;
    case 'c': return gw_option_number(gen_call, "--columns", optarg, 1, 1 << 20, &g->columns);
    case 'k': return gw_option_number(gen_call, "--clusters", optarg, 1, 1 << 20, &g->clusters);
    case 'h': return fputs(gen_help, stdout), -1;
    default: return gw_option_wrong(gen_call, argv, option);
    }
}

static int gen_write(struct gen *g, int (*make)(struct gen *g), const char *path)
{
    int err;

    if (!(g->f = fopen(path, "wb")))
        err = -errno;
    else {
        err = make(g);
        if (fclose(g->f) && !err) err = -errno;
    }
    return err ? gw_fail(gen_call, "%s: %s", path, strerror(-err)) : 0;
}

int mr_gen(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'},     {"odd", 0, NULL, 'o'},
                                            {"ascii", 0, NULL, 'a'},    {"columns", 1, NULL, 'c'},
                                            {"clusters", 1, NULL, 'k'}, {"help", 0, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct gen g = {.state = 1, .columns = 32, .clusters = 500};
    int option, err;

    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) >= 0)
        if ((err = gen_option(&g, option, argv))) return err < 0 ? 0 : err;
    if (argc - optind != 3) return gw_usage_error(gen_call, "needs KIND SIZE FILE");
    err = gw_option_bytes(gen_call, "SIZE", argv[optind + 1], 0, INT64_MAX, &g.size);
    if (err) return err;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(argv[optind], kinds[i].name)) return gen_write(&g, kinds[i].make, argv[optind + 2]);
    return gw_usage_error(gen_call, "%s: there is no such kind", argv[optind]);
}
