/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a service: their text, how they end, and that nothing is left of those that are given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "src/door/text.h"
#include "tests/generate/openai/words.h"

static struct words w;

static struct gen_ask ask_of(const struct gen_ids *prompt, uint32_t max_tokens)
{
    struct gen_ask ask = {
        .prompt = prompt, .prompts = 1, .n = 1, .seeded = true, .ignore_eos = true, .who = "user 1"};
    ask.request.max_tokens = max_tokens;
    ask.request.temperature = ask.request.top_p = ask.request.repetition = 1;
    return ask;
}

static struct gen_ids prompt_of(const char *text)
{
    struct gen_ids ids = {0};
    assert_int_equal(gen_tokenizer_encode(w.tokenizer, text, strlen(text), 0, &ids), 0);
    return ids;
}

struct heard {
    struct gw_text text[8];
    struct gen_piece end[8];
    uint32_t tokens[8], pieces;
};

static void hear(struct gen_answer *a, struct heard *h)
{
    struct gen_piece p;
    int got;
    memset(h, 0, sizeof(*h));
    while ((got = gen_answer_take(a, &p)) >= 0) {
        struct pollfd fd = {.fd = gen_answer_fd(a), .events = POLLIN};
        if (!got) assert_int_equal(poll(&fd, 1, 20000), 1);
        if (!got) continue;
        if (p.bytes) gw_text_add(&h->text[p.choice], p.text, p.bytes);
        h->tokens[p.choice] += p.tokens;
        h->end[p.choice] = p;
        h->pieces++;
        gen_piece_free(&p);
    }
    assert_int_equal(got, -ENODATA);
    for (int i = 0; i < 8; i++)
        if (!h->text[i].at) gw_text_add(&h->text[i], "", 0);
}

static void forget(struct heard *h)
{
    for (int i = 0; i < 8; i++) free(h->text[i].at);
}

/* The whole text of one answer, and how it ended. */
static char *run(const struct gen_ask *ask, struct gen_piece *end)
{
    struct gen_answer *a;
    struct heard h;
    assert_int_equal(gen_answer_begin(w.service, ask, &a), 0);
    hear(a, &h);
    gen_answer_free(a);
    *end = h.end[0];
    char *text = strdup(h.text[0].at);
    forget(&h);
    return text;
}

static void a_seed_gives_the_same_text(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 100);
    struct gen_piece end;
    char *one = run(&ask, &end), *two = run(&ask, &end);
    (void)state;
    assert_string_equal(one, two);
    assert_int_equal(end.finish, GEN_FINISH_LENGTH);
    assert_int_equal(end.made, 100);
    ask.request.seed = 2;
    free(two);
    two = run(&ask, &end);
    assert_string_not_equal(one, two);
    free(one);
    free(two);
    gen_ids_free(&prompt);
}

static void a_stop_string_ends_it_before_the_string(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 200);
    struct gen_piece end;
    char *whole = run(&ask, &end), *space = strchr(whole + 1, ' ');
    const char *stop[] = {"no such text", space + 1};
    size_t bytes[] = {12, 9}; /* it lies across tokens */
    (void)state;
    ask.stop_text = stop;
    ask.stop_bytes = bytes;
    ask.stop_texts = 2;
    char *cut = run(&ask, &end);
    assert_int_equal(strlen(cut), space + 1 - whole);
    assert_memory_equal(cut, whole, strlen(cut));
    assert_int_equal(end.finish, GEN_FINISH_STOP);
    assert_int_equal(end.stopped_by, 1);
    assert_true(end.made < 10);
    ask.request.min_tokens = 100; /* no string counts before */
    free(cut);
    cut = run(&ask, &end);
    assert_true(end.made >= 100);
    free(cut);
    free(whole);
    gen_ids_free(&prompt);
}

/* The source says that such a request was taken back. */
static void a_stop_string_counts_as_a_stop(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 200);
    const char *stop[] = {" "};
    size_t bytes[] = {1};
    struct words slow;
    struct gen_answer *a;
    struct heard h;
    (void)state;
    ask.stop_text = stop;
    ask.stop_bytes = bytes;
    ask.stop_texts = 1;
    assert_int_equal(words_open(&slow, 10000000, 4), 0);
    assert_int_equal(gen_answer_begin(slow.service, &ask, &a), 0);
    hear(a, &h);
    assert_int_equal(h.end[0].stopped_by, 0);
    gen_answer_free(a);
    struct gen_service_stats stats;
    gen_service_stats(slow.service, &stats);
    assert_int_equal(stats.text_stops, 1);
    assert_int_equal(stats.prompts.sum, prompt.count);
    assert_int_equal(stats.prompts.count[2], 1); /* 3 … 5 tokens */
    words_close(&slow);
    forget(&h);
    gen_ids_free(&prompt);
}

