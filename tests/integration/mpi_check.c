/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI program that checks every byte it is sent. The test and the benchmark compile it with mpicc.
 *     mpi_check pingpong | alltoall | onesided | random
 *     mpi_check latency BYTES COUNT     prints microseconds: half a round trip
 *     mpi_check bandwidth BYTES COUNT   prints Gbit/s: windows of 32 messages
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 32, LARGEST = 4 << 20 };

static int rank, ranks;

static void fail(const char *what, size_t bytes)
{
    fprintf(stderr, "rank %d: %s of %zu bytes: other bytes than were sent\n", rank, what, bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Makes the bytes that rank `from` sends to rank `to` in message `n`. No two messages are alike. */
static void fill(uint8_t *buf, size_t bytes, int from, int to, uint32_t n)
{
    uint32_t x = 2654435761u * (n * 64 + (uint32_t)from * 8 + (uint32_t)to + 1);
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        buf[i] = (uint8_t)(x >> 24);
    }
}

static bool is_filled(const uint8_t *buf, uint8_t *scratch, size_t bytes, int from, int to, uint32_t n)
{
    fill(scratch, bytes, from, to, n);
    return !memcmp(buf, scratch, bytes);
}

static uint8_t *room(size_t bytes)
{
    uint8_t *p = malloc(bytes);
    if (!p) MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

/* Between neighbours, all at once, over all sizes: short, eager and rendezvous. */
static void pingpong(void)
{
    uint8_t *out = room(LARGEST), *in = room(LARGEST), *scratch = room(LARGEST);
    uint32_t n = 0;

    for (size_t bytes = 1; bytes <= LARGEST; bytes *= 4) {
        for (int i = 0; i < 8; i++, n++) {
            int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
            fill(out, bytes, rank, to, n);
            MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, (int)n, in, (int)bytes, MPI_BYTE, from, (int)n,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!is_filled(in, scratch, bytes, from, rank, n)) fail("a message", bytes);
        }
    }
    free(out);
    free(in);
    free(scratch);
}

static void alltoall(void)
{
    size_t most = 1 << 18;
    uint8_t *out = room(most * (size_t)ranks), *in = room(most * (size_t)ranks), *scratch = room(most);

    for (size_t bytes = 8; bytes <= most; bytes *= 8) {
        for (int to = 0; to < ranks; to++) fill(out + bytes * (size_t)to, bytes, rank, to, (uint32_t)bytes);
        MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++)
            if (!is_filled(in + bytes * (size_t)from, scratch, bytes, from, rank, (uint32_t)bytes))
                fail("MPI_Alltoall", bytes);
    }
    long sum = 0, mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long)ranks * (ranks + 1) / 2) fail("MPI_Allreduce", sizeof(sum));
    free(out);
    free(in);
    free(scratch);
}

/* Puts into the next rank's window, reads from the one before, and counts in everybody's with atomics. */
static void onesided(void)
{
    size_t bytes = 100000;
    uint8_t *window, *buf = room(bytes), *scratch = room(bytes);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Win win;
    MPI_Aint base = 64;

    MPI_Win_allocate((MPI_Aint)bytes + base, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    memset(window, 0, bytes + (size_t)base);
    MPI_Win_fence(0, win);
    fill(buf, bytes, rank, next, 1);
    MPI_Put(buf, (int)bytes, MPI_BYTE, next, base, (int)bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    if (!is_filled(window + base, scratch, bytes, before, rank, 1)) fail("MPI_Put", bytes);
    MPI_Get(buf, (int)bytes, MPI_BYTE, before, base, (int)bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    if (!is_filled(buf, scratch, bytes, (before + ranks - 1) % ranks, before, 1)) fail("MPI_Get", bytes);

    int64_t one = 1, old, total = 0;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 20; i++)
        for (int to = 0; to < ranks; to++) MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 0, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    MPI_Fetch_and_op(&one, &total, MPI_INT64_T, rank, 0, MPI_NO_OP, win);
    MPI_Win_unlock(rank, win);
    if (total != 20 * ranks) fail("MPI_Fetch_and_op", sizeof(total));
    MPI_Win_free(&win);
    free(buf);
    free(scratch);
}

/* Many messages of random lengths in flight, to everybody, received in the order of their tags. */
static void random_traffic(void)
{
    enum { MESSAGES = 24 };
    MPI_Request requests[2 * MESSAGES * 16];
    uint8_t *out[MESSAGES * 16], *in[MESSAGES * 16], *scratch = room(1 << 17);
    int count = 0, messages = 0;

    if (ranks > 16) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int other = 0; other < ranks; other++) {
        for (int i = 0; i < MESSAGES; i++, messages++) {
            size_t to_bytes = (size_t)(rank * 7919 + other * 104729 + i * 6151) % (1 << 17),
                   from_bytes = (size_t)(other * 7919 + rank * 104729 + i * 6151) % (1 << 17);
            out[messages] = room(to_bytes + 1);
            in[messages] = room(from_bytes + 1);
            fill(out[messages], to_bytes, rank, other, (uint32_t)i);
            MPI_Irecv(in[messages], (int)from_bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[count++]);
            MPI_Isend(out[messages], (int)to_bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[count++]);
        }
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int m = 0; m < messages; m++) {
        int other = m / MESSAGES, i = m % MESSAGES;
        size_t bytes = (size_t)(other * 7919 + rank * 104729 + i * 6151) % (1 << 17);
        if (!is_filled(in[m], scratch, bytes, other, rank, (uint32_t)i)) fail("a message", bytes);
        free(out[m]);
        free(in[m]);
    }
    free(scratch);
}

static void latency(size_t bytes, int count)
{
    uint8_t *buf = calloc(1, bytes + 1);
    double start = 0;

    for (int i = -count / 10; buf && i < count; i++) {
        if (!i) start = MPI_Wtime();
        for (int turn = 0; turn < 2; turn++) {
            if (rank == turn)
                MPI_Send(buf, (int)bytes, MPI_BYTE, !rank, 0, MPI_COMM_WORLD);
            else if (rank < 2)
                MPI_Recv(buf, (int)bytes, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (!rank) printf("%.3f\n", (MPI_Wtime() - start) / count / 2 * 1e6);
    free(buf);
}

static void bandwidth(size_t bytes, int count)
{
    uint8_t *buf = calloc(WINDOW, bytes);
    MPI_Request requests[WINDOW];
    double start = 0;

    for (int i = -1; buf && rank < 2 && i < count / WINDOW; i++) {
        if (!i) start = MPI_Wtime();
        for (int w = 0; w < WINDOW; w++) {
            uint8_t *at = buf + bytes * (size_t)w;
            if (!rank)
                MPI_Isend(at, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(at, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, !rank, 1, NULL, 0, MPI_BYTE, !rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    if (!rank) printf("%.3f\n", (double)bytes * (count / WINDOW * WINDOW) * 8 / (MPI_Wtime() - start) / 1e9);
    free(buf);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 8;
    int count = argc > 3 ? atoi(argv[3]) : 1000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!strcmp(what, "latency")) {
        latency(bytes, count);
    } else if (!strcmp(what, "bandwidth")) {
        bandwidth(bytes, count);
    } else {
        if (!strcmp(what, "pingpong")) pingpong();
        if (!strcmp(what, "alltoall")) alltoall();
        if (!strcmp(what, "onesided")) onesided();
        if (!strcmp(what, "random")) random_traffic();
        MPI_Barrier(MPI_COMM_WORLD);
        if (!rank) printf("%s: right on %d ranks\n", what, ranks);
    }
    MPI_Finalize();
    return 0;
}
