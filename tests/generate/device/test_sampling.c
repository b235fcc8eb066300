/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling kernel beside a plain calculation in doubles, with blocks of several sizes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/generate/device/device.h"
#include "src/generate/device/random.h"
#include "tests/rnd.h"

enum { LANES = 64, BLOCKS = 4 };
static const uint32_t block[BLOCKS] = {1, 4, 32, 128};

static struct gw_exec *exec;
static struct gen_args args;
static void *host, *dev;
static struct rnd rnd = {12345};

static void place(uint32_t vocab)
{
    struct gen_device_shape s = {.sessions = 1,
                                 .slots = 1,
                                 .depth = 1,
                                 .requests = LANES,
                                 .lanes = LANES,
                                 .pages = 1,
                                 .context = 64,
                                 .vocab = vocab,
                                 .size = {LANES},
                                 .sizes = 1};
    struct gen_device_bytes bytes;
    struct gen_step step;
    assert_int_equal(gen_device_bytes(&s, &bytes), 0);
    host = aligned_alloc(64, bytes.host);
    dev = aligned_alloc(64, bytes.dev);
    memset(host, 0, bytes.host);
    memset(dev, 0, bytes.dev);
    gen_device_place(&s, host, dev, &args, &step);
    *args.step = step;
    args.logits = calloc((size_t)LANES * vocab, sizeof(float));
    for (uint32_t i = 0; i < LANES; i++) {
        args.work->out[i] = i;
        args.lane[i].job = i + 1;
        args.job[i] = (struct gen_job){.prompt = 4, .top_p = 1, .repetition = 1, .seed = 99};
    }
}

static void unplace(void)
{
    free(args.logits);
    free(host);
    free(dev);
}

/* Samples the first n rows with that number of threads. */
static void sample(uint32_t n, uint32_t threads)
{
    args.work->outs = n;
    assert_int_equal(gw_launch(exec, &gen_sampling, n, threads, &args), 0);
    assert_int_equal(gw_exec_sync(exec, GW_NEVER), 0);
}

static float *logit_of(uint32_t lane)
{
    return args.logits + (size_t)lane * args.vocab;
}

/* ---- the plain calculation ---- */

struct plain {
    uint32_t vocab;
    double logprob[4096]; /* of the logits as they are */
    double chance[4096];  /* after all cuts */
    uint32_t order[4096]; /* the most likely first */
};

static const float *plain_logit;
static int likelier(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    if (plain_logit[a] != plain_logit[b]) return plain_logit[a] < plain_logit[b] ? 1 : -1;
    return a < b ? -1 : a > b;
}

static void plain_chances(struct plain *p, const float *logit, const struct gen_job *j)
{
    double all = 0, sum = 0, cut = 0, kept = 0, most = logit[p->order[0]];
    uint32_t k = j->top_k && j->top_k < p->vocab ? j->top_k : p->vocab;
    for (uint32_t i = 0; i < p->vocab; i++) all += exp(logit[i] - most);
    for (uint32_t i = 0; i < p->vocab; i++) {
        p->logprob[i] = logit[i] - most - log(all);
        p->chance[i] = 0;
    }
    for (uint32_t i = 0; i < k; i++) sum += exp((logit[p->order[i]] - most) / j->temperature);
    for (uint32_t i = 0; i < k && cut < j->top_p * sum; i++) {
        double w = exp((logit[p->order[i]] - most) / j->temperature);
        cut += w;
        if (w < j->min_p) continue;
        p->chance[p->order[i]] = w;
        kept += w;
    }
    for (uint32_t i = 0; i < p->vocab; i++) p->chance[i] /= kept;
}

static void plain_make(struct plain *p, uint32_t vocab, const float *logit, const struct gen_job *j)
{
    p->vocab = vocab;
    for (uint32_t i = 0; i < vocab; i++) p->order[i] = i;
    plain_logit = logit;
    qsort(p->order, vocab, sizeof(*p->order), likelier);
    plain_chances(p, logit, j);
}

