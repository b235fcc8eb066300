/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow table beside the table that Katran keeps connections in: a BPF map of type LRU_HASH. An XDP
 * program looks flows up one after the other, as Katran does a packet at a time, and the kernel runs it
 * (BPF_PROG_TEST_RUN). Rounds in turn, medians, one core. Rates count the seconds that the thread ran, the
 * kernel's part included.
 *
 *     lru_bench [ROUNDS [FLOWS]]      5 and 8000000 when not given. As root; exit code 77: the kernel refuses
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpuwire/flow.h>

#include "bench/measure.h"

enum { MAX_ROUNDS = 99, BURST = 64, IN_RUN = 1000 /* lookups of one run of the program */, BATCH = 4096 };
enum { RUNS = 3000, LOOKUPS = 20000000, WIDE = 40 /* bytes of Katran's key */ };

static long bpf(int command, union bpf_attr *attr)
{
    return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Flow i's key begins with this; the program reckons it, too. */
static uint64_t key_of(uint64_t i)
{
    uint64_t v = i * 0x9e3779b97f4a7c15u;
    v ^= v >> 32;
    v *= 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

static void skip(const char *what)
{
    fprintf(stderr, "skipped: %s: %s\n", what, strerror(errno));
    exit(77);
}

/* ---- the map ---- */

static int make_map(uint32_t type, uint32_t key_bytes, uint32_t value_bytes, uint64_t entries)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.map_type = type;
    attr.key_size = key_bytes;
    attr.value_size = value_bytes;
    attr.max_entries = (uint32_t)entries;
    int fd = (int)bpf(BPF_MAP_CREATE, &attr);
    if (fd < 0) skip("the kernel makes no BPF map");
    return fd;
}

static void fill_map(int map, uint32_t key_bytes, uint64_t flows)
{
    uint8_t *keys = calloc(BATCH, key_bytes);
    uint64_t *values = calloc(BATCH, 16); /* Katran's value: a worker's number and a time */
    if (!keys || !values) exit(1);
    for (uint64_t i = 0; i < flows; i += BATCH) {
        union bpf_attr attr;
        uint32_t n = flows - i < BATCH ? (uint32_t)(flows - i) : BATCH;
        for (uint32_t k = 0; k < n; k++) {
            uint64_t key = key_of(i + k);
            memcpy(keys + k * key_bytes, &key, 8);
            values[2 * k] = (i + k) % 64 + 1;
        }
        memset(&attr, 0, sizeof(attr));
        attr.batch.map_fd = (uint32_t)map;
        attr.batch.keys = (uintptr_t)keys;
        attr.batch.values = (uintptr_t)values;
        attr.batch.count = n;
        if (bpf(BPF_MAP_UPDATE_BATCH, &attr)) skip("the map takes no batch");
    }
    free(keys);
    free(values);
}

/* ---- the program ---- */

#define INSN(c, d, s, o, i)                                                                                  \
    (struct bpf_insn)                                                                                        \
    {                                                                                                        \
        .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)                                  \
    }
#define MOV(d, s)               INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOVI(d, i)              INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ALU(op, d, s)           INSN(BPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define ALUI(op, d, i)          INSN(BPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define LOAD(d, s, o)           INSN(BPF_LDX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STORE(d, s, o)          INSN(BPF_STX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STOREI(d, o, i)         INSN(BPF_ST | BPF_MEM | BPF_DW, d, 0, o, i)
#define JUMP(op, d, i, o)       INSN(BPF_JMP | (op) | BPF_K, d, 0, o, i)
#define WIDE64(d, s, low, high) INSN(BPF_LD | BPF_DW | BPF_IMM, d, s, 0, low), INSN(0, 0, 0, 0, high)

struct code {
    struct bpf_insn insn[128];
    uint32_t n;
};

