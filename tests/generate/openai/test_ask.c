/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of OpenAI's API: what each field does, and what is refused with which field's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/generate/openai/ask.h"

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static struct gen_openai_ask ask;
static struct gen_refusal refusal;

static int parse(enum gen_openai_kind kind, const char *text)
{
    gen_openai_ask_free(&ask);
    return gen_openai_ask_parse(kind, text, strlen(text), &ask, &refusal);
}

static void the_defaults_are_openais(void **state)
{
    (void)state;
    assert_int_equal(parse(GEN_CHAT, "{" CHAT "}"), 0);
    assert_null(ask.model);
    assert_int_equal(ask.n, 1);
    assert_false(ask.stream);
    assert_true(ask.generation_prompt);
    assert_false(ask.max_tokens_said || ask.temperature_said || ask.ask.seeded || ask.ask.logprobs);
    assert_int_equal(ask.ask.request.priority, 2);
    assert_int_equal(ask.ask.prompts, 1);
    assert_int_equal(parse(GEN_COMPLETION, "{\"prompt\":\"a\",\"unknown\":{\"x\":[1]},\"max_tokens\":null}"),
                     0);
    assert_true(ask.special_tokens);
    assert_false(ask.max_tokens_said);
}

static void every_field_counts(void **state)
{
    const struct gen_request *r = &ask.ask.request;
    (void)state;
    assert_int_equal(
        parse(GEN_CHAT,
              "{" CHAT ",\"model\":\"m\",\"max_tokens\":7,\"max_completion_tokens\":9.0,\"temperature\":0.5,"
              "\"top_p\":0.25,"
              "\"n\":3,\"stop\":[\"a\",\"bc\"],\"seed\":-1,\"presence_penalty\":1,\"frequency_penalty\":-1.5,"
              "\"logit_bias\":{\"5\":-100,\"6\":2.5},\"logprobs\":true,\"top_logprobs\":4,\"user\":\"u\","
              "\"stream\":true,"
              "\"stream_options\":{\"include_usage\":true},\"response_format\":{\"type\":\"text\"},\"tools\":"
              "[{\"a\":1}],"
              "\"tool_choice\":\"auto\",\"top_k\":11,\"min_p\":0.125,\"repetition_penalty\":1.5,\"min_"
              "tokens\":2,"
              "\"ignore_eos\":true,\"stop_token_ids\":[8],\"priority\":-5,\"skip_special_tokens\":false,"
              "\"add_generation_prompt\":false,\"cache_salt\":\"s\",\"max_first_token_seconds\":1.5,"
              "\"max_token_seconds\":0.25,\"include_stop_str_in_output\":true,\"chat_template_kwargs\":{"
              "\"think\":false}}"),
        0);
    assert_string_equal(ask.model, "m");
    assert_true(ask.max_tokens_said && r->max_tokens == 9 && r->min_tokens == 2);
    assert_true(ask.temperature_said && r->temperature == 0.5f && r->top_p == 0.25f && r->min_p == 0.125f);
    assert_true(r->top_k == 11 && r->repetition == 1.5f && r->presence == 1 && r->frequency == -1.5f);
    assert_true(ask.n == 3 && ask.ask.n == 3 && ask.ask.seeded && r->seed == UINT64_MAX);
    assert_true(ask.ask.stop_texts == 2 && ask.ask.stop_bytes[1] == 2 &&
                !memcmp(ask.ask.stop_text[1], "bc", 2));
    assert_true(ask.ask.biases == 2 && ask.bias[0].token == 5 && ask.bias[0].logprob == -100);
    assert_true(ask.ask.logprobs && r->tops == 4 && ask.stream && ask.include_usage && ask.tools &&
                ask.kwargs);
    assert_true(ask.ask.ignore_eos && ask.ask.stops == 1 && ask.stop[0] == 8 && ask.ask.control &&
                ask.ask.keep_stop);
    assert_true(r->priority == 1 && r->salt && !ask.generation_prompt);
    assert_true(r->first_ns == 1500000000 && r->each_ns == 250000000);
}

