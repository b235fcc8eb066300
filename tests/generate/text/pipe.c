/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe FOLDER: encodes and decodes what comes on standard input, with the tokenizer of a folder. Tests
 * compare the answers with another tokenizer's. A request is a letter, a 32-bit number n, and n bytes or
 * ids:
 *
 *   e  encode    s  with special tokens    c  control tokens allowed    b  both
 *   d  decode    D  with control tokens    i  decode token by token     t  the bytes of one token
 *
 * The answer is a 32-bit number n, and n ids or bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/tokenizer.h"

static int answer(const void *data, uint32_t count, size_t each)
{
    return fwrite(&count, 4, 1, stdout) == 1 && fwrite(data, each, count, stdout) == count && !fflush(stdout)
               ? 0
               : -1;
}

static int encode(const struct gen_tokenizer *t, char how, const char *text, size_t bytes)
{
    struct gen_ids ids = {0};
    unsigned flags = (how == 's' || how == 'b' ? GEN_ENCODE_SPECIAL : 0) |
                     (how == 'c' || how == 'b' ? GEN_ENCODE_CONTROL : 0);
    int err = gen_tokenizer_encode(t, text, bytes, flags, &ids);
    if (!err) err = answer(ids.at ? ids.at : &(uint32_t){0}, (uint32_t)ids.count, 4);
    gen_ids_free(&ids);
    return err;
}

static int pieces(const struct gen_tokenizer *t, const uint32_t *ids, size_t count, struct gw_text *text)
{
    struct gen_decoder d = {0};
    int err = 0;
    for (size_t i = 0; i < count && !err; i++) err = gen_decoder_next(t, &d, ids[i], false, text);
    return err ? err : gen_decoder_end(t, &d, text);
}

static int decode(const struct gen_tokenizer *t, char how, const uint32_t *ids, size_t count)
{
    struct gw_text text = {0};
    int err = 0;
    if (how == 'i')
        err = pieces(t, ids, count, &text);
    else if (how != 't')
        err = gen_tokenizer_decode(t, ids, count, how == 'D', &text);
    size_t bytes = text.bytes;
    const char *at = how == 't' ? gen_tokenizer_token(t, ids[0], &bytes) : text.at;
    if (!err) err = answer(at ? at : "", (uint32_t)bytes, 1);
    free(text.at);
    return err;
}

int main(int argc, char **argv)
{
    struct gen_tokenizer *t;
    if (argc != 2 || gen_tokenizer_open(argv[1], &t)) {
        fprintf(stderr, "pipe: %s\n", argc == 2 ? gw_last_error() : "usage: pipe FOLDER");
        return 1;
    }
    int how, err = 0;
    while (!err && (how = getchar()) != EOF) {
        uint32_t n;
        if (fread(&n, 4, 1, stdin) != 1) break;
        size_t each = strchr("escb", how) ? 1 : 4;
        char *data = malloc(n * each + 1);
        if (!data || fread(data, each, n, stdin) != n) {
            free(data);
            break;
        }
        err = each == 1 ? encode(t, (char)how, data, n)
                        : decode(t, (char)how, (const uint32_t *)(const void *)data, n);
        free(data);
    }
    if (err) fprintf(stderr, "pipe: %s\n", gw_last_error());
    gen_tokenizer_close(t);
    return err ? 1 : 0;
}
