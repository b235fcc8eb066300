/* SPDX-License-Identifier: Apache-2.0 */
/* Reads genai_config.json, and the ONNX file that it names. */
#include "src/generate/import/genai.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/generate/import/sampling.h"
#include "src/model/import/file.h"

/* An object that must be there. */
static int genai_part(const struct gen_json *at, const char *key, struct gen_json *out)
{
    int err = gen_json_object(at, key, out);

    return err == -ENOENT ? gw_error(-EBADMSG, "%s: '%s' is missing", at->where, key) : err;
}

static int genai_names(const struct gen_json *decoder, struct gen_onnx_names *n)
{
    struct gen_json inputs, outputs;
    int err = gen_json_object(decoder, "inputs", &inputs);

    *n = (struct gen_onnx_names){
        "input_ids", "attention_mask", "position_ids", "past_key_values.%d.key", "past_key_values.%d.value",
        "logits"};
    if (!err) err = gen_json_text(&inputs, "input_ids", n->tokens, sizeof(n->tokens));
    if (!err) err = gen_json_text(&inputs, "attention_mask", n->mask, sizeof(n->mask));
    if (!err) err = gen_json_text(&inputs, "position_ids", n->positions, sizeof(n->positions));
    if (!err) err = gen_json_text(&inputs, "past_key_names", n->past_key, sizeof(n->past_key));
    if (!err) err = gen_json_text(&inputs, "past_value_names", n->past_value, sizeof(n->past_value));
    if (err && err != -ENOENT) return err;
    err = gen_json_object(decoder, "outputs", &outputs);
    if (!err) err = gen_json_text(&outputs, "logits", n->logits, sizeof(n->logits));
    return err == -ENOENT ? 0 : err;
}

static int genai_program(const char *folder, const struct gen_json *decoder, struct gen_maps *maps,
                         struct gen_program *p, struct gwm_source **source)
{
    char name[256] = "model.onnx", path[4096], text[256] = "";
    struct gwm_msg msg = {text, sizeof(text), path};
    struct gen_onnx_file file = {.name = path, .maps = maps};
    struct gen_onnx_names names;
    void *bytes = NULL;
    ssize_t len;
    int err = gen_json_text(decoder, "filename", name, sizeof(name));

    if (!err && gen_json_get(decoder, "pipeline"))
        err = gw_error(-ENOTSUP, "%s: pipeline: a model of several files is not supported", decoder->where);
    if (!err && (!*name || *name == '.' || strchr(name, '/')))
        err = gw_error(-EBADMSG, "%s: filename: '%s' is no file of the folder", decoder->where, name);
    if (!err) err = genai_names(decoder, &names);
    if (err) return err;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return gw_error(-ENAMETOOLONG, "%s: its path is too long", folder);
    len = gwm_read_file(path, &msg, &bytes);
    if (len < 0) return gw_error((int)len, "%s", text);
    file.bytes = bytes;
    file.len = (size_t)len;
    file.dir = gwm_open_folder(path);
    err = gen_onnx_import(&file, &names, p, source);
    if (file.dir >= 0) close(file.dir);
    free(bytes);
    return err;
}

int gen_genai_open(const char *folder, const struct gen_json *config, struct gen_maps *maps,
                   struct gen_program *p, struct gen_model_info *info, struct gwm_source **source)
{
    struct gen_json model, decoder, search;
    uint32_t context = UINT32_MAX;
    int err = genai_part(config, "model", &model);

    snprintf(info->format, sizeof(info->format), "onnxruntime-genai");
    if (!err) err = genai_part(&model, "decoder", &decoder);
    if (!err) err = gen_json_text(&model, "type", info->family, sizeof(info->family));
    if (!err) err = gen_json_u32(&model, "context_length", 1, UINT32_MAX, &context);
    if (!err) err = genai_program(folder, &decoder, maps, p, source);
    if (err) return err;
    if (p->max_position > context) p->max_position = context;
    err = gen_sampling_tokens(&model, p->vocab, info);
    if (!err) err = gen_json_object(config, "search", &search);
    if (!err) err = gen_sampling_read(&search, info);
    return err == -ENOENT ? 0 : err;
}
