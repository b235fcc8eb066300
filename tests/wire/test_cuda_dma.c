/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC's DMA to a real GPU's memory, through its copy engines, also while a kernel runs that never ends.
 * That kernel sees a message's bytes when the message is announced, and the NIC reads the bytes that the
 * kernel wrote. Prints what it costs. Exit code 0: all passed; 1: not; 77: there is no GPU. The kernel is PTX
 * text, so nothing but the driver is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/cuda/cuda.h"
#include "tests/wire/real_cuda.h"

/*
 * One thread. Waits until *flag changes (system scope, acquire); 0xffffffff ends it. Otherwise it adds up
 * `words` words at data, and stores the sum + flag to each of the `words` words after them. Then it releases
 * flag<<32 | sum to *out.
 */
static const char ptx[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry answer(.param .u64 pflag, .param .u64 pout, .param .u64 pdata, .param .u32 pwords)\n"
    "{\n"
    " .reg .pred %p<4>;\n .reg .b32 %r<10>;\n .reg .b64 %rd<12>;\n"
    " ld.param.u64 %rd1, [pflag];\n ld.param.u64 %rd2, [pout];\n"
    " ld.param.u64 %rd3, [pdata];\n ld.param.u32 %r1, [pwords];\n"
    " mov.u32 %r2, 0;\n"
    "WAIT:\n"
    " ld.acquire.sys.b32 %r3, [%rd1];\n"
    " setp.eq.u32 %p1, %r3, %r2;\n @%p1 bra WAIT;\n"
    " setp.eq.u32 %p2, %r3, 0xffffffff;\n @%p2 bra END;\n"
    " mov.u32 %r2, %r3;\n mov.u32 %r4, 0;\n mov.u32 %r5, 0;\n mov.u64 %rd4, %rd3;\n"
    "SUM:\n"
    " ld.u32 %r6, [%rd4];\n add.u32 %r4, %r4, %r6;\n add.u64 %rd4, %rd4, 4;\n"
    " add.u32 %r5, %r5, 1;\n setp.lt.u32 %p3, %r5, %r1;\n @%p3 bra SUM;\n"
    " mov.u32 %r5, 0;\n add.u32 %r7, %r4, %r3;\n"
    "STORE:\n"
    " st.u32 [%rd4], %r7;\n add.u64 %rd4, %rd4, 4;\n"
    " add.u32 %r5, %r5, 1;\n setp.lt.u32 %p3, %r5, %r1;\n @%p3 bra STORE;\n"
    " cvt.u64.u32 %rd5, %r3;\n shl.b64 %rd5, %rd5, 32;\n cvt.u64.u32 %rd6, %r4;\n"
    " or.b64 %rd5, %rd5, %rd6;\n"
    " fence.acq_rel.sys;\n st.relaxed.sys.b64 [%rd2], %rd5;\n"
    " bra WAIT;\n"
    "END:\n ret;\n}\n";

enum { WORDS = 256, SIZE = 8 << 20 };

static const struct gw_cuda_driver *api;

/* ---- without a kernel ---------------------------------------------------------------------------------- */

static void recognises_memory(gw_cu_ptr gpu)
{
    static uint8_t host[4096];
    struct sn_cuda_region r;
    char why[SN_CUDA_WHY] = "";
    void *pinned;
    gw_cu_ptr managed;

    check(sn_cuda_region_init(api, (uintptr_t)host, sizeof(host), &r, why) == 0,
          "pageable memory is host memory");
    check(api->host_alloc(&pinned, 4096, 0) == 0 &&
              sn_cuda_region_init(api, (uintptr_t)pinned, 4096, &r, why) == 0,
          "pinned memory is host memory");
    check(sn_cuda_region_init(api, gpu, SIZE, &r, why) == 1, "GPU memory is recognised");
    sn_cuda_region_fini(&r);
    if (cu.mem_alloc_managed(&managed, 4096, 1) == 0) {
        int rc = sn_cuda_region_init(api, managed, 4096, &r, why);

        check(rc < 0 && strstr(why, "managed"), "managed memory is refused with a reason");
        cu.mem_free(managed);
    }
    (void)pinned; /* freeing it could wait for the kernel below; the process's end does it */
}

static void random_operations(struct sn_cuda_region *r)
{
    uint8_t *model = calloc(1, SIZE), *got = malloc(SIZE), *source = malloc(SIZE);
    int bad = 0;

    srandom(42);
    for (size_t i = 0; i < SIZE; i++) source[i] = (uint8_t)random();
    bad |= cu.memset8(r->addr, 0, SIZE) || cu.sync();
    for (int op = 0; op < 5000 && !bad; op++) {
        uint32_t len = (uint32_t)random() % (random() % 50 ? 5000 : 600000),
                 at = (uint32_t)random() % (SIZE - len);

        switch (random() % 8) {
        case 0: bad |= sn_cuda_flush(r) != 0; break;
        case 1:
            bad |= sn_cuda_read(r, r->addr + at, got, len, len + 20000, (uint64_t)op + 1) != 0;
            bad |= memcmp(got, model + at, len) != 0;
            break;
        default:
            bad |= sn_cuda_write(r, r->addr + at, source + (op & 4095), len) != 0;
            memcpy(model + at, source + (op & 4095), len);
        }
    }
    bad |= sn_cuda_flush(r) != 0 || cu.copy_out(got, r->addr, SIZE) || memcmp(got, model, SIZE) != 0;
    check(!bad, "5000 random writes, reads and flushes leave what they should (seed 42)");
    free(model);
    free(got);
    free(source);
}

static void measure(struct sn_cuda_region *r, const char *when)
{
    static const uint32_t sizes[] = {64, 4096, 200704, 1806336};
    static uint8_t packet[4096];
    double us[TIMES];
    char what[80];
    int bad = 0;

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int i = 0; i < TIMES; i++) {
            uint64_t t = now_ns();

            for (uint32_t at = 0; at < sizes[s]; at += 4096) {
                bad |= sn_cuda_write(r, r->addr + at, packet, sizes[s] - at < 4096 ? sizes[s] - at : 4096);
            }
            bad |= sn_cuda_flush(r);
            us[i] = (double)(now_ns() - t) / 1e3;
        }
        snprintf(what, sizeof(what), "%s: %u bytes in packets, flush", when, sizes[s]);
        print_median(what, us, sizes[s]);
        for (int i = 0; i < TIMES; i++) {
            uint64_t t = now_ns();

            for (uint32_t at = 0; at < sizes[s]; at += 4096) {
                bad |= sn_cuda_read(r, r->addr + at, packet, sizes[s] - at < 4096 ? sizes[s] - at : 4096,
                                    sizes[s] - at, t | 1);
            }
            us[i] = (double)(now_ns() - t) / 1e3;
        }
        snprintf(what, sizeof(what), "%s: %u bytes read in packets", when, sizes[s]);
        print_median(what, us, sizes[s]);
    }
    check(!bad, "every copy worked");
}

