/* SPDX-License-Identifier: Apache-2.0 */
/* The slow evaluation of a program. Each operator is a loop that can be read beside its line in program.h. */
#include "src/generate/program/reference.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/generate/program/number.h"

struct reference {
    const struct gen_program *p;
    const uint32_t *token;
    uint32_t n, cache_dtype;
    double **value; /* [values][n * width] */
    double *line;   /* one row of a weight */
    double *score;  /* [n] */
};

/* Row `row` of a part. */
static const double *part_row(const struct reference *r, const struct gen_part *part, uint32_t row)
{
    return r->value[part->value] + (size_t)row * r->p->width[part->value] + part->first;
}

static double *out_row(const struct reference *r, const struct gen_op *op, uint32_t row)
{
    return r->value[op->out] + (size_t)row * r->p->width[op->out];
}

static double reference_act(enum gen_act act, double x)
{
    switch (act) {
    case GEN_SILU: return x / (1 + exp(-x));
    case GEN_GELU: return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case GEN_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GEN_RELU: return x > 0 ? x : 0;
    case GEN_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case GEN_RELU2: return x > 0 ? x * x : 0;
    }
    return x;
}

static void reference_lookup(const struct reference *r, const struct gen_op *op, uint32_t row)
{
    double *out = out_row(r, op, row), scale = op->kind == GEN_EMBED ? op->scale : 1;
    uint32_t at = op->kind == GEN_EMBED ? r->token[row] : row + (uint32_t)op->offset;

    for (uint32_t i = 0; i < op->weight.k; i++) out[i] = gen_weight_at(&op->weight, at, i) * scale;
}

static void reference_norm(const struct reference *r, const struct gen_op *op, uint32_t row)
{
    const double *a = part_row(r, &op->a, row);
    double *out = out_row(r, op, row);

    for (uint32_t from = 0; from < op->a.width; from += op->segment) {
        double mean = 0, square = 0, factor;

        for (uint32_t i = 0; i < op->segment && op->mean; i++) mean += a[from + i] / op->segment;
        for (uint32_t i = 0; i < op->segment; i++) square += pow(a[from + i] - mean, 2) / op->segment;
        for (uint32_t i = 0; i < op->segment; i++) {
            factor = op->weight.data ? gen_weight_at(&op->weight, 0, i) : 1;
            if (op->plus_one) factor += 1;
            out[from + i] = (a[from + i] - mean) / sqrt(square + op->epsilon) * factor;
            if (op->bias) out[from + i] += op->bias[i];
        }
    }
}

/* Of all rows: a weight's elements are slow to get. */
static void reference_linear(const struct reference *r, const struct gen_op *op)
{
    for (uint32_t j = 0; j < op->weight.n; j++) {
        for (uint32_t i = 0; i < op->weight.k; i++) r->line[i] = gen_weight_at(&op->weight, j, i);
        for (uint32_t row = 0; row < r->n; row++) {
            const double *a = part_row(r, &op->a, row);
            double sum = op->bias ? op->bias[j] : 0;

            for (uint32_t i = 0; i < op->weight.k; i++) sum += r->line[i] * a[i];
            out_row(r, op, row)[j] = sum;
        }
    }
}

static void reference_rotate(const struct reference *r, const struct gen_op *op, uint32_t row)
{
    const double *a = part_row(r, &op->a, row);
    double *out = out_row(r, op, row);

    for (uint32_t i = 0; i < op->a.width; i++) out[i] = a[i];
    for (uint32_t head = 0; head < op->a.width; head += op->head) {
        for (uint32_t i = 0; i < op->half; i++) {
            uint32_t x = head + (op->interleaved ? 2 * i : i), y = x + (op->interleaved ? 1 : op->half);
            double c = op->cosine[(size_t)row * op->half + i], s = op->sine[(size_t)row * op->half + i];

            out[x] = a[x] * c - a[y] * s;
            out[y] = a[y] * c + a[x] * s;
        }
    }
}

/* As a cache would have it. */
static double reference_stored(const struct reference *r, double x)
{
    float f = (float)x;

    gen_number_put(r->cache_dtype, &f, 0, f);
    return gen_number_get(r->cache_dtype, &f, 0);
}

