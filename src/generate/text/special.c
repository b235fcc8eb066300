/* SPDX-License-Identifier: Apache-2.0 */
/* Reads which tokens begin, end and pad a text, from the files that say so. */
#include "src/generate/text/special.h"

#include <errno.h>
#include <jansson.h>

#include "gpuwire/error.h"
#include "src/generate/text/file.h"
#include "src/generate/text/vocab.h"

/* Which of a file's forms: texts of tokens, or ids. */
struct special_reader {
    struct gen_special *to;
    uint32_t (*find)(const void *in, const char *text, size_t bytes);
    const void *in;
};

static uint32_t special_id(const json_t *value)
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id <= GEN_MAX_TOKEN_ID ? (uint32_t)id : UINT32_MAX;
}

/* A token as tokenizer_config.json names it: its text, or an object with its text. */
static uint32_t special_named(const struct special_reader *r, const json_t *value)
{
    const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(text) ? r->find(r->in, json_string_value(text), json_string_length(text))
                                : UINT32_MAX;
}

static int add_eos(struct gen_special *to, uint32_t id)
{
    for (size_t i = 0; i < to->eos.count; i++) {
        if (to->eos.at[i] == id) return 0;
    }
    return id == UINT32_MAX ? 0 : gen_ids_add(&to->eos, id);
}

static void set_id(uint32_t *to, uint32_t id)
{
    if (*to == UINT32_MAX) *to = id;
}

/* Ids, each a number; the end may be several. */
static int take_ids(const struct special_reader *r, const json_t *from)
{
    const json_t *eos = json_object_get(from, "eos_token_id");
    int err = json_is_array(eos) ? 0 : add_eos(r->to, special_id(eos));
    for (size_t i = 0; i < json_array_size(eos) && !err; i++)
        err = add_eos(r->to, special_id(json_array_get(eos, i)));
    set_id(&r->to->bos, special_id(json_object_get(from, "bos_token_id")));
    set_id(&r->to->pad, special_id(json_object_get(from, "pad_token_id")));
    return err;
}

static int take_names(const struct special_reader *r, const json_t *from)
{
    set_id(&r->to->bos, special_named(r, json_object_get(from, "bos_token")));
    set_id(&r->to->pad, special_named(r, json_object_get(from, "pad_token")));
    return add_eos(r->to, special_named(r, json_object_get(from, "eos_token")));
}

static int take_file(const struct special_reader *r, const char *folder, const char *name,
                     int (*take)(const struct special_reader *r, const json_t *from))
{
    json_t *file;
    int err = gen_file_json(folder, name, &file);
    if (err == -ENOENT) return 0;
    if (err) return err;
    const json_t *inner = json_object_get(file, "model"); /* genai_config.json has them one level deeper */
    err = take(r, json_is_object(inner) ? inner : file);
    json_decref(file);
    return err ? gw_error(err, "no memory for a tokenizer") : 0;
}

int gen_special_read(const char *folder, uint32_t (*find)(const void *in, const char *text, size_t bytes),
                     const void *in, struct gen_special *out)
{
    struct special_reader r = {.to = out, .find = find, .in = in};
    int err = take_file(&r, folder, "tokenizer_config.json", take_names);
    if (!err) err = take_file(&r, folder, "generation_config.json", take_ids);
    if (!err) err = take_file(&r, folder, "genai_config.json", take_ids);
    if (!err && !out->eos.count) /* what trained the model may end in another way than what talks to it */
        err = take_file(&r, folder, "config.json", take_ids);
    return err;
}