static void emit(struct code *c, const struct bpf_insn *insn, size_t n)
{
    memcpy(c->insn + c->n, insn, n * sizeof(*insn));
    c->n += (uint32_t)n;
}
#define EMIT(c, ...)                                                                                         \
    emit(c, (const struct bpf_insn[]){__VA_ARGS__},                                                          \
         sizeof((const struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn))

/* r8 = key_of(r8); r1 is lost */
static void emit_key(struct code *c)
{
    EMIT(c, WIDE64(BPF_REG_1, 0, 0x7f4a7c15, (int32_t)0x9e3779b9), ALU(BPF_MUL, BPF_REG_8, BPF_REG_1),
         MOV(BPF_REG_1, BPF_REG_8), ALUI(BPF_RSH, BPF_REG_1, 32), ALU(BPF_XOR, BPF_REG_8, BPF_REG_1),
         WIDE64(BPF_REG_1, 0, 0x6659fd93, (int32_t)0xd6e8feb8), ALU(BPF_MUL, BPF_REG_8, BPF_REG_1),
         MOV(BPF_REG_1, BPF_REG_8), ALUI(BPF_RSH, BPF_REG_1, 32), ALU(BPF_XOR, BPF_REG_8, BPF_REG_1));
}

/*
 * r6: state (how many lookups there were, how many hit, the sum of the workers), r7: how many, r9: how many
 * are left. Each takes a random flow: key_of(how many) is random, its upper half times `flows` is the flow's
 * number.
 */
static struct code program(int map, int state, uint32_t key_bytes, uint64_t flows)
{
    struct code c = {.n = 0};
    EMIT(&c, WIDE64(BPF_REG_6, BPF_PSEUDO_MAP_VALUE, state, 0), LOAD(BPF_REG_7, BPF_REG_6, 0),
         MOVI(BPF_REG_9, IN_RUN));
    for (int at = -WIDE; at < 0; at += 8) EMIT(&c, STOREI(BPF_REG_10, (int16_t)at, 0));
    uint32_t loop = c.n;
    EMIT(&c, ALUI(BPF_ADD, BPF_REG_7, 1), MOV(BPF_REG_8, BPF_REG_7));
    emit_key(&c);
    EMIT(&c, ALUI(BPF_RSH, BPF_REG_8, 32), ALUI(BPF_MUL, BPF_REG_8, (int32_t)flows),
         ALUI(BPF_RSH, BPF_REG_8, 32));
    emit_key(&c);
    EMIT(&c, STORE(BPF_REG_10, BPF_REG_8, -(int16_t)key_bytes), WIDE64(BPF_REG_1, BPF_PSEUDO_MAP_FD, map, 0),
         MOV(BPF_REG_2, BPF_REG_10), ALUI(BPF_ADD, BPF_REG_2, -(int32_t)key_bytes),
         INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem), JUMP(BPF_JEQ, BPF_REG_0, 0, 7),
         LOAD(BPF_REG_1, BPF_REG_0, 0), LOAD(BPF_REG_2, BPF_REG_6, 16), ALU(BPF_ADD, BPF_REG_2, BPF_REG_1),
         STORE(BPF_REG_6, BPF_REG_2, 16), LOAD(BPF_REG_2, BPF_REG_6, 8), ALUI(BPF_ADD, BPF_REG_2, 1),
         STORE(BPF_REG_6, BPF_REG_2, 8), ALUI(BPF_SUB, BPF_REG_9, 1));
    EMIT(&c, JUMP(BPF_JNE, BPF_REG_9, 0, (int16_t)((int32_t)loop - (int32_t)c.n - 1)),
         STORE(BPF_REG_6, BPF_REG_7, 0), MOVI(BPF_REG_0, 2 /* XDP_PASS */),
         INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
    return c;
}

static int load_program(const struct code *c)
{
    static char log[1 << 20];
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.insns = (uintptr_t)c->insn;
    attr.insn_cnt = c->n;
    attr.license = (uintptr_t) "GPL";
    int fd = (int)bpf(BPF_PROG_LOAD, &attr);
    if (fd >= 0) return fd;
    attr.log_buf = (uintptr_t)log;
    attr.log_size = sizeof(log);
    attr.log_level = 1;
    if (bpf(BPF_PROG_LOAD, &attr) < 0) fprintf(stderr, "%.2000s\n", log);
    skip("the kernel loads no XDP program");
    return -1;
}

struct map_side {
    int map, state, program;
};

static struct map_side open_map(uint32_t key_bytes, uint64_t flows)
{
    struct map_side s;
    s.map = make_map(BPF_MAP_TYPE_LRU_HASH, key_bytes, 16, flows + flows / 4);
    s.state = make_map(BPF_MAP_TYPE_ARRAY, 4, 24, 1);
    fill_map(s.map, key_bytes, flows);
    struct code c = program(s.map, s.state, key_bytes, flows);
    s.program = load_program(&c);
    return s;
}

static void read_state(const struct map_side *s, uint64_t state[3])
{
    union bpf_attr attr;
    uint32_t zero = 0;
    memset(&attr, 0, sizeof(attr));
    attr.map_fd = (uint32_t)s->state;
    attr.key = (uintptr_t)&zero;
    attr.value = (uintptr_t)state;
    if (bpf(BPF_MAP_LOOKUP_ELEM, &attr)) skip("the program's results");
}

/* Million lookups a second; *hits: the part of them that found a flow. */
static double map_lookups(const struct map_side *s, double *hits)
{
    union bpf_attr attr;
    uint8_t packet[64] = {0};
    uint64_t before[3], after[3];
    read_state(s, before);
    memset(&attr, 0, sizeof(attr));
    attr.test.prog_fd = (uint32_t)s->program;
    attr.test.data_in = (uintptr_t)packet;
    attr.test.data_size_in = sizeof(packet);
    attr.test.repeat = RUNS;
    double start = bench_thread_seconds();
    if (bpf(BPF_PROG_TEST_RUN, &attr)) skip("the kernel runs no XDP program");
    double took = bench_thread_seconds() - start;
    read_state(s, after);
    *hits = (double)(after[1] - before[1]) / (double)(after[0] - before[0]);
    return (double)IN_RUN * RUNS / took / 1e6;
}

/* ---- our table ---- */

static struct gw_flow_table *open_ours(uint32_t key_bytes, uint64_t flows)
{
    struct gw_flow_table *t;
    const struct gw_flow_attr attr = {.flows = flows,
                                      .key_bytes = key_bytes,
                                      .flags = GW_FLOW_HUGE_PAGES,
                                      .timeout_ns = {UINT64_C(900000000000)}};
    if (gw_flow_create(&attr, &t)) return NULL;
    for (uint64_t i = 0; i < flows; i++) {
        uint64_t key[WIDE / 8] = {key_of(i)};
        if (gw_flow_insert(t, key, (uint32_t)(i % 64), 0, NULL)) return NULL;
    }
    return t;
}

static uint8_t *random_keys(uint32_t key_bytes, uint64_t flows)
{
    uint8_t *keys = calloc(LOOKUPS, key_bytes);
    for (uint64_t i = 0; keys && i < LOOKUPS; i++) {
        uint64_t key = key_of((key_of(i + 1) >> 32) * flows >> 32);
        memcpy(keys + i * key_bytes, &key, 8);
    }
    return keys;
}

static double our_lookups(struct gw_flow_table *t, const uint8_t *keys, uint32_t key_bytes)
{
    struct gw_flow found[BURST];
    size_t hits = 0;
    double start = bench_thread_seconds();
    for (size_t i = 0; i < LOOKUPS; i += BURST)
        hits += gw_flow_lookup_bulk(t, keys + i * key_bytes, BURST, found);
    if (hits != LOOKUPS) fprintf(stderr, "lru_bench: our table lost flows\n");
    return LOOKUPS / (bench_thread_seconds() - start) / 1e6;
}

/* ours, theirs: medians, million lookups a second. */
static int bench(uint32_t key_bytes, uint64_t flows, int rounds, double *o, double *p)
{
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], hits = 0;
    struct map_side s = open_map(key_bytes, flows);
    struct gw_flow_table *t = open_ours(key_bytes, flows);
    uint8_t *keys = random_keys(key_bytes, flows);
    if (!t || !keys) return 1;
    for (int r = 0; r < rounds; r++) {
        ours[r] = our_lookups(t, keys, key_bytes);
        theirs[r] = map_lookups(&s, &hits);
    }
    *o = bench_median(ours, rounds);
    *p = bench_median(theirs, rounds);
    printf("lookups, %.1f M flows, keys of %2u bytes: ours %7.2f M/s, BPF's LRU_HASH %6.2f M/s (%.1f %% of "
           "them hit): "
           "%.1fx\n",
           (double)flows / 1e6, key_bytes, *o, *p, 100 * hits, *o / *p);
    gw_flow_destroy(t);
    free(keys);
    close(s.program);
    close(s.map);
    close(s.state);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    uint64_t flows = argc > 2 ? strtoull(argv[2], NULL, 10) : 8000000;
    if (rounds < 1 || rounds > MAX_ROUNDS || flows < 1000 || flows > 100000000) {
        fprintf(stderr, "usage: lru_bench [ROUNDS [FLOWS]]\n");
        return 2;
    }
    setlinebuf(stdout);
    double o[2], p[2];
    if (bench(8, flows, rounds, &o[0], &p[0]) || bench(WIDE, flows, rounds, &o[1], &p[1])) return 1;
    printf("an IPv4 flow, for which our key has 8 bytes and Katran's 40: %.1fx\n", o[0] / p[1]);
    return 0;
}
