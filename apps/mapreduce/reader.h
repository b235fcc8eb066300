/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h: the host's proxy for files: pieces are read by io_uring, many at a time, while kernels map
 * others. Where io_uring is missing or forbidden, reads are plain ones, one after another.
 */
#ifndef GW_MAPREDUCE_READER_H
#define GW_MAPREDUCE_READER_H

#include <stdbool.h>
#include <stdint.h>

struct reader;

/* A read: the caller's. It ends when all `bytes` are there, at the file's end, or with an error. */
struct reader_piece {
    int fd;
    uint8_t *to;
    uint64_t at;
    uint32_t bytes, got;
    int err; /* a negative errno */
    void *arg;
};

/* depth: reads under way at most. wide: reads shall not run in the caller's thread, even where the data is in
 * memory already. NULL: no memory. */
struct reader *reader_open(uint32_t depth, bool wide);
/* Waits for the reads under way. */
void reader_close(struct reader *r);
const char *reader_name(const struct reader *r);
/* Readable when a read has ended; -1: reads end at once. */
int reader_fd(const struct reader *r);
void reader_start(struct reader *r, struct reader_piece *p);
/* The next read that has ended; NULL: none now. */
struct reader_piece *reader_next(struct reader *r);
/* Reads under way. */
uint32_t reader_busy(const struct reader *r);

#endif
