/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC's copies between two real GPUs: bytes, of every alignment, and that they are made beside kernels
 * that fill both of them. Prints what they cost, by a kernel and by an engine. Exit code 0: all passed; 1:
 * not; 77: there are not two GPUs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/cuda/device.h"
#include "tests/wire/real_cuda.h"

enum { GPUS = 2, SIZE = 8 << 20, PATIENCE_S = 5 };

static const struct gw_cuda_driver *api;
static struct gpu {
    gw_cu_ctx ctx;
    gw_cu_ptr mem;
    struct sn_cuda_region r;
    uint8_t *model;
    uint32_t *page; /* pinned */
} g[GPUS];

static int make(int i)
{
    char why[SN_CUDA_WHY] = "";
    int dev;

    if (cu.device_get(&dev, i) || cu.ctx_retain(&g[i].ctx, dev) || cu.ctx_set(g[i].ctx) ||
        cu.mem_alloc(&g[i].mem, SIZE) ||
        api->host_alloc((void **)&g[i].page, 4096, GW_CU_HOST_ALLOC_PORTABLE))
        return 0;
    g[i].model = malloc(SIZE);
    for (size_t k = 0; k < SIZE; k++) g[i].model[k] = (uint8_t)random();
    if (cu.copy_in(g[i].mem, g[i].model, SIZE)) return 0;
    if (sn_cuda_region_init(api, g[i].mem, SIZE, &g[i].r, why) == 1) return 1;
    printf("FAILED: a region: %s\n", why);
    return 0;
}

static int move(int to, uint32_t at, uint32_t from, uint32_t len)
{
    memcpy(g[to].model + at, g[!to].model + from, len);
    return sn_cuda_move(&g[to].r, g[to].mem + at, &g[!to].r, g[!to].mem + from, len);
}

static int same(void)
{
    uint8_t *got = malloc(SIZE);
    int ok = 1;

    for (int i = 0; i < GPUS; i++)
        ok &= !sn_cuda_flush(&g[i].r) && !cu.ctx_set(g[i].ctx) && !cu.copy_out(got, g[i].mem, SIZE) &&
              !memcmp(got, g[i].model, SIZE);
    free(got);
    return ok;
}

static struct sn_cuda_stats stats(int i)
{
    struct sn_cuda_stats s;

    sn_cuda_region_stats(&g[i].r, &s);
    return s;
}

/* Copies until the kernel makes them. 0: it never does. */
static int warm_up(int to)
{
    uint64_t until = now_ns() + PATIENCE_S * 1000000000ull, before = stats(to).kernel_copies;

    while (stats(to).kernel_copies == before && now_ns() < until)
        if (move(to, 0, SIZE / 2, 8) || sn_cuda_flush(&g[to].r)) return 0;
    return stats(to).kernel_copies != before;
}

static void every_alignment(void)
{
    static const uint32_t lengths[] = {1,   3,    4,    8,    16,    24,    41,    64,
                                       100, 4095, 4096, 5000, 32768, 40001, 300007};
    int bad = 0;

    for (int to = 0; to < GPUS; to++) {
        check(warm_up(to), "a GPU's kernel copies from the other GPU");
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
            for (uint32_t d = 0; d<17; d += lengths[l]> 5000 ? 5 : 1)
                for (uint32_t s = 0; s<17; s += lengths[l]> 5000 ? 5 : 1) {
                    bad |= move(to, 1024 + d, SIZE / 2 + s, lengths[l]) || sn_cuda_flush(&g[to].r);
                    /* The copy goes back elsewhere, as soon as it is there. */
                    bad |= move(!to, SIZE / 4 + s, 1024 + d, lengths[l]) || sn_cuda_flush(&g[!to].r);
                }
    }
    check(!bad && same(), "copies of every alignment, to and fro, leave what they should");
}

/* ---- beside kernels that leave no room ----------------------------------------------------------------- */

static int wait_full(int i, int blocks)
{
    uint64_t until = now_ns() + PATIENCE_S * 1000000000ull;

    while (__atomic_load_n(&g[i].page[1], __ATOMIC_ACQUIRE) != (uint32_t)blocks && now_ns() < until) continue;
    return blocks && g[i].page[1] == (uint32_t)blocks;
}