static double reference_score(const struct reference *r, const struct gen_op *op, const double *query,
                              const double *key)
{
    double sum = 0;

    for (uint32_t i = 0; i < op->head; i++) sum += query[i] * reference_stored(r, key[i]);
    sum *= op->scale;
    return op->cap > 0 ? tanh(sum / op->cap) * op->cap : sum;
}

static void reference_attend(const struct reference *r, const struct gen_op *op, uint32_t row, uint32_t head)
{
    uint32_t kv = head / (op->heads / op->kv_heads);
    uint32_t from = op->window && row >= op->window ? row - op->window + 1 : 0;
    double most = op->sink ? op->sink[head] : -INFINITY, sum = 0;
    double *out = out_row(r, op, row) + head * op->value_head;

    for (uint32_t t = from; t <= row; t++) {
        r->score[t] = reference_score(r, op, part_row(r, &op->a, row) + head * op->head,
                                      part_row(r, &op->b, t) + kv * op->head);
        most = fmax(most, r->score[t]);
    }
    if (op->sink) sum = exp(op->sink[head] - most);
    for (uint32_t t = from; t <= row; t++) sum += r->score[t] = exp(r->score[t] - most);
    for (uint32_t i = 0; i < op->value_head; i++) {
        out[i] = 0;
        for (uint32_t t = from; t <= row; t++)
            out[i] +=
                r->score[t] / sum * reference_stored(r, part_row(r, &op->c, t)[kv * op->value_head + i]);
    }
}

static double reference_element(const struct gen_op *op, const double *a, const double *b, uint32_t i)
{
    switch (op->kind) {
    case GEN_ADD: return a[i] + (b ? b[i] : op->bias[i]);
    case GEN_MUL: return a[i] * (b ? b[i] : op->scale);
    case GEN_ACT: return reference_act(op->act, a[i]);
    case GEN_GATE: return reference_act(op->act, a[i]) * b[i];
    case GEN_CAP: return tanh(a[i] / op->cap) * op->cap;
    default: return a[i]; /* PICK */
    }
}

static void reference_row(const struct reference *r, const struct gen_op *op, uint32_t row)
{
    const double *b = NULL;

    if (op->kind == GEN_EMBED || op->kind == GEN_LEARNED) {
        reference_lookup(r, op, row);
    } else if (op->kind == GEN_NORM) {
        reference_norm(r, op, row);
    } else if (op->kind == GEN_ROTATE) {
        reference_rotate(r, op, row);
    } else if (op->kind == GEN_ATTEND) {
        for (uint32_t head = 0; head < op->heads; head++) reference_attend(r, op, row, head);
    } else {
        if (op->kind == GEN_GATE || ((op->kind == GEN_ADD || op->kind == GEN_MUL) && op->b.value >= 0))
            b = part_row(r, &op->b, row);
        for (uint32_t i = 0; i < op->a.width; i++)
            out_row(r, op, row)[i] = reference_element(op, part_row(r, &op->a, row), b, i);
    }
}

static int reference_memory(struct reference *r)
{
    const struct gen_program *p = r->p;

    r->value = calloc(p->values, sizeof(*r->value));
    r->line = calloc(GEN_PROGRAM_MAX_WIDTH, sizeof(*r->line));
    r->score = calloc(r->n, sizeof(*r->score));
    if (!r->value || !r->line || !r->score) return -ENOMEM;
    for (uint32_t i = 0; i < p->values; i++)
        if (!(r->value[i] = calloc((size_t)r->n * p->width[i], sizeof(**r->value)))) return -ENOMEM;
    return 0;
}

int gen_reference(const struct gen_program *p, const uint32_t *token, uint32_t n, uint32_t cache_dtype,
                  float *logits)
{
    struct reference r = {.p = p, .token = token, .n = n, .cache_dtype = cache_dtype};
    int err = reference_memory(&r);

    for (uint32_t i = 0; i < p->ops && !err; i++) {
        if (p->op[i].kind == GEN_LINEAR)
            reference_linear(&r, p->op + i);
        else
            for (uint32_t row = 0; row < n; row++) reference_row(&r, p->op + i, row);
    }
    for (size_t i = 0; i < (size_t)n * p->vocab && !err; i++) logits[i] = (float)r.value[p->logits][i];
    for (uint32_t i = 0; i < p->values && r.value; i++) free(r.value[i]);
    free(r.value);
    free(r.line);
    free(r.score);
    return err ? gw_error(err, "no memory to evaluate a program") : 0;
}
