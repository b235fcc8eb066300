/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mm_tile against a reference in double, for all types and many sizes: random numbers within the error that
 * product.h promises, whole numbers exactly, and special values.
 *
 *     test_product [--exec cpu|gpu] [--lanes N]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/exec.h>

#include "../product.h"

#include "../pattern.h"

GW_KERNEL_DECLARE(product_kernel);

struct product_args {
    struct mm_product product;
};

static const char *which = "cpu";
static uint32_t lanes = 1, rng = 1;

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "test_product: %s: %s\n", what, gw_last_error());
    exit(1);
}

/* From -1 to 1. */
static float product_random(void)
{
    rng = rng * 1664525u + 1013904223u;
    return (float)(rng >> 8) / (float)(1 << 23) - 1;
}

/* The nearest binary16, of numbers that are not subnormal there; and the number it is. */
static uint16_t product_to_half(float f, float *back)
{
    int e;
    float m = frexpf(fabsf(f), &e), size = ldexpf(rintf(ldexpf(m, 11)), e - 11);

    if (size < 0x1p-14f) {
        *back = 0;
        return 0;
    }
    *back = copysignf(size, f);
    m = frexpf(size, &e);
    return (uint16_t)((f < 0 ? 0x8000 : 0) | ((uint32_t)(e + 14) << 10) | ((uint32_t)ldexpf(m, 11) & 1023));
}

struct product_side {
    struct gw_exec *exec;
    struct gw_mem mem;
    uint8_t *host; /* A, B and C */
    float *a, *b;  /* the factors, as fp32 */
};

/* Fills a factor; its values as fp32 go to `value`. */
static void product_fill(void *factor, float *value, uint32_t type, uint32_t n, int whole)
{
    for (uint32_t i = 0; i < n * n; i++) {
        float f = whole ? (float)mm_pattern((uint32_t)whole, i) : product_random();

        if (type == MM_FP16)
            ((uint16_t *)factor)[i] = product_to_half(f, &f);
        else
            ((float *)factor)[i] = f;
        value[i] = f;
    }
}

/* What product.h allows an element to differ by. */
static double product_allowed(uint32_t type, uint32_t n, double sizes)
{
    return sizes * (n * 0x1p-22 + (type == MM_TF32 ? 0x1p-10 : 0));
}

static void product_compare(const struct product_side *s, const float *c, uint32_t type, uint32_t n,
                            int whole)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            double sum = 0, sizes = 0, got = c[i * n + j];

            for (uint32_t k = 0; k < n; k++) {
                double x = (double)s->a[i * n + k] * s->b[k * n + j];

                sum += x;
                sizes += fabs(x);
            }
            if (fabs(got - sum) <= (whole ? 0 : product_allowed(type, n, sizes))) continue;
            fprintf(stderr, "test_product: %s, %u x %u, type %u, row %u, column %u: %.9g, expected %.9g\n",
                    which, n, n, type, i, j, got, sum);
            exit(1);
        }
    }
}

static void product_run(struct product_side *s, uint32_t type, uint32_t n)
{
    uint64_t in = mm_in_bytes(type, n), all = in + mm_out_bytes(n);
    uint8_t *dev = s->mem.dev;
    struct product_args args = {{dev, dev + in / 2, (float *)(dev + in), n, type}};

    memset(s->host + in, 0xa5, mm_out_bytes(n));
    must(!gw_copy_in(s->exec, dev, s->host, all), "copy");
    must(!gw_launch(s->exec, &product_kernel, 2, 256, &args), "launch");
    must(!gw_exec_sync(s->exec, gw_deadline(60000000000u)), "kernel");
    must(!gw_copy_out(s->exec, s->host + in, dev + in, mm_out_bytes(n)), "copy");
}

static void product_check(struct product_side *s, uint32_t type, uint32_t n, int whole)
{
    uint64_t in = mm_in_bytes(type, n);

    product_fill(s->host, s->a, type, n, whole);
    product_fill(s->host + in / 2, s->b, type, n, whole ? whole + 1 : 0);
    product_run(s, type, n);
    product_compare(s, (const float *)(s->host + in), type, n, whole);
}

/* Infinities, no numbers, and binary16's subnormals, which are products of their own with 1. */
static void product_check_special(struct product_side *s, uint32_t type)
{
    static const uint16_t half[] = {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x83ff, 0x0400, 0x7bff, 0x8000};
    static const float single[] = {INFINITY, -INFINITY, NAN, 0x1p-24f, -0x1.ff8p-15f, 0x1p-14f, 65504, -0.0f};
    const uint32_t n = 16;
    uint64_t in = mm_in_bytes(type, n);
    const float *c = (const float *)(s->host + in);

    memset(s->host, 0, in);
    for (uint32_t i = 0; i < 8; i++) { /* a diagonal of A, and B is the identity */
        if (type == MM_FP16)
            ((uint16_t *)s->host)[i * n + i] = half[i];
        else
            ((float *)s->host)[i * n + i] = single[i];
        mm_put(s->host + in / 2, type, i * n + i, 1);
    }
    product_run(s, type, n);
    for (uint32_t i = 0; i < 8; i++) {
        float got = c[i * n + i];

        if (got == single[i] || (isnan(got) && isnan(single[i]))) continue;
        fprintf(stderr, "test_product: type %u: %g became %g\n", type, single[i], got);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {16, 32, 48, 64, 80, 112, 128, 144, 192, 208, 256};
    struct gw_exec_opts opts = {0};
    struct product_side s = {0};
    uint64_t most = 3 * 4 * 256 * 256;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--exec")) which = argv[i + 1];
        if (!strcmp(argv[i], "--lanes")) lanes = (uint32_t)atoi(argv[i + 1]);
    }
    opts.lanes = lanes;
    must(!gw_exec_create(which, &opts, &s.exec), "executor");
    must(!gw_mem_alloc(s.exec, GW_MEM_DEVICE, most, &s.mem), "memory");
    s.host = malloc(most);
    s.a = malloc(most);
    s.b = malloc(most);
    must(s.host && s.a && s.b, "memory");
    for (uint32_t type = MM_FP32; type <= MM_FP16; type++) {
        for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            product_check(&s, type, sizes[i], 0);
            product_check(&s, type, sizes[i], 1);
        }
        product_check_special(&s, type);
    }
    gw_mem_free(&s.mem);
    must(!gw_exec_destroy(s.exec), "executor");
    free(s.host);
    free(s.a);
    free(s.b);
    printf("test_product: all types and sizes are right on %s, %u lanes\n", which, lanes);
    return 0;
}
