/* SPDX-License-Identifier: Apache-2.0 */
/* Writes OpenAI's answers. Text is UTF-8 by then; a token of a logprob may be half a character. */
#include "src/generate/openai/write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WRITE_LEAST (-9999.0) /* of a logprob: JSON has no infinity */

int gen_writer_open(struct gen_writer *w, const struct gen_service_opts *s, const struct gen_openai_ask *ask,
                    const struct gen_ids *prompt)
{
    uint64_t random[2] = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(random, sizeof(random), 0) < 0) random[0] = (uint64_t)now.tv_nsec;
    *w = (struct gen_writer){.kind = ask->kind,
                             .created = now.tv_sec,
                             .model = s->name,
                             .tokenizer = s->tokenizer,
                             .ask = ask,
                             .prompt = prompt,
                             .choices = ask->ask.prompts * ask->n};
    snprintf(w->id, sizeof(w->id), "%s-%016" PRIx64 "%016" PRIx64,
             ask->kind == GEN_CHAT ? "chatcmpl" : "cmpl", random[0], random[1]);
    w->written = calloc(w->choices, sizeof(*w->written));
    return w->written ? 0 : -ENOMEM;
}

void gen_writer_close(struct gen_writer *w)
{
    for (uint32_t i = 0; w->written && i < w->choices; i++) {
        json_decref(w->written[i].logprobs);
        free(w->written[i].text.at);
    }
    free(w->written);
    w->written = NULL;
}

/* ---- logprobs */

static json_t *write_token_text(const struct gen_tokenizer *t, uint32_t id)
{
    size_t bytes;
    const char *at = gen_tokenizer_token(t, id, &bytes);
    json_t *text = json_stringn(bytes ? at : "", bytes);
    if (text) return text;
    struct gw_text clean = {0};
    for (size_t i = 0; i < bytes; i++)
        gw_text_add(&clean, at[i] & 0x80 ? "\xef\xbf\xbd" : at + i, at[i] & 0x80 ? 3 : 1);
    text = clean.broken ? NULL : json_stringn(clean.at, clean.bytes);
    free(clean.at);
    return text;
}

static json_t *write_logprob(float logprob)
{
    return json_real((double)logprob > WRITE_LEAST ? (double)logprob : WRITE_LEAST);
}

static json_t *write_chat_token(const struct gen_tokenizer *t, uint32_t id, float logprob)
{
    size_t n;
    const char *at = gen_tokenizer_token(t, id, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(bytes, json_integer((uint8_t)at[i]));
    return json_pack("{s:o, s:o, s:o}", "token", write_token_text(t, id), "logprob", write_logprob(logprob),
                     "bytes", bytes);
}

/* Appends to {"content": […]}. */
static void write_chat_logprobs(const struct gen_writer *w, const struct gen_piece *p, json_t *to)
{
    const struct gen_top *top = p->top;
    for (uint32_t i = 0; i < p->tokens; top = gen_top_after(top, &p->token[i++])) {
        json_t *one = write_chat_token(w->tokenizer, p->token[i].id, p->token[i].logprob),
               *tops = json_array();
        for (uint32_t k = 0; k < p->token[i].tops; k++)
            json_array_append_new(tops, write_chat_token(w->tokenizer, top[k].token, top[k].logprob));
        json_object_set_new(one, "top_logprobs", tops);
        json_array_append_new(json_object_get(to, "content"), one);
    }
}

static uint32_t write_characters(const char *text, size_t bytes)
{
    uint32_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += (text[i] & 0xc0) != 0x80;
    return n;
}

/* Appends to {"tokens": […], "token_logprobs", "top_logprobs", "text_offset"}. */
static void write_completion_logprobs(const struct gen_writer *w, const struct gen_piece *p, json_t *to)
{
    const struct gen_top *top = p->top;
    uint32_t *offset = &w->written[p->choice].offset;
    for (uint32_t i = 0; i < p->tokens; top = gen_top_after(top, &p->token[i++])) {
        json_t *text = write_token_text(w->tokenizer, p->token[i].id), *tops = json_object();
        for (uint32_t k = 0; k < p->token[i].tops; k++) {
            json_t *key = write_token_text(w->tokenizer, top[k].token);
            /* Two halves of characters may read the same: the likelier one stays. */
            if (key && !json_object_get(tops, json_string_value(key)))
                json_object_set_new(tops, json_string_value(key), write_logprob(top[k].logprob));
            json_decref(key);
        }
        json_array_append_new(json_object_get(to, "text_offset"), json_integer(*offset));
        if (w->ask->ask.control || !gen_tokenizer_is_control(w->tokenizer, p->token[i].id))
            *offset += write_characters(json_string_value(text), json_string_length(text));
        json_array_append_new(json_object_get(to, "tokens"), text);
        json_array_append_new(json_object_get(to, "token_logprobs"), write_logprob(p->token[i].logprob));
        json_array_append_new(json_object_get(to, "top_logprobs"), tops);
    }
}

static json_t *write_new_logprobs(const struct gen_writer *w)
{
    if (!w->ask->ask.logprobs) return NULL;
    return w->kind == GEN_CHAT ? json_pack("{s:[], s:n}", "content", "refusal")
                               : json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs",
                                           "top_logprobs", "text_offset");
}