static void prompts_are_texts_or_ids_or_lists(void **state)
{
    (void)state;
    assert_int_equal(parse(GEN_COMPLETION, "{\"prompt\":[\"a\",\"bc\",[1,2]],\"n\":2}"), 0);
    assert_int_equal(ask.ask.prompts, 3);
    assert_true(ask.prompt[1].bytes == 2 && json_array_size(ask.prompt[2].ids) == 2);
    assert_int_equal(parse(GEN_COMPLETION, "{\"prompt\":[7,8,9]}"), 0);
    assert_true(ask.ask.prompts == 1 && json_array_size(ask.prompt[0].ids) == 3);
}

static void parts_of_text_become_one(void **state)
{
    (void)state;
    assert_int_equal(
        parse(GEN_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                        "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,"
                        "\"tool_calls\":[]}]}"),
        0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(ask.messages, 0), "content")),
                        "a\nb");
}

static const struct {
    enum gen_openai_kind kind;
    const char *body, *param;
} wrong[] = {
    {GEN_CHAT, "", ""},
    {GEN_CHAT, "[]", ""},
    {GEN_CHAT, "{", ""},
    {GEN_CHAT, "{\"a\":1,\"a\":2}", ""},
    {GEN_CHAT, "{\"model\":\"\xff\"}", ""},
    {GEN_CHAT, "{\"model\":\"a\\u0000b\"}", ""},
    {GEN_CHAT, "{" CHAT ",\"temperature\":NaN}", ""},
    {GEN_CHAT, "{" CHAT ",\"temperature\":1e999}", ""},
    {GEN_CHAT, "{" CHAT ",\"n\":99999999999999999999}", ""},
    {GEN_CHAT, "{\"model\":5}", "model"},
    {GEN_CHAT, "{}", "messages"},
    {GEN_CHAT, "{\"messages\":[]}", "messages"},
    {GEN_CHAT, "{\"messages\":[5]}", "messages"},
    {GEN_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "messages"},
    {GEN_CHAT, "{\"messages\":[{\"content\":\"a\"}]}", "messages"},
    {GEN_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "messages"},
    {GEN_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", "messages"},
    {GEN_CHAT, "{" CHAT ",\"n\":1000000000}", "n"},
    {GEN_CHAT, "{" CHAT ",\"n\":0}", "n"},
    {GEN_CHAT, "{" CHAT ",\"n\":1.5}", "n"},
    {GEN_CHAT, "{" CHAT ",\"n\":true}", "n"},
    {GEN_CHAT, "{" CHAT ",\"max_tokens\":-1}", "max_tokens"},
    {GEN_CHAT, "{" CHAT ",\"max_tokens\":\"5\"}", "max_tokens"},
    {GEN_CHAT, "{" CHAT ",\"max_completion_tokens\":0}", "max_completion_tokens"},
    {GEN_CHAT, "{" CHAT ",\"temperature\":-0.1}", "temperature"},
    {GEN_CHAT, "{" CHAT ",\"top_p\":1.1}", "top_p"},
    {GEN_CHAT, "{" CHAT ",\"min_p\":1}", "min_p"},
    {GEN_CHAT, "{" CHAT ",\"top_k\":-2}", "top_k"},
    {GEN_CHAT, "{" CHAT ",\"repetition_penalty\":0}", "repetition_penalty"},
    {GEN_CHAT, "{" CHAT ",\"presence_penalty\":3}", "presence_penalty"},
    {GEN_CHAT, "{" CHAT ",\"stop\":\"\"}", "stop"},
    {GEN_CHAT, "{" CHAT ",\"stop\":5}", "stop"},
    {GEN_CHAT, "{" CHAT ",\"stop\":[[]]}", "stop"},
    {GEN_CHAT, "{" CHAT ",\"stop_token_ids\":[-1]}", "stop_token_ids"},
    {GEN_CHAT, "{" CHAT ",\"stop_token_ids\":[4294967295]}", "stop_token_ids"},
    {GEN_CHAT, "{" CHAT ",\"logit_bias\":[]}", "logit_bias"},
    {GEN_CHAT, "{" CHAT ",\"logit_bias\":{\"x\":1}}", "logit_bias"},
    {GEN_CHAT, "{" CHAT ",\"logit_bias\":{\"1\":101}}", "logit_bias"},
    {GEN_CHAT, "{" CHAT ",\"logprobs\":3}", "logprobs"},
    {GEN_CHAT, "{" CHAT ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs"},
    {GEN_CHAT, "{" CHAT ",\"top_logprobs\":2}", "top_logprobs"},
    {GEN_CHAT, "{" CHAT ",\"stream\":\"yes\"}", "stream"},
    {GEN_CHAT, "{" CHAT ",\"stream_options\":{}}", "stream_options"},
    {GEN_CHAT, "{" CHAT ",\"response_format\":{\"type\":\"json_object\"}}", "response_format"},
    {GEN_CHAT, "{" CHAT ",\"response_format\":5}", "response_format"},
    {GEN_CHAT, "{" CHAT ",\"tools\":{}}", "tools"},
    {GEN_CHAT, "{" CHAT ",\"tool_choice\":\"required\"}", "tool_choice"},
    {GEN_CHAT, "{" CHAT ",\"best_of\":2}", "best_of"},
    {GEN_CHAT, "{" CHAT ",\"seed\":1.5}", "seed"},
    {GEN_CHAT, "{" CHAT ",\"max_first_token_seconds\":0}", "max_first_token_seconds"},
    {GEN_COMPLETION, "{}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":5}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":[]}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":[1,\"a\"]}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":[\"a\",[]]}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":[1,-1]}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":[[1],[2]],\"n\":200}", "prompt"},
    {GEN_COMPLETION, "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
    {GEN_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":1,\"echo\":true}", "echo"},
    {GEN_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":-1}", "logprobs"},
};

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int result = parse(wrong[i].kind, wrong[i].body);
        if (result != -1 || refusal.status != 400 || strcmp(refusal.param, wrong[i].param))
            fail_msg("%s: %d, %u %s: %s", wrong[i].body, result, refusal.status, refusal.param,
                     refusal.message);
        json_t *all = gen_refusal_json(&refusal);
        assert_true(json_is_string(json_object_get(json_object_get(all, "error"), "message")));
        json_decref(all);
    }
}

static char *repeat(const char *begin, const char *what, size_t times, const char *end)
{
    size_t n = strlen(what);
    char *text = malloc(strlen(begin) + n * times + strlen(end) + 1), *at = stpcpy(text, begin);
    for (size_t i = 0; i < times; i++) at = stpcpy(at, what);
    strcpy(at, end);
    return text;
}

static void what_is_too_much_is_refused(void **state)
{
    struct {
        const char *begin, *what;
        size_t times;
        const char *end, *param;
    } many[] = {
        {"{" CHAT ",\"stop\":\"", "x", 1 << 20, "\"}", "stop"},
        {"{" CHAT ",\"stop\":[", "\"a\",", 16, "\"a\"]}", "stop"},
        {"{" CHAT ",\"stop_token_ids\":[", "1,", 16, "1]}", "stop_token_ids"},
        {"{" CHAT ",\"tools\":", "[", 1 << 20, "", ""},
        {"", "{\"a\":", 1 << 20, "", ""},
        {"{" CHAT ",\"tools\":", "[", 70, "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        char *text = repeat(many[i].begin, many[i].what, many[i].times, many[i].end);
        assert_int_equal(parse(GEN_CHAT, text), -1);
        assert_int_equal(refusal.status, 400);
        assert_string_equal(refusal.param, many[i].param);
        free(text);
    }
    char *text = repeat("{\"prompt\":[", "1,", 1000000, "1]}"); /* its model says that it is too long */
    assert_int_equal(parse(GEN_COMPLETION, text), 0);
    free(text);
}

static int end_ask(void **state)
{
    (void)state;
    gen_openai_ask_free(&ask);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_openais),          cmocka_unit_test(every_field_counts),
        cmocka_unit_test(prompts_are_texts_or_ids_or_lists), cmocka_unit_test(parts_of_text_become_one),
        cmocka_unit_test(what_makes_no_sense_is_refused),    cmocka_unit_test(what_is_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, end_ask);
}
