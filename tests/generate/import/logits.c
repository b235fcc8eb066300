/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits FOLDER TOKEN…: opens a model's folder and writes the logits after each token, as floats, to standard
 * output; what the folder says of the model goes to standard error. families.py compares the two.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/dtype.h>
#include <gpuwire/error.h>

#include "src/generate/import/folder.h"
#include "src/generate/program/reference.h"

static void print_info(const struct gen_program *p, const struct gen_model_info *i)
{
    fprintf(stderr,
            "{\"name\": \"%s\", \"family\": \"%s\", \"format\": \"%s\", \"context\": %u, \"layers\": %u, ",
            i->name, i->family, i->format, i->context, p->layers);
    fprintf(stderr, "\"bos\": %d, \"eos\": [", (int)i->bos);
    for (uint32_t k = 0; k < i->eoss; k++) fprintf(stderr, "%s%u", k ? ", " : "", i->eos[k]);
    fprintf(stderr,
            "], \"sample\": %d, \"temperature\": %g, \"top_p\": %g, \"top_k\": %u, \"min_p\": %g, "
            "\"repetition\": %g}\n",
            i->sample, (double)i->temperature, (double)i->top_p, i->top_k, (double)i->min_p,
            (double)i->repetition);
}

int main(int argc, char **argv)
{
    struct gen_program *p = NULL;
    struct gen_model_info info;
    uint32_t n = argc > 2 ? (uint32_t)argc - 2 : 0, *token = calloc(n + 1, sizeof(*token));
    float *logits = NULL;
    int err = argc < 2 || !token ? gw_error(-EINVAL, "usage: logits FOLDER TOKEN...")
                                 : gen_model_open(argv[1], &p, &info);

    for (uint32_t i = 0; i < n && !err; i++) {
        token[i] = (uint32_t)strtoul(argv[i + 2], NULL, 10);
        if (token[i] >= p->vocab) err = gw_error(-EINVAL, "token %u is not below %u", token[i], p->vocab);
    }
    if (!err) print_info(p, &info);
    if (!err && n > p->max_position)
        err = gw_error(-EINVAL, "%u tokens; the model takes %u", n, p->max_position);
    if (!err && n) {
        logits = malloc(sizeof(float) * n * p->vocab);
        err = logits ? gen_reference(p, token, n, GW_DTYPE_F32, logits) : -ENOMEM;
        if (!err) fwrite(logits, sizeof(float) * p->vocab, n, stdout);
    }
    if (err) fprintf(stderr, "logits: %s\n", gw_last_error());
    free(logits);
    free(token);
    gen_program_free(p);
    return err ? 1 : 0;
}
