/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request of OpenAI's API from its JSON. Fields that it does not know are ignored. */
#include "src/generate/openai/ask.h"

#include <stdlib.h>
#include <string.h>

#include "src/door/depth.h"
#include "src/generate/openai/fields.h"
#include "src/generate/text/stop.h"

#define ASK_MAX_DEPTH 64 /* of a body: jansson calls itself for each level, on a connection's small stack */
#define ASK_MAX_TIME  86400.0
#define ASK_SECOND    1e9

/* ---- the body */

json_t *gen_openai_body(const char *text, size_t bytes, struct gen_refusal *refusal)
{
    json_error_t where;
    if (gw_json_depth(text, bytes) > ASK_MAX_DEPTH) {
        gen_refuse(refusal, 400, NULL, NULL, "the body is nested too deeply: %d levels at most",
                   ASK_MAX_DEPTH);
        return NULL;
    }
    json_t *body = bytes ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where) : NULL;
    if (!body && !bytes) gen_refuse(refusal, 400, NULL, NULL, "the call needs a body of JSON");
    if (!body && bytes)
        gen_refuse(refusal, 400, NULL, NULL, "the body is not valid JSON: line %d, column %d: %s", where.line,
                   where.column, where.text);
    if (body && !json_is_object(body)) {
        json_decref(body);
        gen_refuse(refusal, 400, NULL, NULL, "the body must be a JSON object");
        return NULL;
    }
    return body;
}

/* ---- what is refused, rather than ignored: an answer would not be what was asked for */

static void ask_read_unsupported(struct gen_openai_ask *a, struct gen_fields *f)
{
    const json_t *format = gen_field(f, "response_format"), *suffix = gen_field(f, "suffix");
    const char *type = json_string_value(json_object_get(format, "type"));
    int64_t best_of = a->n;
    if (format && (!type || strcmp(type, "text")))
        gen_refuse_field(f->refusal, "response_format",
                         "response_format: only {\"type\": \"text\"} is supported");
    if (suffix && (!json_is_string(suffix) || json_string_length(suffix)))
        gen_refuse_field(f->refusal, "suffix", "suffix: not supported");
    if (gen_field_integer(f, "best_of", 1, GEN_MAX_CHOICES, &best_of) && !gen_field_wrong(f) &&
        best_of != a->n)
        gen_refuse_field(f->refusal, "best_of", "best_of: must be n (%u), as all answers are returned", a->n);
}

/* The template gets the tools. What the model then writes is text: no call is parsed, so none can be
 * demanded. */
static void ask_read_tools(struct gen_openai_ask *a, struct gen_fields *f)
{
    const json_t *tools = gen_field(f, "tools"), *choice = gen_field(f, "tool_choice");
    const char *word = json_string_value(choice);
    if (tools && !json_is_array(tools)) gen_refuse_field(f->refusal, "tools", "tools: must be a list");
    if (choice && (!word || (strcmp(word, "auto") && strcmp(word, "none"))))
        gen_refuse_field(f->refusal, "tool_choice", "tool_choice: only \"auto\" and \"none\" are supported");
    if (!gen_field_wrong(f) && json_array_size(tools) && !(word && !strcmp(word, "none"))) a->tools = tools;
}

/* ---- sampling */

static void ask_read_sampling(struct gen_openai_ask *a, struct gen_fields *f)
{
    struct gen_request *r = &a->ask.request;
    int64_t seed = 0, top_k = 0;
    a->temperature_said = gen_field_float(f, "temperature", 0, 100, &r->temperature);
    a->top_p_said = gen_field_float(f, "top_p", 0, 1, &r->top_p);
    if (a->top_p_said && r->top_p < 1e-6f) r->top_p = 1e-6f; /* the likeliest token alone */
    a->min_p_said = gen_field_float(f, "min_p", 0, 0.999, &r->min_p);
    a->top_k_said = gen_field_integer(f, "top_k", -1, UINT32_MAX, &top_k);
    r->top_k = top_k > 0 ? (uint32_t)top_k : 0;
    r->repetition = 1;
    a->repetition_said = gen_field_float(f, "repetition_penalty", 0.01, 100, &r->repetition);
    gen_field_float(f, "presence_penalty", -2, 2, &r->presence);
    gen_field_float(f, "frequency_penalty", -2, 2, &r->frequency);
    a->ask.seeded = gen_field_integer(f, "seed", INT64_MIN, INT64_MAX, &seed);
    r->seed = (uint64_t)seed;
}