/* ---- tests ---- */

/* Philox4x32-10 of zeros, as Random123 prints it. */
static void random_numbers_are_philox(void **state)
{
    (void)state;
    assert_int_equal(gen_random(0, 0), 0x6627e8d5e169c58d);
    assert_int_equal(gen_random_below(UINT64_MAX, 1000), 999);
    assert_int_equal(gen_random_below(UINT64_C(1) << 63, 1000), 500);
    assert_int_equal(gen_random_below(UINT64_C(3) << 62, UINT64_C(1) << 60), UINT64_C(3) << 58);
}

static void greedy_takes_the_first_of_the_largest(void **state)
{
    (void)state;
    place(1000);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t t = 0; t < 1000; t++) logit_of(0)[t] = t % 7 == 3 ? 2.5f : -1.0f * (float)(t % 5);
        for (uint32_t t = 0; t < 1000; t++) logit_of(1)[t] = -30.0f - (float)t;
        for (uint32_t t = 0; t < 1000; t++) logit_of(2)[t] = t % 2 ? -0.0f : t ? 0.0f : -1;
        for (uint32_t t = 0; t < 1000; t++) logit_of(3)[t] = t == 700 ? -5 : -INFINITY;
        sample(4, block[b]);
        assert_int_equal(args.sample[0].token, 3);
        assert_int_equal(args.sample[1].token, 0);
        assert_int_equal(args.sample[2].token, 1);
        assert_int_equal(args.sample[3].token, 700);
        assert_float_equal(args.sample[3].logprob, 0, 1e-6);
        for (uint32_t i = 0; i < 4; i++) assert_int_equal(args.sample[i].failed, 0);
    }
    unplace();
}

static void what_is_no_number_fails_its_row_alone(void **state)
{
    (void)state;
    place(500);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t i = 0; i < 6; i++)
            for (uint32_t t = 0; t < 500; t++) logit_of(i)[t] = i == 5 ? -INFINITY : (float)(t % 90);
        logit_of(0)[499] = NAN;
        logit_of(1)[3] = INFINITY;
        logit_of(2)[7] = -NAN;
        logit_of(4)[7] = -INFINITY;
        args.job[3].temperature = args.job[0].temperature = 1;
        sample(6, block[b]);
        for (uint32_t i = 0; i < 6; i++) assert_int_equal(args.sample[i].failed, i != 3 && i != 4);
    }
    unplace();
}

static void random_job(struct gen_job *j, uint32_t kind)
{
    j->temperature = 0.3f + (float)rnd_below(&rnd, 20) / 10;
    j->top_k = kind & 1 ? 1 + rnd_below(&rnd, 40) : 0;
    j->top_p = kind & 2 ? 0.05f + (float)rnd_below(&rnd, 90) / 100 : 1;
    j->min_p = kind & 4 ? (float)rnd_below(&rnd, 30) / 100 : 0;
    j->tops = rnd_below(&rnd, GEN_MAX_TOPS + 1);
}

static void check_row(const struct plain *p, const struct gen_sample *s, uint32_t tops)
{
    assert_int_equal(s->failed, 0);
    assert_true(s->token < p->vocab && p->chance[s->token] > 0);
    assert_float_equal(s->logprob, p->logprob[s->token], 1e-4);
    assert_int_equal(s->tops, tops);
    for (uint32_t i = 0; i < s->tops; i++) {
        assert_int_equal(s->top[i].token, p->order[i]);
        assert_float_equal(s->top[i].logprob, p->logprob[p->order[i]], 1e-4);
    }
}

