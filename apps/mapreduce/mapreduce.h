/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapreduce.h: what a job of `gpuwire app mapreduce` is made of. A job is one C file. cc compiles it for CPU
 * threads and nvcc for a GPU (README.md shows a whole one, and how to build your own).
 *
 *     #include "mapreduce.h"
 *
 *     GW_DEV void count_map(struct mr_map *m, const uint8_t *word, uint32_t bytes)
 *     {
 *         mr_emit_u64(m, word, bytes, 1);
 *     }
 *
 *     GW_DEV void count_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
 *     {
 *         const uint64_t *v;
 *         uint64_t sum = 0;
 *
 *         while ((v = (const uint64_t *)mr_next(r, NULL))) sum += *v;
 *         mr_put(r, key, bytes);
 *         mr_put_char(r, '\t');
 *         mr_put_u64(r, sum);
 *         mr_put_char(r, '\n');
 *     }
 *
 *     MR_JOB(wordcount, count_map, MR_NO_COMBINE, count_reduce, .what = "counts the words of texts",
 *            .input = MR_WORDS, .combine = MR_SUM_U64, .key = 64, .value = 8);
 *
 * How it runs. Every rank has mapper blocks. A mapper block takes a piece of the input and calls map for each
 * record. map emits pairs of a key and a value. Equal keys are combined in the block if the job says how.
 * Each pair travels to the rank that has the key's partition while mapping goes on. When all maps and
 * transfers have ended, each rank sorts its pairs, and calls reduce for each key. What reduce puts becomes
 * the partition's file, part-00000 and so on, in the order of the sort.
 *
 * map and reduce must depend on their arguments alone. When a rank dies, the round begins again without it,
 * and reduce is called twice for each key (first to measure, then to write). Sizes are bytes.
 */
#ifndef GW_MAPREDUCE_H
#define GW_MAPREDUCE_H

#include <stdbool.h>

#include <gpuwire/exec.h>
#include <gpuwire/group.h>

/* ---- facts --------------------------------------------------------------------------------------------- */

/* What a record of the input is. */
enum mr_input {
    MR_LINES = 1, /* text: a line, without its newline. The last line needs none */
    MR_WORDS,     /* text: bytes between white space (space, \t, \n, \v, \f, \r) */
    MR_RECORDS,   /* `record` bytes each; a file must be a multiple of that */
    MR_NPY,       /* a row of a C-ordered .npy array: record and type come from the file's header */
};

/* Which threads call map together, with the same record. */
enum mr_by {
    MR_BY_THREAD = 0, /* one thread */
    MR_BY_WARP,       /* all threads of a warp: for long rows. Each may emit */
    MR_BY_BLOCK,      /* all threads of a block, with many whole records at once: bytes / m->record of them.
                         MR_RECORDS and MR_NPY alone */
};

/* How values of one key become one value before they travel. All but MR_OWN work on arrays: a value is
 * value / 8 (or / 4) numbers. Sums of integers are the same in any order, sums of floats are not. */
enum mr_combine {
    MR_NONE = 0,
    MR_SUM_U64, /* also for int64_t */
    MR_SUM_F32,
    MR_SUM_F64,
    MR_MIN_U64,
    MR_MAX_U64,
    MR_OWN, /* the job's function: combine(into, from), both of `value` bytes */
};

enum mr_flags {
    MR_SORT = 1,  /* keys of a part in the order of memcmp; without it in an order of the engine's */
    MR_ORDER = 2, /* the parts, one after another, are in order, too: keys are sampled first. With MR_SORT */
    MR_SORT_VALUES = 4, /* reduce gets a key's values in the order of memcmp, else in any order */
    MR_FILES_APART = 8, /* pairs of different files are not combined before they travel */
    MR_ONE_TABLE = 16,  /* the blocks of a rank combine in one table, with room for h->keys keys: for few keys
                           that all blocks meet. Each key travels once for the whole rank */
    MR_KEEP = 32, /* MR_RECORDS and MR_NPY: a rank has the same part of the input in each round, and keeps
                           what fits into its memory (its GPU's): the next round need not read it again */
};