static void the_end_of_a_turn_is_no_text(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 2000);
    struct gen_piece end;
    (void)state;
    ask.ignore_eos = false;
    char *text = run(&ask, &end);
    assert_null(strstr(text, "<|end|>"));
    assert_int_equal(end.finish, GEN_FINISH_STOP);
    assert_int_equal(end.stop_token, GEN_NO_TOKEN);
    assert_int_equal(end.stopped_by, -1);
    free(text);
    ask.ignore_eos = true;
    ask.stop = &w.end;
    ask.stops = 1;
    ask.keep_stop = true;
    text = run(&ask, &end);
    assert_non_null(strstr(text, "<|end|>"));
    assert_int_equal(end.stop_token, w.end);
    free(text);
    gen_ids_free(&prompt);
}

static void each_of_n_answers_has_a_seed_of_its_own(void **state)
{
    struct gen_ids prompt[] = {prompt_of("a"), prompt_of("b")};
    struct gen_ask ask = ask_of(prompt, 30);
    struct gen_answer *a;
    struct heard h;
    struct gen_piece end;
    (void)state;
    ask.prompts = 2;
    ask.n = 3;
    ask.logprobs = true;
    ask.request.tops = 2;
    assert_int_equal(gen_answer_begin(w.service, &ask, &a), 0);
    hear(a, &h);
    gen_answer_free(a);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(h.tokens[i], 30);
        assert_int_equal(h.end[i].finish, GEN_FINISH_LENGTH);
        for (int k = 0; k < i; k++) assert_string_not_equal(h.text[i].at, h.text[k].at);
    }
    ask = ask_of(&prompt[1], 30);
    ask.request.seed = 2;
    char *alone = run(&ask, &end);
    assert_string_equal(alone, h.text[5].at);
    free(alone);
    forget(&h);
    gen_ids_free(&prompt[0]);
    gen_ids_free(&prompt[1]);
}

/* It takes nothing until all is made: then it comes in few pieces, and others were not held. */
static void a_slow_reader_holds_nobody(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 2000);
    struct gen_answer *slow;
    struct heard h;
    struct gen_piece end;
    (void)state;
    assert_int_equal(gen_answer_begin(w.service, &ask, &slow), 0);
    char *text = run(&ask, &end);
    hear(slow, &h);
    assert_string_equal(h.text[0].at, text);
    assert_true(h.pieces < 2000);
    gen_answer_free(slow);
    free(text);
    forget(&h);
    gen_ids_free(&prompt);
}

static void failures_of_the_source_are_told(void **state)
{
    static const uint16_t fate[] = {GEN_LATE, GEN_INVALID, GEN_CLOSING, GEN_FULL, GEN_FAILED};
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 20);
    struct gen_piece end;
    (void)state;
    for (size_t i = 0; i < sizeof(fate) / sizeof(fate[0]); i++) {
        fake_source_fail(w.fake, fate[i]);
        free(run(&ask, &end));
        assert_int_equal(end.finish, GEN_FINISH_ERROR);
        assert_int_equal(end.status, fate[i]);
    }
    fake_source_fail(w.fake, GEN_GOING);
    gen_ids_free(&prompt);
}

static void what_is_given_up_leaves_nothing(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, 2000);
    struct gen_answer *a;
    struct gen_piece p;
    (void)state;
    ask.n = 8;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(gen_answer_begin(w.service, &ask, &a), 0);
        for (int k = 0; k < i % 5; k++)
            if (gen_answer_take(a, &p) > 0) gen_piece_free(&p);
        gen_answer_free(a);
    }
    assert_int_equal(fake_source_streams(w.fake), 0);
    assert_int_equal(gen_service_answers(w.service), 0);
    gen_ids_free(&prompt);
}

static void more_than_there_are_slots_is_refused_whole(void **state)
{
    struct gen_ids prompt = prompt_of("Hello");
    struct gen_ask ask = ask_of(&prompt, WORDS_MAX_TOKENS);
    struct words few;
    struct gen_answer *a;
    (void)state;
    assert_int_equal(words_open(&few, 100000000, 4), 0);
    ask.n = 5;
    assert_int_equal(gen_answer_begin(few.service, &ask, &a), -ETIMEDOUT);
    assert_int_equal(fake_source_streams(few.fake), 0);
    ask.n = 4;
    assert_int_equal(gen_answer_begin(few.service, &ask, &a), 0);
    gen_service_drain(few.service);
    struct gen_answer *late;
    assert_int_equal(gen_answer_begin(few.service, &ask, &late), -ESHUTDOWN);
    gen_answer_free(a);
    words_close(&few);
    gen_ids_free(&prompt);
}

static int open_words(void **state)
{
    (void)state;
    return words_open(&w, 0, 64);
}

static int close_words(void **state)
{
    (void)state;
    words_close(&w);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_the_same_text),
        cmocka_unit_test(a_stop_string_ends_it_before_the_string),
        cmocka_unit_test(a_stop_string_counts_as_a_stop),
        cmocka_unit_test(the_end_of_a_turn_is_no_text),
        cmocka_unit_test(each_of_n_answers_has_a_seed_of_its_own),
        cmocka_unit_test(a_slow_reader_holds_nobody),
        cmocka_unit_test(failures_of_the_source_are_told),
        cmocka_unit_test(what_is_given_up_leaves_nothing),
        cmocka_unit_test(more_than_there_are_slots_is_refused_whole),
    };
    return cmocka_run_group_tests(tests, open_words, close_words);
}
