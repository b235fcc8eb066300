/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with a body: chats, completions, and the tokenizer's. Each runs on the thread of its connection,
 * which sleeps until there is text or the client goes. A client that goes takes its streams with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/openai/shared.h"
#include "src/generate/openai/prompt.h"
#include "src/generate/openai/tokens.h"
#include "src/generate/openai/write.h"

#define POST_STEP (4u << 10) /* the room for bodies is taken in such steps */
#define POST_GONE 499        /* in the access log alone: the client has gone */

struct post_call {
    struct gen_openai_door *door;
    const void *connection;
    const struct post_path *path;
    char who[GW_WHO_TEXT];
    struct gw_text body;
    uint64_t held; /* of the door's room */
    struct gen_refusal refusal;
    struct gen_openai_ask ask;
    struct gen_ids *ids; /* of each prompt */
    struct gen_writer writer;
    struct gen_service *service;
    struct gen_answer *answer;
    /* A stream. */
    struct gw_text out; /* written, and sent up to `sent` */
    size_t sent;
    bool ended; /* nothing comes after `out` */
    struct gw_access_request line;
    uint64_t began;
};

static void post_chat(struct post_call *c, struct gw_http_answer *answer);
static void post_completion(struct post_call *c, struct gw_http_answer *answer);
static void post_tokenize(struct post_call *c, struct gw_http_answer *answer);
static void post_detokenize(struct post_call *c, struct gw_http_answer *answer);

static const struct post_path {
    const char *path;
    void (*run)(struct post_call *c, struct gw_http_answer *answer);
} post_paths[] = {
    {"/v1/chat/completions", post_chat},
    {"/v1/completions", post_completion},
    {"/tokenize", post_tokenize},
    {"/detokenize", post_detokenize},
};

static const struct post_path *post_find(const char *path)
{
    for (size_t i = 0; i < sizeof(post_paths) / sizeof(post_paths[0]); i++)
        if (!strcmp(path, post_paths[i].path)) return &post_paths[i];
    return NULL;
}

bool gen_openai_is_post(const char *path)
{
    return post_find(path) != NULL;
}

void *gen_openai_post(void *ctx, const struct gw_http_request *r)
{
    const struct post_path *path = strcmp(r->method, "POST") ? NULL : post_find(r->path);
    struct post_call *c = path ? calloc(1, sizeof(*c)) : NULL;
    if (!c) return NULL;
    c->door = ctx;
    c->connection = r->connection;
    c->path = path;
    c->began = gw_deadline(0);
    snprintf(c->who, sizeof(c->who), "%s", r->who);
    return c;
}

/* ---- the body */

/* Counts memory for bodies that are being received: no client may take all there is. */
static bool post_may_hold(struct post_call *c, uint64_t bytes)
{
    uint64_t more = bytes > c->held ? (bytes - c->held + POST_STEP - 1) / POST_STEP * POST_STEP : 0;
    if (gw_room_take(&c->door->room, c->who, more)) {
        gen_refuse(&c->refusal, 503, NULL, NULL,
                   "the server is receiving too many long requests of this client; send fewer at once");
        return false;
    }
    c->held += more;
    return true;
}

void gen_openai_post_piece(void *stream, const char *data, size_t bytes)
{
    struct post_call *c = stream;
    c->line.in += bytes;
    if (c->refusal.status || !post_may_hold(c, c->body.bytes + bytes)) return;
    gw_text_add(&c->body, data, bytes);
    if (c->body.broken) gen_refuse(&c->refusal, 503, NULL, NULL, "out of memory");
}

/* ---- answers */

static void post_write_refusal(struct post_call *c, struct gw_http_answer *answer)
{
    *answer = (struct gw_http_answer){
        .status = c->refusal.status, .retry_ns = c->refusal.retry_ns, .json = gen_refusal_json(&c->refusal)};
    c->line.error = c->refusal.message;
    c->line.status = answer->status;
}

static void post_write_text(struct post_call *c, struct gw_text *text, struct gw_http_answer *answer)
{
    if (text->broken) {
        free(text->at);
        gen_refuse(&c->refusal, 503, NULL, NULL, "out of memory");
        post_write_refusal(c, answer);
        return;
    }
    answer->status = 200;
    answer->text = text->at;
    answer->bytes = text->bytes;
    c->line.status = 200;
    c->line.out = text->bytes;
}