enum {
    MR_MAX_KEY = 16384,  /* bytes of a key */
    MR_MAX_VALUE = 8192, /* bytes of a value */
    MR_MAX_LINE = 65536, /* bytes of a line */
    MR_MAX_WORD = MR_MAX_KEY,
    MR_MAX_RECORD = 16 << 20, /* bytes of a record or row */
};

struct mr_host;

/* A job. Use MR_JOB, and name the fields that are not 0. */
struct mr_job {
    uint32_t size;          /* of this struct: MR_JOB sets it */
    const char *job, *what; /* its name; one line for --help */
    uint32_t input, by, combine, flags;
    uint32_t record;     /* MR_RECORDS */
    uint32_t threads;    /* of a block of map on a GPU; 0: as many as the engine chooses */
    uint32_t key, value; /* the longest key and value; a value that is combined is exactly that long */
    const char *args;    /* what setup takes, for --help: "K [ROUNDS]"; NULL: nothing */

    /* ---- host parts, all optional; they run on rank 0 ---- */

    /* Before the first round. argv: the job's arguments (what stands after `--` on the command line), argc of
     * them. It may change h->record, h->key, h->value and set the state. 0, or a negative errno after
     * mr_fail(h, …). */
    int (*setup)(struct mr_host *h, int argc, char **argv);

    /* An iterative job has this function. It runs after each round. `out` holds what all reduces of the round
     * have put, in the order of the parts; no part goes to a file. Returns 1: there is another round, with
     * the state as it is now. 0: this was the last; part-00000 is what mr_result has added. A negative errno:
     * as setup. */
    int (*round)(struct mr_host *h, const uint8_t *out, uint64_t bytes);

    /* At the end, however the job ends: free what setup allocated. */
    void (*finish)(struct mr_host *h);

    const struct gw_kernel *map_kernel, *reduce_kernel; /* MR_JOB sets them */
};

/* ---- map (kernels) ------------------------------------------------------------------------------------- */

struct mr_args_;

/* What a map knows. Read it only. */
struct mr_map {
    const void *state; /* the job's state, the same on all ranks; aligned to 64 */
    uint64_t state_bytes;
    uint32_t file;   /* the input file's number; its name is mr_file_name */
    uint64_t offset; /* of the record in the file, from the first byte of its data */
    uint64_t number; /* MR_RECORDS, MR_NPY: the record's number over all files (MR_BY_BLOCK: the first) */
    uint32_t record; /* MR_RECORDS, MR_NPY: bytes of a record */
    /* the engine's */
    const struct mr_args_ *a;
    void *bucket, *table;
    void (*combine)(void *into, const void *from);
};

/* Emits a pair: one thread. key_bytes: 1 to the job's `key`; value_bytes: 0 to `value`. A pair that is too
 * long fails the job. */
GW_DEV void mr_emit(struct mr_map *m, const void *key, uint32_t key_bytes, const void *value,
                    uint32_t value_bytes);

/* The same for one number. */
GW_DEV void mr_emit_u64(struct mr_map *m, const void *key, uint32_t key_bytes, uint64_t value);

/* MR_SUM_U64: where the sums of a key lie (`value` bytes, zeros at first), until map returns. Any thread.
 * It adds to them with gw_add_relaxed_u64_gpu. Several threads can add one long value so, and need not emit
 * it. NULL: there is no room. With MR_ONE_TABLE there is room for h->keys keys. */
GW_DEV uint64_t *mr_sums(struct mr_map *m, const void *key, uint32_t key_bytes);

/* A file's path as it was given or found in a folder, and its length. */
GW_DEV const char *mr_file_name(const struct mr_args_ *a, uint32_t file, uint32_t *bytes);

/* ---- reduce (kernels) ---------------------------------------------------------------------------------- */

/* What a reduce knows: one thread has one key. */
struct mr_reduce {
    const void *state;
    uint64_t state_bytes;
    /* the engine's */
    const struct mr_args_ *a;
    uint64_t at, end, next;
    uint8_t *to; /* NULL: it measures */
    uint64_t put;
};

