/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h: what clients and servers of matrix products say to each other. Plain C, for programs without
 * gpuwire, too.
 *
 * A connection is a stream. The client sends requests, and the server answers them in order. A client may
 * send the next requests before it has the answers. All numbers are little-endian.
 *
 * A request is struct mm_request, then A, then B. An answer is struct mm_answer. If its status is MM_OK,
 * C = A B follows. A, B and C are n × n and stored row by row. Elements of A and B are of the request's type;
 * those of C are always fp32.
 *
 * After MM_BUSY the connection goes on: the server has dropped the request's A and B, and the client may ask
 * again. After every other error the server closes the connection, because it does not know where the next
 * request begins.
 */
#ifndef MATMUL_PROTOCOL_H
#define MATMUL_PROTOCOL_H

#include <stdint.h>

#define MM_REQUEST_MAGIC 0x4c554d4du /* "MMUL" */
#define MM_ANSWER_MAGIC  0x534e414du /* "MANS" */
#define MM_VERSION       1
#define MM_N_MIN         16
#define MM_N_MAX         4096
#define MM_N_STEP        16 /* n is a multiple of it */

enum mm_type {
    MM_FP32 = 1, /* products and sums in fp32 */
    MM_TF32 = 2, /* fp32 in memory; factors are rounded to TF32 (10 bits of mantissa); sums in fp32 */
    MM_FP16 = 3, /* A and B in IEEE 754's binary16; sums in fp32 */
};

enum mm_status {
    MM_OK = 0,
    MM_BUSY = 1,        /* no room for the matrices within the server's limit */
    MM_BAD_MAGIC = 2,   /* not a request */
    MM_BAD_VERSION = 3, /* not MM_VERSION */
    MM_BAD_TYPE = 4,    /* not one of enum mm_type */
    MM_BAD_SIZE = 5,    /* n is out of range or no multiple of MM_N_STEP, or larger than this server takes */
    MM_BAD_LENGTH = 6,  /* length is not that of A and B */
    MM_BAD_FLAGS = 7,   /* flags is not 0 */
    MM_TOO_SLOW = 8,    /* A and B did not come within the server's limit */
};

struct mm_request {
    uint32_t magic;   /* MM_REQUEST_MAGIC */
    uint16_t version; /* MM_VERSION */
    uint16_t type;    /* enum mm_type */
    uint32_t n;       /* rows and columns of each matrix */
    uint32_t flags;   /* 0 */
    uint64_t id;      /* the client's; the answer has the same */
    uint64_t length;  /* bytes of A and B together */
};

struct mm_answer {
    uint32_t magic;   /* MM_ANSWER_MAGIC */
    uint16_t version; /* MM_VERSION */
    uint16_t status;  /* enum mm_status */
    uint32_t n;       /* the request's */
    uint32_t reserved;
    uint64_t id;     /* the request's */
    uint64_t length; /* bytes of C that follow */
};

/* Marks functions for kernels, too, where it is defined before. */
#ifndef MM_FN
#define MM_FN static inline
#endif

/* Bytes of an element of A and B. */
MM_FN uint32_t mm_element(uint32_t type)
{
    return type == MM_FP16 ? 2 : 4;
}

/* Bytes of A and B together; of C. */
MM_FN uint64_t mm_in_bytes(uint32_t type, uint32_t n)
{
    return 2 * (uint64_t)n * n * mm_element(type);
}

MM_FN uint64_t mm_out_bytes(uint32_t n)
{
    return 4 * (uint64_t)n * n;
}

/* What is wrong with a request, for a server that takes matrices of up to `largest`. */
MM_FN enum mm_status mm_check(const struct mm_request *r, uint32_t largest)
{
    if (r->magic != MM_REQUEST_MAGIC) return MM_BAD_MAGIC;
    if (r->version != MM_VERSION) return MM_BAD_VERSION;
    if (r->type < MM_FP32 || r->type > MM_FP16) return MM_BAD_TYPE;
    if (r->n < MM_N_MIN || r->n > MM_N_MAX || r->n > largest || r->n % MM_N_STEP) return MM_BAD_SIZE;
    if (r->length != mm_in_bytes(r->type, r->n)) return MM_BAD_LENGTH;
    return r->flags ? MM_BAD_FLAGS : MM_OK;
}

/* The answer to a request. */
MM_FN struct mm_answer mm_answer_to(const struct mm_request *r, enum mm_status status)
{
    struct mm_answer a;

    a.magic = MM_ANSWER_MAGIC;
    a.version = MM_VERSION;
    a.status = (uint16_t)status;
    a.n = r->n;
    a.reserved = 0;
    a.id = r->id;
    a.length = status == MM_OK ? mm_out_bytes(r->n) : 0;
    return a;
}

#endif