/* Whatever is asked, the token is one that may be taken; and the number of threads changes nothing. */
static void cuts_are_exact_for_any_block(void **state)
{
    (void)state;
    static struct plain plain[LANES];
    static struct gen_sample first[LANES];
    place(777);
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < LANES; i++) {
            random_job(&args.job[i], i);
            args.job[i].made = round;
            /* Some rows have many equal logits. */
            for (uint32_t t = 0; t < 777; t++)
                logit_of(i)[t] =
                    i % 8 == 7 ? (float)rnd_below(&rnd, 5) : (float)rnd_below(&rnd, 1 << 20) / 1e5f;
            plain_make(&plain[i], 777, logit_of(i), &args.job[i]);
        }
        for (uint32_t b = 0; b < (round ? 2 : BLOCKS); b++) {
            memset(args.sample, 0, LANES * sizeof(*args.sample));
            sample(LANES, block[b]);
            for (uint32_t i = 0; i < LANES; i++) check_row(&plain[i], &args.sample[i], args.job[i].tops);
            if (!b) memcpy(first, args.sample, sizeof(first));
            assert_memory_equal(first, args.sample, sizeof(first));
        }
    }
    unplace();
}

/* Over many tokens each is taken as often as its chance says: chi-square. */
static void tokens_come_as_often_as_they_should(void **state)
{
    (void)state;
    enum { VOCAB = 50, DRAWS = 12800 };
    static struct plain p;
    place(VOCAB);
    for (uint32_t kind = 0; kind < 8; kind++) {
        uint32_t count[VOCAB] = {0};
        float row[VOCAB];
        double chi = 0, kept = 0;
        for (uint32_t t = 0; t < VOCAB; t++) row[t] = (float)rnd_below(&rnd, 1000) / 200;
        for (uint32_t draw = 0; draw < DRAWS; draw += LANES) {
            for (uint32_t i = 0; i < LANES; i++) {
                struct gen_job *j = &args.job[i];
                j->temperature = 0.9f;
                j->top_k = kind & 1 ? 20 : 0;
                j->top_p = kind & 2 ? 0.8f : 1;
                j->min_p = kind & 4 ? 0.1f : 0;
                j->made = draw + i;
                j->seed = kind;
                memcpy(logit_of(i), row, sizeof(row));
            }
            sample(LANES, 1);
            for (uint32_t i = 0; i < LANES; i++) count[args.sample[i].token]++;
        }
        plain_make(&p, VOCAB, row, &args.job[0]);
        for (uint32_t t = 0; t < VOCAB; t++) {
            double is = p.chance[t] * DRAWS;
            if (is == 0) assert_int_equal(count[t], 0);
            if (is == 0) continue;
            chi += (count[t] - is) * (count[t] - is) / is;
            kept++;
        }
        assert_true(kept > 3 && chi < kept - 1 + 4 * sqrt(2 * (kept - 1)));
    }
    unplace();
}

enum { FEW = 300 };

/* The row's request, and its tokens so far: of 13 kinds. */
static void set_penalties(uint32_t i, uint32_t made)
{
    struct gen_job *j = &args.job[i];
    static const struct gen_top bias[] = {{40, 3}, {6, -2}, {40, -1.5f}};
    j->prompt = 20;
    j->made = made;
    j->repetition = i == 0 ? 1.7f : 1;
    j->presence = i == 1 ? 0.75f : 0;
    j->frequency = i <= 1 ? 0.5f : 0;
    j->biases = i == 1 ? 3 : 0;
    memcpy(args.bias + i * GEN_MAX_BIAS, bias, sizeof(bias));
    for (uint32_t k = 0; k < j->prompt + made; k++) args.token[i * args.context + k] = k * k % 13 + 5 * i;
}

/* Makes the row's logits, and in row[] what they should become. */
static void plain_penalties(uint32_t i, double *row)
{
    const struct gen_job *j = &args.job[i];
    uint32_t made[FEW] = {0}, seen[FEW] = {0};
    for (uint32_t k = 0; k < j->prompt + j->made; k++) {
        uint32_t t = args.token[i * args.context + k];
        seen[t] = 1;
        made[t] += k >= j->prompt;
    }
    for (uint32_t t = 0; t < FEW; t++) {
        float x = logit_of(0)[t] = (float)((t * 37 + 11 * i) % 100) / 20 - 2;
        if (i == 1) x += t == 40 ? 1.5f : t == 6 ? -2 : 0;
        if (seen[t]) x = x > 0 ? x / j->repetition : x * j->repetition;
        if (made[t]) x -= j->presence + j->frequency * (float)made[t];
        row[t] = x;
    }
}