/* ---- with a kernel that does not end ------------------------------------------------------------------- */

struct page {
    uint32_t flag;
    uint32_t pad[15];
    uint64_t out;
};

/* Announces number n and waits for the kernel's answer; 0 when it does not come. */
static uint64_t ask(struct page *page, uint32_t n)
{
    uint64_t deadline = now_ns() + 60000000000u, out;

    /* Release: the flush before it is done when the kernel sees the number. */
    __atomic_store_n(&page->flag, n, __ATOMIC_RELEASE);
    do out = __atomic_load_n(&page->out, __ATOMIC_ACQUIRE);
    while (out >> 32 != n && now_ns() < deadline);
    return out >> 32 == n ? out : 0;
}

static void exchange(struct sn_cuda_region *r, struct page *page)
{
    uint32_t data[WORDS], back[WORDS], sum;
    int unseen = 0, unread = 0, n;

    for (n = 1; n <= 2000; n++) {
        sum = 0;
        for (uint32_t i = 0; i < WORDS; i++) sum += data[i] = (uint32_t)random();
        for (uint32_t at = 0; at < sizeof(data); at += 256) { /* as packets do, in four pieces */
            unseen += sn_cuda_write(r, r->addr + at, (uint8_t *)data + at, 256) != 0;
        }
        unseen += sn_cuda_flush(r) != 0;
        uint64_t out = ask(page, (uint32_t)n);
        if (!out) break;
        unseen += (uint32_t)out != sum;
        unread += sn_cuda_read(r, r->addr + sizeof(data), back, sizeof(back), sizeof(back), (uint64_t)n) != 0;
        for (uint32_t i = 0; i < WORDS; i++) unread += back[i] != sum + (uint32_t)n;
    }
    check(n > 2000, "the resident kernel answers 2000 times while copies are made");
    check(!unseen, "it saw every message whole when it was announced");
    check(!unread, "every answer was read as it wrote it");
}

static void with_a_resident_kernel(gw_cu_ptr gpu)
{
    struct sn_cuda_region r, late;
    struct page *page;
    void *kernel = real_cuda_kernel(ptx, "answer"), *args[4];
    uint32_t words = WORDS;
    char why[SN_CUDA_WHY];

    if (!kernel || api->host_alloc((void **)&page, sizeof(*page), 0) ||
        sn_cuda_region_init(api, gpu, SIZE, &r, why) != 1) {
        check(0, "memory beside a kernel");
        return;
    }
    memset(page, 0, sizeof(*page));
    args[0] = &page; /* pinned memory has the same address on the GPU */
    args[1] = &(uint64_t *){&page->out};
    args[2] = &gpu;
    args[3] = &words;
    check(cu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL) == 0,
          "a kernel that waits in the default stream");
    exchange(&r, page);
    measure(&r, "beside a kernel");
    check(sn_cuda_region_init(api, gpu + 4096, 4096, &late, why) == 1,
          "a region of a known context is made beside it");
    sn_cuda_region_fini(&late);
    __atomic_store_n(&page->flag, 0xffffffff, __ATOMIC_RELEASE);
    check(cu.sync() == 0, "the kernel ends when told");
    sn_cuda_region_fini(&r);
}

int main(void)
{
    struct sn_cuda_region r;
    char why[SN_CUDA_WHY] = "";
    gw_cu_ptr gpu;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!real_cuda_find()) {
        printf("no GPU: skipped\n");
        return 77;
    }
    api = gw_cuda_driver_loaded();
    check(api != NULL, "the driver has every call that the NIC needs");
    if (!api || cu.mem_alloc(&gpu, SIZE)) return 1;
    recognises_memory(gpu);
    if (sn_cuda_region_init(api, gpu, SIZE, &r, why) != 1) {
        printf("FAILED: a region: %s\n", why);
        return 1;
    }
    random_operations(&r);
    measure(&r, "alone");
    sn_cuda_region_fini(&r);
    with_a_resident_kernel(gpu);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