/* The next piece. 1; -ENODATA: all is taken; -EPIPE: the client has gone. */
static int post_next(struct post_call *c, struct gen_piece *p)
{
    int got = gen_answer_take(c->answer, p);
    while (!got) {
        int err = gw_http_wait(c->connection, gen_answer_fd(c->answer), GW_NEVER);
        if (err) return err;
        got = gen_answer_take(c->answer, p);
    }
    return got;
}

/* The client has gone: the answer is for the log alone. */
static void post_gone(struct post_call *c, struct gw_http_answer *answer)
{
    gen_refuse(&c->refusal, 503, NULL, NULL, "the client has gone before its answer was complete");
    post_write_refusal(c, answer);
    c->line.status = POST_GONE;
}

/* ---- a whole answer */

static void post_whole(struct post_call *c, struct gw_http_answer *answer)
{
    struct gen_piece p;
    struct gw_text text = {0};
    int got;
    while ((got = post_next(c, &p)) > 0) {
        if (p.finish == GEN_FINISH_ERROR)
            gen_refuse_event(&c->refusal, p.status, p.detail);
        else
            gen_write_keep(&c->writer, &p);
        gen_piece_free(&p);
        if (c->refusal.status) break;
    }
    if (got == -EPIPE) {
        post_gone(c, answer);
    } else if (c->refusal.status) {
        post_write_refusal(c, answer);
    } else {
        gen_write_whole(&c->writer, &text);
        post_write_text(c, &text, answer);
    }
}

/* ---- a stream */

/* Writes what the piece says into c->out. */
static void post_stream_piece(struct post_call *c, struct gen_piece *p)
{
    if (p->finish == GEN_FINISH_ERROR) {
        gen_refuse_event(&c->refusal, p->status, p->detail);
        gen_write_error(&c->refusal, &c->out);
        gw_text_printf(&c->out, "data: [DONE]\n\n");
        c->line.error = c->refusal.message;
        c->ended = true;
    } else {
        gen_write_chunk(&c->writer, p, &c->out);
    }
    gen_piece_free(p);
}

/* Waits until c->out has something that was not sent. False: the client has gone. */
static bool post_stream_fill(struct post_call *c)
{
    struct gen_piece p;
    while (!c->ended && c->sent == c->out.bytes) {
        c->out.bytes = c->sent = 0;
        int got = post_next(c, &p);
        if (got == -EPIPE) return false;
        if (got > 0) {
            post_stream_piece(c, &p);
        } else {
            gen_write_done(&c->writer, &c->out);
            c->ended = true;
        }
    }
    return !c->out.broken;
}

/* gw_http_answer's `more`. */
static int64_t post_stream_more(void *ctx, char *to, size_t room)
{
    struct post_call *c = ctx;
    if (!post_stream_fill(c)) {
        c->line.status = POST_GONE;
        return GW_HTTP_CUT;
    }
    size_t left = c->out.bytes - c->sent, n = left < room ? left : room;
    if (!n) return GW_HTTP_END;
    memcpy(to, c->out.at + c->sent, n);
    c->sent += n;
    c->line.out += n;
    return (int64_t)n;
}

/* Begins when there is a first piece: a request that is refused gets a status that says so. */
static void post_stream(struct post_call *c, struct gw_http_answer *answer)
{
    struct gen_piece p;
    if (post_next(c, &p) < 0) {
        post_gone(c, answer);
    } else if (p.finish == GEN_FINISH_ERROR) {
        gen_refuse_event(&c->refusal, p.status, p.detail);
        gen_piece_free(&p);
        post_write_refusal(c, answer);
    } else {
        post_stream_piece(c, &p);
        *answer = (struct gw_http_answer){
            .status = 200, .type = "text/event-stream; charset=utf-8", .more = post_stream_more, .ctx = c};
        c->line.status = 200;
    }
}

/* ---- the calls */

/* The body has been read: a stream may go on for long, and others want the room. */
static void post_give_body(struct post_call *c)
{
    free(c->body.at);
    c->body = (struct gw_text){0};
    gw_room_give(&c->door->room, c->who, c->held);
    c->held = 0;
}

