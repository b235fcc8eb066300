/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.h: text to token ids and back, as the model's own tokenizer does it.
 *
 * A tokenizer comes from a model's folder: tokenizer.json (byte-level BPE and its kin), else tokenizer.model
 * (SentencePiece). It never changes after it was opened, so any number of threads may use one at once.
 *
 * Control tokens (<|im_end|>, </s>) end turns and answers. A stranger's text that merely spells one must
 * not become one. So only text that is marked as the program's own may hold control tokens: see `foreign`
 * and GEN_ENCODE_CONTROL.
 */
#ifndef GW_GENERATE_TEXT_TOKENIZER_H
#define GW_GENERATE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"
#include "src/generate/text/decode.h" /* struct gen_decoder: a stream's state */
#include "src/generate/text/ids.h"
#include "src/generate/text/limits.h"

struct gen_tokenizer;

/* No token: an id that no vocabulary has. src/generate/wire/wire.h says it in the same way. */
#define GEN_NO_TOKEN 0xffffffffu

/*
 * Opens the tokenizer of a model's folder. Reads tokenizer.json or tokenizer.model, and for the special ids
 * tokenizer_config.json, generation_config.json and genai_config.json where they are. 0, or a negative
 * errno with gw_error's line: -ENOENT (no tokenizer there), -ENOTSUP (a kind of tokenizer that is not
 * supported; the line names it), -EINVAL (a file that is not valid), -ENOMEM.
 */
int gen_tokenizer_open(const char *folder, struct gen_tokenizer **out);
/* The same, of the bytes of a tokenizer.json alone. It knows no special ids. */
int gen_tokenizer_parse(const char *json, size_t bytes, struct gen_tokenizer **out);
/* Frees it. No other call may use it any more. NULL is fine. */
void gen_tokenizer_close(struct gen_tokenizer *t);

/* What gen_tokenizer_encode does beside the text itself. */
enum gen_encode {
    GEN_ENCODE_SPECIAL =
        1, /* puts the tokens around it that the tokenizer's post-processor adds (bos, eos) */
    GEN_ENCODE_CONTROL =
        2, /* the text is the program's own: control tokens that it spells become control tokens */
};

/*
 * Encodes UTF-8 and appends the ids. Bytes that are not UTF-8 count as U+FFFD, as in Python's
 * decode(errors="replace"). A character that the vocabulary lacks becomes its unknown token, or nothing
 * where it has none. `flags` are of enum gen_encode. 0, -E2BIG (beyond GEN_MAX_TEXT), -EINVAL (a pattern of
 * the tokenizer took too many steps) or -ENOMEM, with gw_error's line. After an error `ids` is as before.
 */
int gen_tokenizer_encode(const struct gen_tokenizer *t, const char *text, size_t bytes, unsigned flags,
                         struct gen_ids *ids);

/* Text of which some bytes are a stranger's: foreign[i] is not 0 where byte i is. `foreign` NULL: none is. */
struct gen_mixed {
    const char *text;
    const unsigned char *foreign;
    size_t bytes;
};

/* As gen_tokenizer_encode with no flags but GEN_ENCODE_CONTROL; control tokens that touch a foreign byte
 * stay text. This encodes what a chat template made (chat.h). */
int gen_tokenizer_encode_mixed(const struct gen_tokenizer *t, const struct gen_mixed *mixed,
                               struct gen_ids *ids);

/* Appends the text of the ids, always valid UTF-8. Control tokens are left out unless `control`. Ids beyond
 * the vocabulary are left out. 0 or -ENOMEM. */
int gen_tokenizer_decode(const struct gen_tokenizer *t, const uint32_t *ids, size_t count, bool control,
                         struct gw_text *text);

/* Appends the text that token `id` adds: maybe nothing, when it ends inside a character. The pieces of a
 * stream are together what gen_tokenizer_decode gives (in a run of byte tokens that is not UTF-8, the valid
 * characters before the fault stay). 0 or -ENOMEM. */
int gen_decoder_next(const struct gen_tokenizer *t, struct gen_decoder *d, uint32_t id, bool control,
                     struct gw_text *text);
/* Ends the stream: appends U+FFFD for a character that never became whole. The decoder is at its start
 * again. */
int gen_decoder_end(const struct gen_tokenizer *t, struct gen_decoder *d, struct gw_text *text);

/* One past the highest id of the vocabulary, added tokens included. A model may have more logits than that.
 * */
uint32_t gen_tokenizer_size(const struct gen_tokenizer *t);
/* The bytes that the token stands for, maybe half a character: for logprobs. They live as long as the
 * tokenizer; `bytes` 0 for an id that no token has. */
const char *gen_tokenizer_token(const struct gen_tokenizer *t, uint32_t id, size_t *bytes);
/* Whether the id is a control token: one that decoding leaves out. */
bool gen_tokenizer_is_control(const struct gen_tokenizer *t, uint32_t id);
/* The id of the token with exactly this content (as tokenizer.json writes it), or GEN_NO_TOKEN. */
uint32_t gen_tokenizer_find(const struct gen_tokenizer *t, const char *content, size_t bytes);

/* The begin and padding tokens, or GEN_NO_TOKEN. */
uint32_t gen_tokenizer_bos(const struct gen_tokenizer *t);
uint32_t gen_tokenizer_pad(const struct gen_tokenizer *t);
/* The tokens that end an answer: their number, and where they are. They live as long as the tokenizer. */
size_t gen_tokenizer_eos(const struct gen_tokenizer *t, const uint32_t **ids);

#endif
