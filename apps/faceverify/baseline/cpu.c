/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of the CPU baseline: the thread itself, with loops that the compiler makes vectors of. */
#include <stdlib.h>

#include "apps/faceverify/baseline/at_once.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_MACHINE __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define FOR_EACH_MACHINE
#endif

enum { WIDE = FACE_SIDE + 2 };

struct judge {
    struct decided decided;
    uint32_t jobs;
    struct face_histogram *own; /* of each job's picture */
    uint8_t *requests;
    uint8_t bin[256];
};

struct judge *judge_new(uint32_t jobs, uint8_t **requests, struct face_value **values)
{
    struct judge *j = calloc(1, sizeof(*j));

    if (!j) return NULL;
    face_bins(j->bin);
    j->jobs = jobs;
    *requests = j->requests = aligned_alloc(64, (size_t)jobs * FACE_REQUEST_MAX);
    *values = aligned_alloc(64, ((size_t)jobs * sizeof(**values) + 63) / 64 * 64);
    j->own = aligned_alloc(64, (size_t)jobs * sizeof(*j->own));
    return *requests && *values && j->own ? j : NULL;
}

/* The codes of a row. Each of the three rows has one more pixel on both sides. */
FOR_EACH_MACHINE static void row_codes(const uint8_t *restrict up, const uint8_t *restrict here,
                                       const uint8_t *restrict down, uint8_t *restrict code)
{
    for (int x = 0; x < FACE_SIDE; x++) {
        uint8_t c = here[x + 1];

        code[x] = (uint8_t)((here[x + 2] >= c ? 1 : 0) | (up[x + 2] >= c ? 2 : 0) | (up[x + 1] >= c ? 4 : 0) |
                            (up[x] >= c ? 8 : 0) | (here[x] >= c ? 16 : 0) | (down[x] >= c ? 32 : 0) |
                            (down[x + 1] >= c ? 64 : 0) | (down[x + 2] >= c ? 128 : 0));
    }
}

static void row_widen(const uint8_t *from, uint8_t *to)
{
    to[0] = from[0];
    memcpy(to + 1, from, FACE_SIDE);
    to[WIDE - 1] = from[FACE_SIDE - 1];
}

/* Four tables in turn: neighbours often have the same code, and a count that was just stored comes late. */
static void cell_count(const uint8_t *code, const uint8_t *bin, uint8_t table[4][64])
{
    for (int y = 0; y < FACE_CELL; y++, code += FACE_SIDE) {
        for (int x = 0; x < 16; x += 4) {
            table[0][bin[code[x]]]++;
            table[1][bin[code[x + 1]]]++;
            table[2][bin[code[x + 2]]]++;
            table[3][bin[code[x + 3]]]++;
        }
        table[y & 3][bin[code[16]]]++;
    }
}

static void histogram(const struct judge *j, const uint8_t *picture, struct face_histogram *h)
{
    uint8_t rows[3][WIDE], codes[FACE_PIXELS], table[4][64];

    row_widen(picture, rows[0]);
    row_widen(picture, rows[1]);
    for (int y = 0; y < FACE_SIDE; y++) {
        int next = y < FACE_SIDE - 1 ? y + 1 : y;

        row_widen(picture + next * FACE_SIDE, rows[(y + 2) % 3]);
        row_codes(rows[y % 3], rows[(y + 1) % 3], rows[(y + 2) % 3], codes + y * FACE_SIDE);
    }
    for (int cell = 0; cell < FACE_CELLS; cell++) {
        memset(table, 0, sizeof(table));
        cell_count(codes + cell / FACE_GRID * FACE_CELL * FACE_SIDE + cell % FACE_GRID * FACE_CELL, j->bin,
                   table);
        for (int i = 0; i < FACE_BINS; i++)
            h->count[cell * FACE_BINS + i] =
                (uint16_t)(table[0][i] + table[1][i] + table[2][i] + table[3][i]);
    }
}

/* face_term's sum. Equal counts give 0 either way. */
FOR_EACH_MACHINE static uint32_t sum_of_terms(const uint16_t *restrict a, const uint16_t *restrict b)
{
    uint32_t sum = 0;

    for (int i = 0; i < FACE_COUNTS; i++) {
        int32_t d = (int32_t)a[i] - b[i], s = (int32_t)a[i] + b[i];

        sum += (uint32_t)(int32_t)((float)(d * d) / (float)(s ? s : 1) * FACE_TERM);
    }
    return sum;
}

void judge_request(struct judge *j, struct job *job)
{
    histogram(j, job_picture(job), &j->own[(size_t)(job->request - j->requests) / FACE_REQUEST_MAX]);
}

void judge_value(struct judge *j, uint32_t number, struct job *job)
{
    const struct face_histogram *theirs = &job->value->histogram;

    job->terms =
        face_histogram_valid(theirs) ? sum_of_terms(j->own[number].count, theirs->count) : UINT32_MAX;
    decided_put(j, number);
}

const char *judge_name(void)
{
    return "histograms by vectors";
}