static void write_logprobs(const struct gen_writer *w, const struct gen_piece *p, json_t *to)
{
    if (!to) return;
    if (w->kind == GEN_CHAT)
        write_chat_logprobs(w, p, to);
    else
        write_completion_logprobs(w, p, to);
}

/* ---- what chunks and whole answers share */

static const char *write_finish(const struct gen_piece *p)
{
    return p->finish == GEN_FINISH_STOP ? "stop" : p->finish == GEN_FINISH_LENGTH ? "length" : NULL;
}

/* As vLLM has it: what ended the choice, a string of the request's or a token; null, the model itself. */
static json_t *write_stop_reason(const struct gen_writer *w, const struct gen_piece *p)
{
    if (p->finish != GEN_FINISH_STOP) return json_null();
    if (p->stopped_by >= 0)
        return json_stringn(w->ask->stop_text[p->stopped_by], w->ask->stop_bytes[p->stopped_by]);
    return p->stop_token == GEN_NO_TOKEN ? json_null() : json_integer(p->stop_token);
}

static json_t *write_usage(const struct gen_writer *w)
{
    json_int_t prompt = 0, made = 0, cached = 0;
    for (uint32_t i = 0; i < w->ask->ask.prompts; i++) prompt += (json_int_t)w->prompt[i].count;
    for (uint32_t i = 0; i < w->choices; i++) made += w->written[i].end.made;
    for (uint32_t i = 0; i < w->choices; i += w->ask->n) cached += w->written[i].end.cached;
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", made,
                     "total_tokens", prompt + made, "prompt_tokens_details", "cached_tokens", cached);
}

static json_t *write_frame(const struct gen_writer *w, bool chunk, json_t *choices)
{
    const char *object = w->kind == GEN_COMPLETION ? "text_completion"
                         : chunk                   ? "chat.completion.chunk"
                                                   : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", w->id, "object", object, "created",
                     (json_int_t)w->created, "model", w->model, "choices", choices);
}

static void write_remember(struct gen_writer *w, const struct gen_piece *p)
{
    struct gen_piece *end = &w->written[p->choice].end;
    *end = *p;
    end->text = NULL;
    end->token = NULL;
    end->top = NULL;
}

/* With echo, the prompt stands before the answer. */
static void write_echo(struct gen_writer *w, uint32_t choice, struct gw_text *to)
{
    const struct gen_openai_prompt *p = &w->ask->prompt[choice / w->ask->n];
    const struct gen_ids *ids = &w->prompt[choice / w->ask->n];
    if (p->text)
        gw_text_add(to, p->text, p->bytes);
    else if (gen_tokenizer_decode(w->tokenizer, ids->at, ids->count, true, to))
        to->broken = 1;
}

/* ---- streams */

static void write_event(struct gw_text *to, json_t *value)
{
    gw_text_add(to, "data: ", 6);
    gw_text_json(to, value);
    gw_text_add(to, "\n\n", 2);
}