static int post_begin(struct post_call *c, enum gen_openai_kind kind)
{
    if (gen_openai_ask_parse(kind, c->body.at ? c->body.at : "", c->body.bytes, &c->ask, &c->refusal))
        return -1;
    c->service = gen_openai_find(c->door, c->ask.model, &c->refusal);
    if (!c->service) return -1;
    const struct gen_service_opts *s = gen_service_of(c->service);
    c->line.model = s->name;
    c->line.rows = c->ask.ask.prompts * c->ask.n;
    c->ids = calloc(c->ask.ask.prompts, sizeof(*c->ids));
    if (!c->ids) return gen_refuse(&c->refusal, 503, NULL, NULL, "out of memory");
    if (gen_openai_settle(s, &c->ask, c->ids, &c->refusal)) return -1;
    gen_openai_ask_trim(&c->ask);
    post_give_body(c);
    if (gen_writer_open(&c->writer, s, &c->ask, c->ids))
        return gen_refuse(&c->refusal, 503, NULL, NULL, "out of memory");
    c->line.id = c->writer.id;
    c->ask.ask.who = c->who;
    gw_http_busy(c->connection, 1); /* it may wait for a slot, which is not the client's fault */
    int err = gen_answer_begin(c->service, &c->ask.ask, &c->answer);
    gw_http_busy(c->connection, 0);
    return err ? gen_refuse_begin(&c->refusal, err) : 0;
}

static void post_generate(struct post_call *c, enum gen_openai_kind kind, struct gw_http_answer *answer)
{
    if (post_begin(c, kind))
        post_write_refusal(c, answer);
    else if (c->ask.stream)
        post_stream(c, answer);
    else
        post_whole(c, answer);
}

static void post_chat(struct post_call *c, struct gw_http_answer *answer)
{
    post_generate(c, GEN_CHAT, answer);
}

static void post_completion(struct post_call *c, struct gw_http_answer *answer)
{
    post_generate(c, GEN_COMPLETION, answer);
}

static void post_text_call(struct post_call *c, struct gw_http_answer *answer, gen_openai_text_call *run)
{
    struct gw_text text = {0};
    json_t *body = gen_openai_body(c->body.at ? c->body.at : "", c->body.bytes, &c->refusal);
    const json_t *model = json_object_get(body, "model");
    if (body) c->service = gen_openai_find(c->door, json_string_value(model), &c->refusal);
    if (c->service) c->line.model = gen_service_of(c->service)->name;
    int wrong = !c->service || run(gen_service_of(c->service), body, &text, &c->refusal);
    json_decref(body);
    if (!wrong) {
        post_write_text(c, &text, answer);
        return;
    }
    free(text.at);
    post_write_refusal(c, answer);
}

static void post_tokenize(struct post_call *c, struct gw_http_answer *answer)
{
    post_text_call(c, answer, gen_openai_tokenize);
}

static void post_detokenize(struct post_call *c, struct gw_http_answer *answer)
{
    post_text_call(c, answer, gen_openai_detokenize);
}

void gen_openai_post_finish(void *stream, struct gw_http_answer *answer)
{
    struct post_call *c = stream;
    if (c->refusal.status)
        post_write_refusal(c, answer);
    else
        c->path->run(c, answer);
}

void gen_openai_post_refuse(void *stream, unsigned status, const char *why)
{
    struct post_call *c = stream;
    gen_refuse(&c->refusal, status, NULL, NULL, "%s", why);
    c->line.status = status;
    c->line.error = c->refusal.message;
}

/* ---- the end */

static void post_log(struct post_call *c)
{
    if (!c->line.status) {
        c->line.status = POST_GONE;
        c->line.error = "the client has gone before its request was complete";
    }
    c->line.client = c->who;
    c->line.door = "openai";
    c->line.total_ns = gw_deadline(0) - c->began;
    gw_access_log(c->door->access, &c->line);
}

void gen_openai_post_drop(void *stream)
{
    struct post_call *c = stream;
    gen_answer_free(c->answer);
    post_log(c);
    gen_writer_close(&c->writer);
    for (uint32_t i = 0; c->ids && i < c->ask.ask.prompts; i++) gen_ids_free(&c->ids[i]);
    free(c->ids);
    gen_openai_ask_free(&c->ask);
    post_give_body(c);
    free(c->out.at);
    free(c);
}