/* "50256": -100. */
static bool ask_read_bias_one(struct gen_top *to, const char *key, const json_t *value)
{
    char *end;
    unsigned long long id = strtoull(key, &end, 10);
    double add = json_number_value(value);
    if (*key < '0' || *key > '9' || *end || id >= UINT32_MAX || !json_is_number(value)) return false;
    *to = (struct gen_top){(uint32_t)id, (float)add};
    return add >= -GEN_MAX_LOGIT && add <= GEN_MAX_LOGIT;
}

static void ask_read_bias(struct gen_openai_ask *a, struct gen_fields *f)
{
    json_t *bias = (json_t *)gen_field(f, "logit_bias"), *value;
    const char *key;
    size_t n = json_object_size(bias);
    if (!bias) return;
    if (!json_is_object(bias) || n > GEN_MAX_BIAS) {
        gen_refuse_field(f->refusal, "logit_bias", "logit_bias: must be an object of at most %u token ids",
                         GEN_MAX_BIAS);
        return;
    }
    a->bias = calloc(n + 1, sizeof(*a->bias));
    if (!a->bias) {
        gen_refuse(f->refusal, 503, NULL, NULL, "out of memory");
        return;
    }
    json_object_foreach(bias, key, value)
    {
        if (!ask_read_bias_one(&a->bias[a->ask.biases++], key, value)) {
            gen_refuse_field(f->refusal, "logit_bias",
                             "logit_bias: must have token ids with numbers from -%d to %d", GEN_MAX_LOGIT,
                             GEN_MAX_LOGIT);
            return;
        }
    }
    a->ask.bias = a->bias;
}

/* ---- where it ends */

static void ask_read_stop_one(struct gen_openai_ask *a, struct gen_fields *f, const json_t *value)
{
    uint32_t i = a->ask.stop_texts;
    size_t all = json_string_length(value);
    for (uint32_t k = 0; k < i; k++) all += a->stop_bytes[k];
    if (!json_is_string(value) || !json_string_length(value)) {
        gen_refuse_field(f->refusal, "stop", "stop: must be a string that is not empty, or a list of them");
    } else if (all > GEN_MAX_STOP_BYTES) {
        gen_refuse_field(f->refusal, "stop", "stop: must be at most %d bytes in all", GEN_MAX_STOP_BYTES);
    } else {
        a->stop_text[i] = json_string_value(value);
        a->stop_bytes[i] = json_string_length(value);
        a->ask.stop_texts++;
    }
}

static void ask_read_stops(struct gen_openai_ask *a, struct gen_fields *f)
{
    const json_t *stop = gen_field(f, "stop"), *ids = gen_field(f, "stop_token_ids");
    if (json_array_size(stop) > GEN_MAX_STOPS)
        gen_refuse_field(f->refusal, "stop", "stop: must be at most %u strings", GEN_MAX_STOPS);
    for (size_t i = 0; i < json_array_size(stop) && !gen_field_wrong(f); i++)
        ask_read_stop_one(a, f, json_array_get(stop, i));
    if (stop && !json_is_array(stop)) ask_read_stop_one(a, f, stop);
    if (ids && (!json_is_array(ids) || json_array_size(ids) > GEN_MAX_STOPS))
        gen_refuse_field(f->refusal, "stop_token_ids",
                         "stop_token_ids: must be a list of at most %u token ids", GEN_MAX_STOPS);
    for (size_t i = 0; i < json_array_size(ids) && !gen_field_wrong(f); i++) {
        json_int_t id =
            json_is_integer(json_array_get(ids, i)) ? json_integer_value(json_array_get(ids, i)) : -1;
        if (id < 0 || id >= UINT32_MAX)
            gen_refuse_field(f->refusal, "stop_token_ids", "stop_token_ids: must be token ids");
        else
            a->stop[a->ask.stops++] = (uint32_t)id;
    }
    a->ask.stop = a->stop;
    a->ask.stop_text = a->stop_text;
    a->ask.stop_bytes = a->stop_bytes;
}

static void ask_read_lengths(struct gen_openai_ask *a, struct gen_fields *f)
{
    struct gen_request *r = &a->ask.request;
    double first = 0, each = 0;
    bool skip_special = true;
    a->max_tokens_said = gen_field_u32(f, "max_tokens", 1, UINT32_MAX, &r->max_tokens);
    if (a->kind == GEN_CHAT && gen_field_u32(f, "max_completion_tokens", 1, UINT32_MAX, &r->max_tokens))
        a->max_tokens_said = true;
    gen_field_u32(f, "min_tokens", 0, UINT32_MAX, &r->min_tokens);
    gen_field_bool(f, "ignore_eos", &a->ask.ignore_eos);
    gen_field_bool(f, "include_stop_str_in_output", &a->ask.keep_stop);
    gen_field_bool(f, "skip_special_tokens", &skip_special);
    a->ask.control = !skip_special;
    gen_field_number(f, "max_first_token_seconds", 1e-6, ASK_MAX_TIME, &first);
    gen_field_number(f, "max_token_seconds", 1e-6, ASK_MAX_TIME, &each);
    r->first_ns = (uint64_t)(first * ASK_SECOND);
    r->each_ns = (uint64_t)(each * ASK_SECOND);
}