static uint32_t largest_of(const double *row)
{
    uint32_t most = 0;
    for (uint32_t t = 1; t < FEW; t++)
        if (row[t] > row[most]) most = t;
    return most;
}

static void check_penalties(const double *row)
{
    double all = 0;
    uint32_t most = largest_of(row);
    for (uint32_t t = 0; t < FEW; t++) all += exp(row[t]);
    assert_int_equal(args.sample[0].token, most);
    assert_float_equal(args.sample[0].logprob, row[most] - log(all), 1e-4);
    for (uint32_t t = 0; t < FEW; t++)
        if (isfinite(row[t])) assert_float_equal(logit_of(0)[t], row[t], 1e-5);
}

/* Twice each, so that counts of the second are those of the first and what was made since. */
static void penalties_and_bias_change_the_logits(void **state)
{
    (void)state;
    double row[FEW];
    place(FEW);
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t i = 0; i < 2; i++) {
            args.lane[i].counted = 0;
            args.work->out[0] = i;
            for (uint32_t made = 7; made < 17; made += 5) {
                set_penalties(i, made);
                plain_penalties(i, row);
                sample(1, block[b]);
                check_penalties(row);
            }
        }
    unplace();
}

/* Before min_tokens, stops are not taken. */
static void stops_wait_for_min_tokens(void **state)
{
    (void)state;
    double row[FEW];
    place(FEW);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        struct gen_job *j = &args.job[2];
        args.work->out[0] = 2;
        set_penalties(2, 7);
        plain_penalties(2, row);
        j->stops = 3;
        j->min_tokens = 8;
        for (uint32_t k = 0; k < 2; k++) row[j->stop[k] = largest_of(row)] = -INFINITY;
        j->stop[2] = j->stop[0];
        sample(1, block[b]);
        check_penalties(row);
        j->min_tokens = 7;
        plain_penalties(2, row);
        sample(1, block[b]);
        check_penalties(row);
    }
    unplace();
}

static void large_vocabularies_do_too(void **state)
{
    (void)state;
    place(300000);
    struct gen_job *j = &args.job[0];
    uint32_t token[2];
    *j = (struct gen_job){.prompt = 4, .top_p = 0.9f, .repetition = 1.1f, .temperature = 1, .tops = 20};
    for (uint32_t b = 0; b < 2; b++) {
        args.lane[0].counted = 0;
        for (uint32_t t = 0; t < 300000; t++) logit_of(0)[t] = t == 299999 ? 9.5f : (float)(t % 1009) / 200;
        sample(1, block[b]);
        token[b] = args.sample[0].token;
        assert_int_equal(args.sample[0].top[0].token, 299999);
        assert_int_equal(args.sample[0].top[1].token, 1008);
        assert_int_equal(args.sample[0].top[19].token, 1008 + 18 * 1009);
    }
    assert_int_equal(token[0], token[1]);
    unplace();
}

static int begin(void **state)
{
    struct gw_exec_opts opts = {.lanes = 128, .blocks = 2};
    (void)state;
    return gw_exec_create("cpu", &opts, &exec);
}

static int end(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_are_philox),
        cmocka_unit_test(greedy_takes_the_first_of_the_largest),
        cmocka_unit_test(what_is_no_number_fails_its_row_alone),
        cmocka_unit_test(cuts_are_exact_for_any_block),
        cmocka_unit_test(tokens_come_as_often_as_they_should),
        cmocka_unit_test(penalties_and_bias_change_the_logits),
        cmocka_unit_test(stops_wait_for_min_tokens),
        cmocka_unit_test(large_vocabularies_do_too),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