static void write_choice(struct gen_writer *w, const struct gen_piece *p, json_t *choice, struct gw_text *to)
{
    json_t *all = write_frame(w, true, json_pack("[o]", choice));
    const char *finish = write_finish(p);
    json_object_set_new(choice, "index", json_integer(p->choice));
    json_object_set_new(choice, "finish_reason", finish ? json_string(finish) : json_null());
    if (finish) json_object_set_new(choice, "stop_reason", write_stop_reason(w, p));
    if (w->ask->include_usage) json_object_set_new(all, "usage", json_null());
    write_event(to, all);
}

static void write_role(struct gen_writer *w, uint32_t choice, struct gw_text *to)
{
    struct gen_piece none = {.choice = choice};
    write_choice(w, &none,
                 json_pack("{s:{s:s, s:s}, s:n}", "delta", "role", "assistant", "content", "", "logprobs"),
                 to);
}

void gen_write_chunk(struct gen_writer *w, const struct gen_piece *p, struct gw_text *to)
{
    struct gen_written *c = &w->written[p->choice];
    struct gw_text text = {0};
    if (!c->begun && w->kind == GEN_CHAT) write_role(w, p->choice, to);
    if (!c->begun && w->ask->echo) write_echo(w, p->choice, &text);
    c->begun = true;
    if (p->bytes) gw_text_add(&text, p->text, p->bytes);
    json_t *logprobs = write_new_logprobs(w), *choice = json_object(), *delta = json_object();
    write_logprobs(w, p, logprobs);
    if (text.broken) to->broken = 1;
    json_t *value = json_stringn(text.bytes ? text.at : "", text.bytes);
    free(text.at);
    if (w->kind == GEN_COMPLETION)
        json_object_set_new(choice, "text", value);
    else if (text.bytes || !write_finish(p))
        json_object_set_new(delta, "content", value);
    else
        json_decref(value);
    if (w->kind == GEN_CHAT) json_object_set(choice, "delta", delta);
    json_decref(delta);
    json_object_set_new(choice, "logprobs", logprobs ? logprobs : json_null());
    write_choice(w, p, choice, to);
    write_remember(w, p);
}

void gen_write_done(struct gen_writer *w, struct gw_text *to)
{
    if (w->ask->include_usage) {
        json_t *all = write_frame(w, true, json_array());
        json_object_set_new(all, "usage", write_usage(w));
        write_event(to, all);
    }
    gw_text_printf(to, "data: [DONE]\n\n");
}

void gen_write_error(const struct gen_refusal *r, struct gw_text *to)
{
    write_event(to, gen_refusal_json(r));
}

/* ---- whole answers */

void gen_write_keep(struct gen_writer *w, const struct gen_piece *p)
{
    struct gen_written *c = &w->written[p->choice];
    if (!c->begun && w->ask->echo) write_echo(w, p->choice, &c->text);
    if (!c->begun) c->logprobs = write_new_logprobs(w);
    c->begun = true;
    if (p->bytes) gw_text_add(&c->text, p->text, p->bytes);
    write_logprobs(w, p, c->logprobs);
    write_remember(w, p);
}

static json_t *write_whole_choice(struct gen_writer *w, uint32_t i)
{
    struct gen_written *c = &w->written[i];
    json_t *text = c->text.broken ? NULL : json_stringn(c->text.bytes ? c->text.at : "", c->text.bytes);
    json_t *logprobs = c->logprobs ? json_incref(c->logprobs) : json_null();
    json_t *choice =
        json_pack("{s:i, s:o, s:s?, s:o}", "index", (int)i, "logprobs", logprobs, "finish_reason",
                  write_finish(&c->end), "stop_reason", write_stop_reason(w, &c->end));
    if (w->kind == GEN_COMPLETION)
        json_object_set_new(choice, "text", text);
    else
        json_object_set_new(choice, "message",
                            json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal"));
    return choice;
}

void gen_write_whole(struct gen_writer *w, struct gw_text *to)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < w->choices; i++) json_array_append_new(choices, write_whole_choice(w, i));
    json_t *all = write_frame(w, false, choices);
    json_object_set_new(all, "usage", write_usage(w));
    gw_text_json(to, all);
}
