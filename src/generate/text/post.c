/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors: reduced to the ids before a text and those after it, as we never encode a pair of texts.
 * */
#include "src/generate/text/post.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/vocab.h"

static int post_id(struct gen_ids *ids, const json_t *id)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > GEN_MAX_TOKEN_ID)
        return gw_error(-EINVAL,
                        "tokenizer.json: the post-processor has an id that is no number from 0 to %u",
                        GEN_MAX_TOKEN_ID);
    return gen_ids_add(ids, (uint32_t)json_integer_value(id)) ? gw_error(-ENOMEM, "no memory for a tokenizer")
                                                              : 0;
}

/* The ids of the special token that a template names. */
static int post_special(struct gen_ids *ids, const json_t *part, const json_t *special)
{
    size_t bytes;
    const char *name = gen_spec_text(special, "id", &bytes);
    const json_t *list =
        json_object_get(json_object_get(json_object_get(part, "special_tokens"), name ? name : ""), "ids");
    if (!json_is_array(list))
        return gw_error(-EINVAL, "tokenizer.json: the post-processor's special token '%.60s' has no ids",
                        name ? name : "");
    int err = 0;
    for (size_t i = 0; i < json_array_size(list) && !err; i++) err = post_id(ids, json_array_get(list, i));
    return err;
}

static int post_template(const json_t *part, struct gen_post *own)
{
    const json_t *single = json_object_get(part, "single");
    bool seen = false;
    int err = 0;
    for (size_t i = 0; i < json_array_size(single) && !err; i++) {
        const json_t *item = json_array_get(single, i), *special = json_object_get(item, "SpecialToken");
        if (special) {
            err = post_special(seen ? &own->after : &own->before, part, special);
        } else if (seen || !json_object_get(item, "Sequence")) {
            return gw_error(-ENOTSUP,
                            "tokenizer.json: a post-processor whose template is not one text among special "
                            "tokens is not supported");
        } else {
            seen = true;
        }
    }
    if (!err && !seen)
        return gw_error(-EINVAL, "tokenizer.json: the post-processor's template leaves the text out");
    return err;
}

/* BERT's and RoBERTa's: one token before, one after. */
static int post_pair(const json_t *part, struct gen_post *own)
{
    int err = post_id(&own->before, json_array_get(json_object_get(part, "cls"), 1));
    return err ? err : post_id(&own->after, json_array_get(json_object_get(part, "sep"), 1));
}

/* Puts the tokens of one part around those that are there. */
static int post_wrap(struct gen_post *post, const struct gen_post *own)
{
    struct gen_ids before = {0};
    int err = 0;
    for (size_t i = 0; i < own->before.count && !err; i++) err = gen_ids_add(&before, own->before.at[i]);
    for (size_t i = 0; i < post->before.count && !err; i++) err = gen_ids_add(&before, post->before.at[i]);
    for (size_t i = 0; i < own->after.count && !err; i++) err = gen_ids_add(&post->after, own->after.at[i]);
    gen_ids_free(&post->before);
    post->before = before;
    return err ? gw_error(err, "no memory for a tokenizer") : 0;
}

static int post_add(void *to, const json_t *part)
{
    const char *type = gen_spec_type(part);
    struct gen_post own = {0};
    int err = 0;
    if (!strcmp(type, "TemplateProcessing"))
        err = post_template(part, &own);
    else if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
        err = post_pair(part, &own);
    else if (strcmp(type, "ByteLevel") != 0) /* that one corrects offsets, which we do not have */
        err = gen_spec_unknown("post-processor", part);
    if (!err) err = post_wrap(to, &own);
    gen_post_close(&own);
    return err;
}

int gen_post_open(const json_t *spec, struct gen_post *post)
{
    return gen_spec_each(spec, "processors", post_add, post);
}

void gen_post_close(struct gen_post *post)
{
    gen_ids_free(&post->before);
    gen_ids_free(&post->after);
}