static void beside_full_gpus(void)
{
    static const uint32_t lengths[] = {8, 4096, 100001, 1 << 20};
    int ok = 1;

    for (int i = 0; i < GPUS; i++) ok &= !cu.ctx_set(g[i].ctx) && wait_full(i, real_cuda_fill(i, g[i].page));
    check(ok, "kernels fill both GPUs");
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]) && ok; l++) {
        uint64_t since = now_ns();

        for (uint32_t n = 0; n < 100 && ok; n++)
            ok = !move(n & 1, n, SIZE / 2 + n, lengths[l]) && !sn_cuda_flush(&g[n & 1].r);
        printf("measured: beside kernels that fill both GPUs: %u bytes from one to the other: %.1f us\n",
               lengths[l], (double)(now_ns() - since) / 1e3 / 100);
    }
    check(ok, "copies between them are made all the same");
    for (int i = 0; i < GPUS; i++) {
        __atomic_store_n(&g[i].page[0], 1, __ATOMIC_RELEASE);
        check(!cu.ctx_set(g[i].ctx) && !cu.sync(), "it ends");
    }
    check(same(), "and they left what they should");
}

/* ---- figures ------------------------------------------------------------------------------------------- */

enum way { KERNEL, ENGINE, HOST, WAYS };

static int copy(enum way way, uint32_t len)
{
    static uint8_t through[1 << 20];
    struct sn_cuda_device *dev = g[0].r.dev;
    int err;

    if (way == HOST)
        return sn_cuda_read(&g[1].r, g[1].mem, through, len, len, 0) ||
               sn_cuda_write(&g[0].r, g[0].mem, through, len) || sn_cuda_flush(&g[0].r);
    if (way == ENGINE)
        return sn_cuda_move(&g[0].r, g[0].mem, &g[1].r, g[1].mem, len) || sn_cuda_flush(&g[0].r);
    if (sn_cuda_enter(&g[0].r, g[0].mem, len)) return 1;
    while (!sn_cuda_kernel_ready(dev) && !dev->broken) dev->copier.not_before = 0;
    err = sn_copier_copy_peer(dev, g[0].mem, g[1].mem, g[1].ctx, len) || sn_cuda_engines(dev);
    sn_cuda_leave(dev);
    return err;
}

static void measure(void)
{
    static const uint32_t sizes[] = {8, 4096, 16384, 65536, 131072, 262144, 1048576};
    static const char *const names[] = {"by the kernel", "by an engine",
                                        "through the host's memory, by engines"};
    double us[TIMES];
    char text[100];
    int bad = 0;

    for (int way = KERNEL; way < WAYS; way++) {
        sn_copier_allow(way == KERNEL);
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            for (int i = 0; i < TIMES; i++) {
                uint64_t t = now_ns();

                bad |= copy((enum way)way, sizes[s]);
                us[i] = (double)(now_ns() - t) / 1e3;
            }
            snprintf(text, sizeof(text), "%s: %u bytes", names[way], sizes[s]);
            print_median(text, us, sizes[s]);
        }
    }
    sn_copier_allow(true);
    memcpy(g[0].model, g[1].model, 1 << 20);
    check(!bad && same(), "every copy worked");
}

/* ---- apart --------------------------------------------------------------------------------------------- */

static void apart(void)
{
    struct sn_cuda_view v;

    check(sn_cuda_move(&g[0].r, g[0].mem, &g[1].r, g[1].mem, 8) == -EXDEV, "GPUs without peer access say so");
    check(sn_cuda_introspect(0, &v) && strstr(v.peers, "through the host's memory"), "and it is told of");
}

int main(void)
{
    int n = 0, can = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!real_cuda_find() || cu.device_count(&n) || n < GPUS) {
        printf("skipped: this takes two GPUs\n");
        return 77;
    }
    api = gw_cuda_driver_loaded();
    for (int i = 0; i < GPUS; i++) {
        if (api && make(i)) continue;
        printf("FAILED: memory of GPU %d\n", i);
        return 1;
    }
    cu.can_access_peer(&can, 0, 1);
    if (can) {
        every_alignment();
        measure();
        beside_full_gpus();
    } else {
        apart();
    }
    for (int i = 0; i < GPUS; i++) sn_cuda_region_fini(&g[i].r);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