/* The key's next value, aligned to 8, and its size (bytes may be NULL). NULL: there are no more. */
GW_DEV const void *mr_next(struct mr_reduce *r, uint32_t *bytes);

/* Adds bytes to the output. */
GW_DEV void mr_put(struct mr_reduce *r, const void *from, uint64_t bytes);
GW_DEV void mr_put_char(struct mr_reduce *r, char c);
GW_DEV void mr_put_text(struct mr_reduce *r, const char *text);
/* Adds a number in decimal. */
GW_DEV void mr_put_u64(struct mr_reduce *r, uint64_t v);
GW_DEV void mr_put_i64(struct mr_reduce *r, int64_t v);

/* ---- host ---------------------------------------------------------------------------------------------- */

/* An input file as the master sees it. */
struct mr_file {
    char *path;
    uint64_t start, bytes; /* where its data begins, and how many bytes they are */
    uint64_t first;        /* the number of its first record over all files */
    uint64_t inode, mtime_ns, size;
};

/* The job as its host parts see it. */
struct mr_host {
    const struct mr_job *job;
    uint32_t record, key, value; /* as the job's, until setup changes them */
    uint32_t keys;               /* MR_ONE_TABLE: how many keys there may be; setup sets it */
    char type;                   /* MR_NPY: 'f', 'i' or 'u', and the bytes of an item */
    uint32_t item;
    uint32_t files;
    const struct mr_file *file;
    uint32_t round; /* from 0 */
    uint32_t ranks; /* alive */
    void *state;    /* mr_state */
    uint64_t state_bytes;
    void *own;     /* the job's */
    char why[256]; /* mr_fail */
    void *engine;
};

/* Makes the state `bytes` long (it is zeroed, and what was there is gone), and returns it. NULL: no memory.
 * It travels to all ranks before each round. */
void *mr_state(struct mr_host *h, uint64_t bytes);

/* Reads n records from number `first` on, over all files. MR_RECORDS and MR_NPY alone. 0; -ERANGE: there are
 * not that many; another negative errno. Failures go through mr_fail. */
int mr_read(struct mr_host *h, uint64_t first, uint64_t n, void *to);

/* How many records there are. MR_RECORDS and MR_NPY alone. */
uint64_t mr_records(const struct mr_host *h);

/* An iterative job's result: adds bytes to part-00000. 0 or -ENOMEM. */
int mr_result(struct mr_host *h, const void *from, uint64_t bytes);

/* Says in one line why the job fails, and returns err. */
int mr_fail(struct mr_host *h, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- making a job -------------------------------------------------------------------------------------- */

#define MR_NO_COMBINE mr_no_combine_

/* Defines the job job_ from its functions and facts. A job that is built alone is NAME.so, and NAME is the
 * job's name. */
#define MR_JOB(job_, map, own_combine, reduce, ...)                                                          \
    GW_KERNEL(mr_map_##job_, struct mr_args_, mr_a)                                                          \
    {                                                                                                        \
        mr_map_block_(mr_a, map, own_combine);                                                               \
    }                                                                                                        \
    GW_KERNEL(mr_reduce_##job_, struct mr_args_, mr_a)                                                       \
    {                                                                                                        \
        mr_reduce_block_(mr_a, reduce);                                                                      \
    }                                                                                                        \
    MR_FACTS_(job_, __VA_ARGS__)

#ifdef __CUDACC__
#define MR_FACTS_(job_, ...)
#else
#define MR_FACTS_(job_, ...)                                                                                 \
    extern const struct mr_job mr_job_##job_;                                                                \
    __attribute__((visibility("default")))                                                                   \
    const struct mr_job mr_job_##job_ = {.size = sizeof(struct mr_job),                                      \
                                         .job = #job_,                                                       \
                                         .map_kernel = &mr_map_##job_,                                       \
                                         .reduce_kernel = &mr_reduce_##job_,                                 \
                                         __VA_ARGS__}
#endif

#include "device.h"

#endif
