/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy kernel on a real GPU: bytes, and the order in which another kernel sees them. No wait for it is
 * long. And the fate of copies when it cannot run, or the GPU is lost. Prints what copies cost with and
 * without it. Exit code 0: all passed; 1: not; 77: there is no GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softnic/cuda/copier.h"
#include "softnic/cuda/cuda.h"
#include "tests/wire/real_cuda.h"

/*
 * watch: one thread. Waits until *flag changes (acquire); 0xffffffff ends it. Otherwise it counts those of
 * `count` words, 4 * stride bytes apart, that differ from the flag's value. It stores flag << 32 | that to
 * *out.
 * fault: an access to nowhere.
 */
static const char ptx[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry watch(.param .u64 pflag, .param .u64 pdata, .param .u32 pcount, .param .u32 pstride, "
    ".param .u64 pout)\n{\n"
    " .reg .pred %p<4>;\n .reg .b32 %r<10>;\n .reg .b64 %rd<10>;\n"
    " ld.param.u64 %rd1, [pflag];\n ld.param.u64 %rd2, [pdata];\n ld.param.u64 %rd3, [pout];\n"
    " ld.param.u32 %r1, [pcount];\n ld.param.u32 %r2, [pstride];\n mul.wide.u32 %rd4, %r2, 4;\n"
    " mov.u32 %r3, 0;\n"
    "WAIT:\n ld.acquire.sys.u32 %r4, [%rd1];\n setp.eq.u32 %p1, %r4, %r3;\n @%p1 bra WAIT;\n"
    " setp.eq.u32 %p1, %r4, 0xffffffff;\n @%p1 bra END;\n"
    " mov.u32 %r3, %r4;\n mov.u32 %r5, 0;\n mov.u32 %r6, 0;\n mov.u64 %rd5, %rd2;\n"
    "LOOK:\n ld.u32 %r7, [%rd5];\n setp.ne.u32 %p2, %r7, %r4;\n @%p2 add.u32 %r6, %r6, 1;\n"
    " add.u64 %rd5, %rd5, %rd4;\n add.u32 %r5, %r5, 1;\n setp.lt.u32 %p3, %r5, %r1;\n @%p3 bra LOOK;\n"
    " mov.b64 %rd6, {%r6, %r4};\n fence.acq_rel.sys;\n st.relaxed.sys.u64 [%rd3], %rd6;\n bra WAIT;\n"
    "END:\n ret;\n}\n"
    ".visible .entry fault()\n{\n .reg .b64 %rd<2>;\n mov.u64 %rd1, 8;\n st.global.u32 [%rd1], 1;\n "
    "ret;\n}\n";

enum { SIZE = 8 << 20, HALF = SIZE / 2, PATIENCE_S = 5 };

static const struct gw_cuda_driver *api;
static gw_cu_ptr gpu;
static struct sn_cuda_region r;

static struct sn_cuda_stats stats(void)
{
    struct sn_cuda_stats s;

    sn_cuda_region_stats(&r, &s);
    return s;
}

/* Copies until the kernel makes them. 0: it never does. */
static int warm_up(void)
{
    uint64_t until = now_ns() + PATIENCE_S * 1000000000ull, before = stats().kernel_copies;

    while (stats().kernel_copies == before && now_ns() < until)
        if (sn_cuda_move(&r, gpu, &r, gpu + HALF, 8) || sn_cuda_flush(&r)) return 0;
    return stats().kernel_copies != before;
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

static void every_alignment(void)
{
    static const uint32_t lengths[] = {1,  2,  3,  4,   7,    8,    12,   15,    16,    24,    39,
                                       40, 41, 64, 100, 4095, 4096, 5000, 32768, 40001, 300007};
    uint8_t *model = malloc(SIZE), *got = malloc(SIZE);
    int bad = 0;

    for (size_t i = 0; i < SIZE; i++) model[i] = (uint8_t)random();
    bad |= cu.copy_in(gpu, model, SIZE);
    warm_up();
    memcpy(model, model + HALF, 8);
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        uint32_t len = lengths[l];

        for (uint32_t d = 0; d < 17; d++) {
            for (uint32_t s = 0; s<17; s += len> 5000 ? 5 : 1) {
                uint32_t to = 1024 + d, from = HALF + 1024 + s;

                bad |= sn_cuda_move(&r, gpu + to, &r, gpu + from, len);
                memcpy(model + to, model + from, len);
                bad |= sn_cuda_write(&r, gpu + from, model + to + 3, len / 2);
                memcpy(model + from, model + to + 3, len / 2);
                bad |= sn_cuda_read(&r, gpu + from, got, len, len, 0) || memcmp(got, model + from, len);
            }
        }
        bad |= sn_cuda_flush(&r) != 0;
        if (bad) printf("at length %u\n", len);
        if (bad) break;
    }
    bad |= cu.copy_out(got, gpu, SIZE) || memcmp(got, model, SIZE);
    check(!bad, "moves, writes and reads of every alignment leave what they should");
    free(model);
    free(got);
}

/* ---- order --------------------------------------------------------------------------------------------- */

enum { DATA = 64 << 10, FLAG = 1 << 20, AWAY = HALF };

static int answered(const uint64_t *out, uint32_t n, int *bad)
{
    uint64_t until = now_ns() + PATIENCE_S * 1000000000ull, got;

    do got = __atomic_load_n(out, __ATOMIC_ACQUIRE);
    while (got >> 32 != n && now_ns() < until);
    *bad += (uint32_t)got != 0;
    return got >> 32 == n;
}

/* Data, then the flag: the watching kernel looks at the data the moment it sees the flag. */
static void watched(const char *what, int moves, uint32_t len, uint32_t rounds)
{
    static uint32_t words[DATA / 4];
    uint32_t count = len / 4 < 128 ? len / 4 : 128, stride = len / 4 / count, n = 0;
    void *kernel = real_cuda_kernel(ptx, "watch");
    gw_cu_ptr flag = gpu + FLAG, data = gpu;
    uint64_t *out, before;
    int bad = 0, ok = 1;

    if (!kernel || api->host_alloc((void **)&out, sizeof(*out), 0)) return;
    *out = 0;
    cu.memset8(flag, 0, 4);
    cu.memset8(data, 0, len);
    cu.sync();
    void *args[] = {&flag, &data, &count, &stride, &out};
    ok = !cu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    before = stats().kernel_copies;
    for (n = 1; ok && n <= rounds; n++) {
        for (uint32_t i = 0; i < len / 4; i++) words[i] = n;
        if (moves) {
            ok = !sn_cuda_write(&r, gpu + AWAY, words, len) && !sn_cuda_flush(&r) &&
                 !sn_cuda_move(&r, data, &r, gpu + AWAY, len) && !sn_cuda_move(&r, flag, &r, gpu + AWAY, 4);
        } else {
            ok = !sn_cuda_write(&r, data, words, len);
            sn_cuda_order(&r);
            ok = ok && !sn_cuda_write(&r, flag, words, 4);
        }
        ok = ok && !sn_cuda_flush(&r) && answered(out, n, &bad);
    }
    words[0] = 0xffffffff;
    ok = !sn_cuda_write(&r, flag, words, 4) && !sn_cuda_flush(&r) && ok && !cu.sync();
    printf("%u rounds, %d wrong words, %llu copies by the kernel\n", n - 1, bad,
           (unsigned long long)(stats().kernel_copies - before));
    /* After an engine's copy that is under way comes another engine's. */
    check(ok && !bad && (stats().kernel_copies - before > rounds || (!moves && len > 32768)), what);
}

static void order(void)
{
    watched("a kernel that sees the flag sees 40 bytes written before it", 0, 40, 5000);
    watched("a kernel that sees the flag sees 4 KiB written before it", 0, 4096, 5000);
    watched("a kernel that sees the flag sees 64 KiB written by an engine before it", 0, DATA, 1000);
    watched("a kernel that sees the flag sees 256 bytes moved before it", 1, 256, 5000);
    watched("a kernel that sees the flag sees 64 KiB moved before it", 1, DATA, 2000);
}

/* ---- no long waits ------------------------------------------------------------------------------------- */

static uint32_t *page; /* pinned: what kernels that fill the GPU look at, and their blocks that have begun */

/* A write, a copy and a read, again and again, and what they bring. */
static int rounds(const char *with)
{
    enum { ROUNDS = 1000 };
    uint8_t got[100], want[100];
    uint64_t since = now_ns(), before = stats().kernel_copies;
    int ok = 1;

    for (uint32_t i = 0; i < ROUNDS && ok; i++) {
        memset(want, (int)i, sizeof(want));
        ok = !sn_cuda_write(&r, gpu + 500, want, 100) && !sn_cuda_flush(&r) &&
             !sn_cuda_move(&r, gpu + 10000, &r, gpu + 500, 100) &&
             !sn_cuda_read(&r, gpu + 10000, got, 100, 100, 0) && !memcmp(got, want, 100);
    }
    printf("a write, a copy and a read beside a full GPU, %s: %.1f us, %llu by the kernel\n", with,
           (double)(now_ns() - since) / 1e3 / ROUNDS, (unsigned long long)(stats().kernel_copies - before));
    return ok;
}

static void beside_a_full_gpu(void)
{
    uint64_t since;
    int blocks, ok = 1;

    /* Copies go on all the while, so the copy kernel never idles: its place becomes free all the same. */
    warm_up();
    blocks = real_cuda_fill(0, page);
    since = now_ns();
    while (__atomic_load_n(&page[1], __ATOMIC_RELAXED) != (uint32_t)blocks &&
           now_ns() - since < 5000000000u && ok)
        ok = !sn_cuda_move(&r, gpu, &r, gpu + HALF, 4096) && !sn_cuda_flush(&r);
    printf("%u of %d blocks run after %.1f ms of copies\n", page[1], blocks,
           (double)(now_ns() - since) / 1e6);
    check(ok && blocks && page[1] == (uint32_t)blocks,
          "a kernel that needs the whole GPU gets it from the copy kernel");
    ok = rounds("a copy kernel waiting");
    sn_copier_allow(false);
    ok &= rounds("engines alone");
    sn_copier_allow(true);
    check(ok, "copies are made beside a kernel that leaves no place for the copy kernel");
    __atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
    check(!cu.sync(), "and it ends");
    check(warm_up(), "then the copy kernel is back");
}

static void ends_by_itself(void)
{
    uint64_t since;

    check(warm_up(), "the copy kernel runs");
    since = now_ns();
    check(!cu.sync(), "the context's work ends");
    printf("cuCtxSynchronize after the last copy: %.2f ms\n", (double)(now_ns() - since) / 1e6);
    check(now_ns() - since < 1000000000u, "because the copy kernel does, by itself");
    check(warm_up(), "and begins again");
}

/* ---- figures ------------------------------------------------------------------------------------------- */

enum what { MOVE, WRITE, READ, MOVES };

static int one(enum what what, uint32_t len, uint8_t *host)
{
    int bad = 0;

    if (what == READ) return sn_cuda_read(&r, gpu, host, len, len, 0);
    if (what == WRITE) return sn_cuda_write(&r, gpu, host, len) || sn_cuda_flush(&r);
    for (int i = 0; i < (what == MOVES ? 16 : 1); i++)
        bad |=
            sn_cuda_move(&r, gpu + (uint64_t)i * (64 << 10), &r, gpu + HALF + (uint64_t)i * (64 << 10), len);
    return bad || sn_cuda_flush(&r);
}

static void measure(const char *by)
{
    static const uint32_t sizes[] = {8, 64, 1024, 4096, 16384, 32768, 65536, 262144, 1048576};
    static const char *const names[] = {"copy within the GPU", "write", "read", "16 copies within the GPU"};
    static uint8_t host[1 << 20];
    double us[TIMES];
    char text[100];
    int bad = 0;

    for (int what = MOVE; what <= MOVES; what++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && (what != MOVES || sizes[s] <= 65536);
             s++) {
            for (int i = 0; i < TIMES; i++) {
                uint64_t t = now_ns();

                bad |= one((enum what)what, sizes[s], host);
                us[i] = (double)(now_ns() - t) / 1e3;
            }
            snprintf(text, sizeof(text), "%s: %s, %u bytes", by, names[what], sizes[s]);
            print_median(text, us, sizes[s] * (what == MOVES ? 16.0 : 1.0));
        }
    }
    check(!bad, "every copy worked");
}

/* ---- a GPU that is lost -------------------------------------------------------------------------------- */

static void lost(void)
{
    void *kernel = real_cuda_kernel(ptx, "fault");
    uint64_t since = now_ns();
    int err = 0, after;

    warm_up();
    if (!kernel || cu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)) return;
    while (!err && now_ns() - since < 20000000000u)
        err = sn_cuda_move(&r, gpu, &r, gpu + HALF, 4096) | sn_cuda_flush(&r);
    printf("after a fault of another kernel: error %d after %.1f ms\n", err,
           (double)(now_ns() - since) / 1e6);
    after = sn_cuda_flush(&r);
    check(err < 0 && after < 0, "copies fail, and nothing hangs, when the context is lost");
}

int main(void)
{
    char why[SN_CUDA_WHY] = "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!real_cuda_find()) {
        printf("no GPU: skipped\n");
        return 77;
    }
    api = gw_cuda_driver_loaded();
    if (!api || cu.mem_alloc(&gpu, SIZE) || sn_cuda_region_init(api, gpu, SIZE, &r, why) != 1 ||
        api->host_alloc((void **)&page, 4096, 0)) {
        printf("FAILED: a region: %s\n", why);
        return 1;
    }
    check(warm_up(), "the copy kernel begins to work");
    every_alignment();
    measure("kernel");
    sn_copier_allow(false);
    measure("engines");
    sn_copier_allow(true);
    order();
    beside_a_full_gpu();
    ends_by_itself();
    printf("launches %llu, slow %llu\n", (unsigned long long)stats().launches,
           (unsigned long long)stats().slow);
    lost();
    sn_cuda_region_fini(&r);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
