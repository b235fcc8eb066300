/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text of a choice's tokens, on a thread of the pool, and ends it where a stop string does. */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "src/generate/openai/impl.h"

/* What one look at a choice has made. */
struct choice_work {
    struct gen_choice *choice;
    struct gen_tokens came; /* taken from the choice */
    struct gw_text text;
    struct gen_tokens shown;
    uint32_t made;
    enum gen_finish finish;
    uint16_t status;
    int stopped_by;
    uint32_t stop_token;
};

static const struct gen_tokenizer *choice_tokenizer(const struct choice_work *w)
{
    return w->choice->answer->service->opts.tokenizer;
}

/* Shows text, through the stop strings where these count. True: one of them was the end. */
static bool choice_show(struct choice_work *w, const struct gw_text *piece, bool counts)
{
    struct gen_choice *c = w->choice;
    if (!piece->bytes) return false;
    if (!c->stop || !counts) {
        gw_text_add(&w->text, piece->at, piece->bytes);
        return false;
    }
    int stopped = gen_stop_feed(c->stop, piece->at, piece->bytes, &w->text);
    if (stopped < 0) w->text.broken = 1;
    if (stopped <= 0) return false;
    w->finish = GEN_FINISH_STOP;
    w->stopped_by = gen_stop_which(c->stop);
    return true;
}

/* The token that ended it is no text, unless the client wants it. */
static bool choice_token(struct choice_work *w, const struct gen_token *one, const struct gen_top *top,
                         bool last)
{
    const struct gen_answer *a = w->choice->answer;
    bool ends = last && w->came.last == GEN_STOPPED, over = false;
    struct gw_text piece = {0};
    w->made++;
    if (a->logprobs) gen_tokens_add(&w->shown, one, top);
    if (!ends || a->keep_stop) {
        if (gen_decoder_next(choice_tokenizer(w), &w->choice->decoder, one->id, a->control || ends, &piece))
            w->text.broken = 1;
        over = choice_show(w, &piece, w->made > a->min_tokens);
    }
    free(piece.at);
    return over;
}

/* The source has said its last word: what was held back is shown. */
static void choice_last(struct choice_work *w)
{
    struct gw_text piece = {0};
    uint16_t last = w->came.last;
    const uint32_t *own;
    w->finish = last == GEN_STOPPED  ? GEN_FINISH_STOP
                : last == GEN_LENGTH ? GEN_FINISH_LENGTH
                                     : GEN_FINISH_ERROR;
    w->status = last;
    if (last == GEN_STOPPED && w->came.count) {
        w->stop_token = w->came.at[w->came.count - 1].id;
        size_t n = gen_tokenizer_eos(choice_tokenizer(w), &own);
        for (size_t i = 0; i < n && i < w->choice->answer->eos_stops; i++)
            if (own[i] == w->stop_token) w->stop_token = GEN_NO_TOKEN;
    }
    if (gen_decoder_end(choice_tokenizer(w), &w->choice->decoder, &piece)) w->text.broken = 1;
    bool over = choice_show(w, &piece, true);
    if (!over && w->choice->stop && gen_stop_end(w->choice->stop, &w->text)) w->text.broken = 1;
    free(piece.at);
}

static void choice_read(struct choice_work *w)
{
    const struct gen_top *top = w->came.top;
    bool over = false;
    for (uint32_t i = 0; i < w->came.count && !over; i++) {
        over = choice_token(w, &w->came.at[i], top, i + 1 == w->came.count);
        top = gen_top_after(top, &w->came.at[i]);
    }
    if (!over && w->came.last) choice_last(w);
    if (w->text.broken || w->shown.last) {
        w->finish = GEN_FINISH_ERROR;
        w->status = GEN_FAILED;
    }
}

/* Hands a buffer over, or appends it to what was not taken yet. */
static void choice_append(struct gen_choice *c, struct choice_work *w)
{
    if (c->text.bytes) {
        gw_text_add(&c->text, w->text.at, w->text.bytes);
        free(w->text.at);
    } else {
        free(c->text.at);
        c->text = w->text;
    }
    const struct gen_top *top = w->shown.top;
    for (uint32_t i = 0; i < w->shown.count; i++) {
        gen_tokens_add(&c->shown, &w->shown.at[i], top);
        top = gen_top_after(top, &w->shown.at[i]);
    }
    gen_tokens_free(&w->shown);
    if (!c->text.broken && !c->shown.last) return;
    w->finish = GEN_FINISH_ERROR;
    w->status = GEN_FAILED;
}

/* Under the answer's lock. */
static void choice_publish(struct gen_choice *c, struct choice_work *w)
{
    struct gen_answer *a = c->answer;
    choice_append(c, w);
    c->end.made = w->made;
    c->end.cached = w->came.cached;
    c->end.finish = w->finish;
    c->end.status = w->status;
    c->end.detail = w->came.detail;
    c->end.stopped_by = w->stopped_by;
    c->end.stop_token = w->stop_token;
    c->over = w->finish != GEN_OPEN;
    c->by_text = w->finish == GEN_FINISH_STOP && w->stopped_by >= 0 && w->came.last == 0;
    if (!c->dirty && (c->over || c->text.bytes || c->shown.count)) {
        c->dirty = true;
        c->next_dirty = NULL;
        *a->dirty_end = c;
        a->dirty_end = &c->next_dirty;
    }
    eventfd_write(a->fd, 1);
}

/* Under the answer's lock. False: there is nothing more, and the answer may go. */
static bool choice_more(struct gen_choice *c, struct choice_work *w)
{
    struct gen_answer *a = c->answer;
    bool more = !a->closed && !c->over && (c->came.count || c->came.last);
    if (more) {
        *w = (struct choice_work){c, c->came, .made = c->end.made, .stopped_by = -1,
                                  .stop_token = GEN_NO_TOKEN};
        c->came = (struct gen_tokens){.cached = w->came.cached};
        return true;
    }
    c->queued = false;
    if (!--a->working) pthread_cond_signal(&a->idle);
    return false;
}

void gen_choice_work(struct gen_choice *c)
{
    struct gen_answer *a = c->answer;
    const struct gen_source *source = a->service->opts.source;
    struct choice_work w;
    pthread_mutex_lock(&a->lock);
    while (choice_more(c, &w)) {
        pthread_mutex_unlock(&a->lock);
        choice_read(&w);
        pthread_mutex_lock(&a->lock);
        uint16_t last = w.came.last;
        choice_publish(c, &w);
        struct gen_stream *stream = c->over && !last ? c->stream : NULL;
        pthread_mutex_unlock(&a->lock);
        gen_tokens_free(&w.came);
        /* Without the lock: the source may hold its own while it calls answer_event. The stream stays, as its
         * release waits for this thread. */
        if (stream) source->ops->cancel(stream);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
}