/* ---- the rest */

/* FNV-1a. A client that does not know another's salt does not know its hash either, and so cannot meet it. */
static uint64_t ask_hash(const char *text, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

/* vLLM's priorities are any integers, the lower the earlier, and 0 where nothing is said. Ours begin at 1,
 * and such a request has 2. */
static void ask_read_priority(struct gen_openai_ask *a, struct gen_fields *f)
{
    int64_t priority = 0;
    gen_field_integer(f, "priority", INT32_MIN, INT32_MAX, &priority);
    a->ask.request.priority = priority < -1 ? 1 : (uint32_t)(priority + 2);
}

static void ask_read_stream(struct gen_openai_ask *a, struct gen_fields *f)
{
    const char *user = NULL, *salt = NULL;
    gen_field_bool(f, "stream", &a->stream);
    struct gen_fields options = {gen_field(f, "stream_options"), f->refusal};
    if (options.object && !json_is_object(options.object))
        gen_refuse_field(f->refusal, "stream_options", "stream_options: must be an object");
    if (options.object && !a->stream && !gen_field_wrong(f))
        gen_refuse_field(f->refusal, "stream_options", "stream_options: only where \"stream\" is true");
    if (options.object) gen_field_bool(&options, "include_usage", &a->include_usage);
    gen_field_text(f, "user", &user);
    if (gen_field_text(f, "cache_salt", &salt) && salt) a->ask.request.salt = ask_hash(salt, strlen(salt));
}

static void ask_read_common(struct gen_openai_ask *a, struct gen_fields *f)
{
    a->n = 1;
    gen_field_text(f, "model", &a->model);
    gen_field_u32(f, "n", 1, GEN_MAX_CHOICES, &a->n);
    a->ask.n = a->n;
    ask_read_stream(a, f);
    ask_read_sampling(a, f);
    ask_read_bias(a, f);
    ask_read_stops(a, f);
    ask_read_lengths(a, f);
    ask_read_priority(a, f);
    ask_read_unsupported(a, f);
}

/* ---- a chat */

/* A text, or parts of which all are texts: then one text of them all, as a new reference. NULL and the
 * refusal. */
static json_t *ask_flatten(const json_t *content, size_t message, struct gen_refusal *refusal)
{
    struct gw_text all = {0};
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") || !json_is_string(text)) {
            gen_refuse_field(refusal, "messages",
                             "messages[%zu].content[%zu]: only parts of type \"text\" are supported", message,
                             i);
            free(all.at);
            return NULL;
        }
        if (i) gw_text_add(&all, "\n", 1);
        gw_text_add(&all, json_string_value(text), json_string_length(text));
    }
    json_t *one = all.broken ? NULL : json_stringn(all.at ? all.at : "", all.bytes);
    free(all.at);
    if (!one) gen_refuse(refusal, 503, NULL, NULL, "out of memory");
    return one;
}

static int ask_read_message(json_t *message, size_t i, struct gen_refusal *refusal)
{
    const json_t *content = json_object_get(message, "content");
    if (!json_is_string(json_object_get(message, "role")))
        return gen_refuse_field(refusal, "messages", "messages[%zu]: must be an object with a role", i);
    if (json_is_array(content)) {
        json_t *one = ask_flatten(content, i, refusal);
        return one ? json_object_set_new(message, "content", one) : -1;
    }
    /* An assistant's message that is a call of tools has no content. */
    if (content && !json_is_null(content) && !json_is_string(content))
        return gen_refuse_field(refusal, "messages",
                                "messages[%zu].content: must be a string or a list of parts", i);
    if (!json_is_string(content) && !json_object_get(message, "tool_calls"))
        return gen_refuse_field(refusal, "messages", "messages[%zu].content: it is missing", i);
    return 0;
}

int gen_openai_messages(json_t *messages, struct gen_refusal *refusal)
{
    if (!json_is_array(messages) || !json_array_size(messages))
        return gen_refuse_field(refusal, "messages", "messages: must be a list with at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (ask_read_message(json_array_get(messages, i), i, refusal)) return -1;
    return 0;
}

static void ask_read_chat(struct gen_openai_ask *a, struct gen_fields *f)
{
    bool logprobs = false;
    a->generation_prompt = true;
    if (gen_field_wrong(f) || gen_openai_messages(json_object_get(a->body, "messages"), f->refusal)) return;
    a->messages = json_object_get(a->body, "messages");
    gen_field_bool(f, "add_generation_prompt", &a->generation_prompt);
    gen_field_bool(f, "logprobs", &logprobs);
    a->ask.logprobs = logprobs;
    if (gen_field_u32(f, "top_logprobs", 0, GEN_MAX_TOPS, &a->ask.request.tops) && !logprobs &&
        a->ask.request.tops)
        gen_refuse_field(f->refusal, "top_logprobs", "top_logprobs: only where \"logprobs\" is true");
    a->kwargs = gen_field(f, "chat_template_kwargs");
    if (a->kwargs && !json_is_object(a->kwargs))
        gen_refuse_field(f->refusal, "chat_template_kwargs", "chat_template_kwargs: must be an object");
    ask_read_tools(a, f);
}

/* ---- a completion */

static bool ask_is_ids(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *id = json_array_get(value, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= UINT32_MAX)
            return false;
    }
    return json_array_size(value) > 0;
}

int gen_openai_prompt_read(const json_t *value, int place, struct gen_openai_prompt *out,
                           struct gen_refusal *refusal)
{
    char name[32] = "prompt";
    if (place >= 0) snprintf(name, sizeof(name), "prompt[%d]", place);
    *out = (struct gen_openai_prompt){0};
    if (json_is_string(value)) {
        out->text = json_string_value(value);
        out->bytes = json_string_length(value);
        return 0;
    }
    out->ids = value;
    if (ask_is_ids(value)) return 0;
    return gen_refuse_field(refusal, "prompt", "%s: must be a string, or a list of token ids", name);
}

static void ask_read_prompts(struct gen_openai_ask *a, struct gen_fields *f)
{
    const json_t *prompt = gen_field(f, "prompt"), *first = json_array_get(prompt, 0);
    bool several = json_is_string(first) || json_is_array(first);
    size_t n = several ? json_array_size(prompt) : 1;
    if (gen_field_wrong(f)) return;
    if (n * a->n > GEN_MAX_CHOICES) {
        gen_refuse_field(f->refusal, "prompt",
                         "prompt: %zu prompts with %u answers each: must be at most %u answers", n, a->n,
                         GEN_MAX_CHOICES);
        return;
    }
    a->prompt = calloc(n, sizeof(*a->prompt));
    if (!a->prompt) {
        gen_refuse(f->refusal, 503, NULL, NULL, "out of memory");
        return;
    }
    for (; a->prompts < n; a->prompts++)
        if (gen_openai_prompt_read(several ? json_array_get(prompt, a->prompts) : prompt,
                                   several ? (int)a->prompts : -1, &a->prompt[a->prompts], f->refusal))
            return;
}

static void ask_read_completion(struct gen_openai_ask *a, struct gen_fields *f)
{
    a->special_tokens = true;
    gen_field_bool(f, "add_special_tokens", &a->special_tokens);
    gen_field_bool(f, "echo", &a->echo);
    a->ask.logprobs = gen_field_u32(f, "logprobs", 0, GEN_MAX_TOPS, &a->ask.request.tops);
    if (!gen_field_wrong(f) && a->echo && a->ask.logprobs)
        gen_refuse_field(f->refusal, "echo", "echo: not with logprobs, as prompts get none");
    ask_read_prompts(a, f);
}

int gen_openai_ask_parse(enum gen_openai_kind kind, const char *text, size_t bytes,
                         struct gen_openai_ask *out, struct gen_refusal *refusal)
{
    *out = (struct gen_openai_ask){.kind = kind};
    refusal->status = 0;
    refusal->retry_ns = 0;
    out->body = gen_openai_body(text, bytes, refusal);
    if (!out->body) return -1;
    struct gen_fields f = {out->body, refusal};
    ask_read_common(out, &f);
    if (kind == GEN_CHAT)
        ask_read_chat(out, &f);
    else
        ask_read_completion(out, &f);
    out->ask.prompts = kind == GEN_CHAT ? 1 : out->prompts;
    return refusal->status ? -1 : 0;
}

void gen_openai_ask_trim(struct gen_openai_ask *a)
{
    static const char *const kept[] = {"prompt", "stop", "model"};
    json_t *body = json_object();
    if (!body) return;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        json_t *value = json_object_get(a->body, kept[i]);
        if (value) json_object_set(body, kept[i], value);
    }
    json_decref(a->body);
    a->body = body;
    a->messages = a->tools = a->kwargs = NULL;
}

void gen_openai_ask_free(struct gen_openai_ask *a)
{
    free(a->prompt);
    free(a->bias);
    json_decref(a->body);
    *a = (struct gen_openai_ask){0};
}
