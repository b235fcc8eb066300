/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers and templates: what is refused, which ids are special, that no stranger writes a control
 * token, streams of text, threads, and texts that are large. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpuwire/error.h"
#include "src/generate/text/chat.h"
#include "src/generate/text/tokenizer.h"

/* Bytes of text are tokens by themselves; ids 100 and on are added. */
#define MODEL                                                                                                \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"<\": 0, \"|\": 1, \">\": 2, \"e\": 3, \"n\": 4, \"d\": "   \
    "5, \"en\": 6, \"a\": 7,"                                                                                \
    " \"\\u00c3\": 8, \"\\u00a9\": 9, \"\\u00e2\": 10, \"\\u0124\": 11, \"\\u00ac\": 12, \"\\u0120\": 13},"  \
    " \"merges\": [\"e n\"]}"
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"
#define ADDED                                                                                                \
    "\"added_tokens\": [{\"id\": 100, \"content\": \"<|end|>\", \"special\": true}, {\"id\": 101, "          \
    "\"content\": \"<|a|>\", \"special\": false},"                                                           \
    " {\"id\": 102, \"content\": \"<|de|>\", \"special\": false}]"
#define TOKENIZER "{\"pre_tokenizer\": " LEVEL ", \"decoder\": " LEVEL ", " ADDED ", " MODEL "}"

static struct gen_tokenizer *parse(const char *json)
{
    struct gen_tokenizer *t;
    if (gen_tokenizer_parse(json, strlen(json), &t)) fail_msg("%s", gw_last_error());
    return t;
}

static void assert_ids(const struct gen_ids *ids, const uint32_t *want, size_t count)
{
    assert_int_equal(ids->count, count);
    assert_memory_equal(ids->at, want, count * sizeof(*want));
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
        int err;
    } files[] = {
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}", "'WordPiece'", -ENOTSUP},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "'Unigram'", -ENOTSUP},
        {"{\"normalizer\": {\"type\": \"Precompiled\"}, " MODEL "}", "normalizer of type 'Precompiled'",
         -ENOTSUP},
        {"{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " MODEL "}", "'UnicodeScripts'", -ENOTSUP},
        {"{\"decoder\": {\"type\": \"CTC\"}, " MODEL "}", "'CTC'", -ENOTSUP},
        {"{\"post_processor\": {\"type\": \"Other\"}, " MODEL "}", "'Other'", -ENOTSUP},
        {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": "
         "\"Isolated\"}, " MODEL "}",
         "pattern '('", -EINVAL},
        {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": "
         "\"Often\"}, " MODEL "}",
         "'Often'", -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", "merge 1",
         -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"ab\"]}}", "merge 1", -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}", "id of 'a'", -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999999}, \"merges\": []}}", "id of 'a'",
         -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {\"a\": 0}, \"merges\": []}}",
         "dropout", -ENOTSUP},
        {"{\"model\": {\"type\": \"BPE\", \"unk_token\": \"u\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
         "unk_token", -EINVAL},
        {"{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0}, \"merges\": []}}",
         "<0x00>", -ENOTSUP},
        {"{\"added_tokens\": [{\"content\": \"a\"}], " MODEL "}", "added token", -EINVAL},
        {"[]", "not a JSON object", -EINVAL},
        {"{", "line 1", -EINVAL},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct gen_tokenizer *t;
        assert_int_equal(gen_tokenizer_parse(files[i].json, strlen(files[i].json), &t), files[i].err);
        assert_null(t);
        if (!strstr(gw_last_error(), files[i].word))
            fail_msg("'%s' lacks %s", gw_last_error(), files[i].word);
    }
}

static char folder[] = "/tmp/gpuwire-test-text.XXXXXX";

static void put_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
}

static void remove_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

static void finds_special_ids(void **state)
{
    (void)state;
    struct gen_tokenizer *t;
    struct gen_chat *c;
    const uint32_t *eos;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(gen_tokenizer_open(folder, &t), -ENOENT);
    assert_int_equal(gen_chat_open(folder, &c), -ENOENT);
    put_file("tokenizer.json", TOKENIZER);
    put_file("config.json", "{\"eos_token_id\": 7, \"bos_token_id\": 3}");
    assert_int_equal(gen_tokenizer_open(folder, &t), 0);
    assert_int_equal(gen_tokenizer_eos(t, &eos), 1);
    assert_int_equal(eos[0], 7);
    assert_int_equal(gen_tokenizer_bos(t), 3);
    assert_int_equal(gen_tokenizer_pad(t), GEN_NO_TOKEN);
    assert_int_equal(gen_tokenizer_size(t), 103);
    gen_tokenizer_close(t);
    put_file("tokenizer_config.json",
             "{\"eos_token\": {\"content\": \"<|end|>\"}, \"bos_token\": \"a\", \"pad_token\": null,"
             " \"chat_template\": \"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}\\n\"}");
    put_file("generation_config.json",
             "{\"eos_token_id\": [101, 100], \"pad_token_id\": 5, \"bos_token_id\": 2}");
    put_file("genai_config.json", "{\"model\": {\"eos_token_id\": 6}}");
    assert_int_equal(gen_tokenizer_open(folder, &t), 0);
    assert_int_equal(gen_tokenizer_eos(t, &eos), 3);
    assert_int_equal(eos[0], 100);
    assert_int_equal(eos[1], 101);
    assert_int_equal(eos[2], 6);
    assert_int_equal(gen_tokenizer_bos(t), 7);
    assert_int_equal(gen_tokenizer_pad(t), 5);
    /* <|a|> ends an answer here, so no stranger may write it, though the file does not call it special. */
    struct gen_ids ids = {0};
    assert_int_equal(gen_tokenizer_encode(t, "<|a|><|de|>", 11, 0, &ids), 0);
    assert_ids(&ids, (const uint32_t[]){0, 1, 7, 1, 2, 102}, 6);
    gen_ids_free(&ids);
    gen_tokenizer_close(t);
    put_file("generation_config.json", "{");
    assert_int_equal(gen_tokenizer_open(folder, &t), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "generation_config.json"));
}

static void renders_the_template_of_a_folder(void **state)
{
    (void)state;
    struct gen_chat *c;
    struct gen_rendered r;
    json_t *variables = json_pack("{s:[{s:s,s:s}]}", "messages", "role", "user", "content", "hi");
    assert_int_equal(gen_chat_open(folder, &c), 0);
    assert_int_equal(gen_chat_render(c, variables, &r), 0);
    assert_int_equal(r.bytes, 10);
    assert_memory_equal(r.text, "ahi<|end|>", 10);
    assert_memory_equal(r.foreign, "\0\1\1\0\0\0\0\0\0\0", 10);
    gen_rendered_free(&r);
    gen_chat_close(c);
    put_file("chat_template.jinja", "{{ messages | length }}\r\n\n");
    assert_int_equal(gen_chat_open(folder, &c), 0);
    assert_int_equal(gen_chat_render(c, variables, &r), 0);
    assert_int_equal(r.bytes, 2);
    assert_memory_equal(r.text, "1\n", 2);
    gen_rendered_free(&r);
    gen_chat_close(c);
    put_file("chat_template.jinja", "\n{{ x | y }}");
    assert_int_equal(gen_chat_open(folder, &c), -ENOTSUP);
    assert_non_null(strstr(gw_last_error(), "line 2"));
    json_decref(variables);
    static const char *const names[] = {"tokenizer.json",        "config.json",
                                        "tokenizer_config.json", "generation_config.json",
                                        "genai_config.json",     "chat_template.jinja"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) remove_file(names[i]);
    assert_int_equal(rmdir(folder), 0);
}

static void keeps_control_tokens_from_strangers(void **state)
{
    (void)state;
    struct gen_tokenizer *t = parse(TOKENIZER);
    struct gen_ids ids = {0};
    static const uint32_t as_text[] = {0, 1, 6, 5, 1, 2}, as_control[] = {100};
    assert_int_equal(gen_tokenizer_encode(t, "<|end|>", 7, 0, &ids), 0);
    assert_ids(&ids, as_text, 6);
    ids.count = 0;
    assert_int_equal(gen_tokenizer_encode(t, "<|end|>", 7, GEN_ENCODE_CONTROL, &ids), 0);
    assert_ids(&ids, as_control, 1);
    for (unsigned i = 0; i < 128; i++) { /* each bit: whose a byte is */
        unsigned char foreign[7];
        for (unsigned k = 0; k < 7; k++) foreign[k] = i >> k & 1;
        struct gen_mixed mixed = {.text = "<|end|>", .foreign = foreign, .bytes = 7};
        ids.count = 0;
        assert_int_equal(gen_tokenizer_encode_mixed(t, &mixed, &ids), 0);
        if (i)
            assert_ids(&ids, as_text, 6);
        else
            assert_ids(&ids, as_control, 1);
    }
    gen_ids_free(&ids);
    gen_tokenizer_close(t);
}

/* Two messages side by side, whose texts together spell a control token. */
static void keeps_control_tokens_from_two_strangers(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}{{ m.content }}{% endfor %}<|end|>{{ messages[0].content | upper | lower }}";
    struct gen_tokenizer *t = parse(TOKENIZER);
    struct gen_chat *c;
    struct gen_rendered r;
    struct gen_ids ids = {0};
    json_t *variables = json_pack("{s:[{s:s},{s:s}]}", "messages", "content", "<|en", "content", "d|>");
    assert_int_equal(gen_chat_parse(source, strlen(source), NULL, &c), 0);
    assert_int_equal(gen_chat_render(c, variables, &r), 0);
    struct gen_mixed mixed = {.text = r.text, .foreign = r.foreign, .bytes = r.bytes};
    assert_int_equal(gen_tokenizer_encode_mixed(t, &mixed, &ids), 0);
    assert_ids(&ids, (const uint32_t[]){0, 1, 6, 5, 1, 2, 100, 0, 1, 6}, 10);
    json_decref(variables);
    gen_rendered_free(&r);
    gen_ids_free(&ids);
    gen_chat_close(c);
    gen_tokenizer_close(t);
}

static void decodes_a_stream(void **state)
{
    (void)state;
    struct gen_tokenizer *t = parse(TOKENIZER);
    struct gen_decoder d = {0};
    struct gw_text text = {0};
    /* é, in two tokens; <|end|>, which does not show; € without its last byte; a; é's first byte. */
    static const uint32_t ids[] = {8, 9, 100, 10, 11, 7, 8};
    static const size_t bytes[] = {0, 2, 2, 2, 2, 6, 6};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(gen_decoder_next(t, &d, ids[i], false, &text), 0);
        assert_int_equal(text.bytes, bytes[i]);
    }
    assert_int_equal(gen_decoder_end(t, &d, &text), 0);
    assert_string_equal(text.at, "\xC3\xA9\xEF\xBF\xBD"
                                 "a\xEF\xBF\xBD");
    struct gw_text once = {0};
    assert_int_equal(gen_tokenizer_decode(t, ids, 7, false, &once), 0);
    assert_string_equal(once.at, text.at);
    once.bytes = 0;
    assert_int_equal(gen_tokenizer_decode(t, (const uint32_t[]){100, 55, 4000000000u, 7}, 4, true, &once), 0);
    assert_string_equal(once.at, "<|end|>a");
    size_t n;
    assert_string_equal(gen_tokenizer_token(t, 9, &n) ? "there" : "", "there");
    assert_int_equal(n, 1);
    assert_null(gen_tokenizer_token(t, 55, &n));
    assert_int_equal(gen_tokenizer_find(t, "<|a|>", 5), 101);
    assert_int_equal(gen_tokenizer_find(t, "\xC3\x83", 2), 8);
    assert_int_equal(gen_tokenizer_find(t, "none", 4), GEN_NO_TOKEN);
    free(once.at);
    free(text.at);
    gen_tokenizer_close(t);
}

/* How many tokens the text has, by the flags. */
static size_t expected[4];

static void *encode_often(void *arg)
{
    struct gen_ids ids = {0};
    for (unsigned i = 0; i < 200; i++) {
        ids.count = 0;
        if (gen_tokenizer_encode(arg, "a <|end|> en den\xFF", 17, i % 4, &ids) ||
            ids.count != expected[i % 4])
            return arg;
    }
    gen_ids_free(&ids);
    return NULL;
}

static void serves_many_threads(void **state)
{
    (void)state;
    struct gen_tokenizer *t = parse(TOKENIZER);
    pthread_t threads[8];
    struct gen_ids ids = {0};
    for (unsigned i = 0; i < 4; i++) {
        ids.count = 0;
        assert_int_equal(gen_tokenizer_encode(t, "a <|end|> en den\xFF", 17, i, &ids), 0);
        expected[i] = ids.count;
    }
    assert_int_not_equal(expected[0], expected[GEN_ENCODE_CONTROL]);
    gen_ids_free(&ids);
    for (unsigned i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (unsigned i = 0; i < 8; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    gen_tokenizer_close(t);
}

static void takes_large_texts(void **state)
{
    (void)state;
    struct gen_tokenizer *t = parse(TOKENIZER);
    struct gen_ids ids = {0};
    char *text = malloc(GEN_MAX_TEXT + 1);
    assert_non_null(text);
    memset(text, 'e', GEN_MAX_TEXT + 1);
    assert_int_equal(gen_tokenizer_encode(t, text, GEN_MAX_TEXT + 1, 0, &ids), -E2BIG);
    assert_int_equal(ids.count, 0);
    /* One word of a megabyte, of which every other pair merges. Quadratic time would show. */
    for (size_t i = 1; i < 1 << 20; i += 2) text[i] = 'n';
    assert_int_equal(gen_tokenizer_encode(t, text, 1 << 20, 0, &ids), 0);
    assert_int_equal(ids.count, 1 << 19);
    memset(text, ' ', 1 << 20);
    ids.count = 0;
    assert_int_equal(gen_tokenizer_encode(t, text, 1 << 20, 0, &ids), 0);
    assert_int_equal(ids.count, 1 << 20);
    for (size_t i = 0; i < 1 << 20; i++) text[i] = "<|"[i % 2]; /* beginnings of added tokens */
    ids.count = 0;
    assert_int_equal(gen_tokenizer_encode(t, text, 1 << 20, GEN_ENCODE_CONTROL, &ids), 0);
    assert_int_equal(ids.count, 1 << 20);
    free(text);
    gen_ids_free(&ids);
    gen_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(finds_special_ids),
        cmocka_unit_test(renders_the_template_of_a_folder),
        cmocka_unit_test(keeps_control_tokens_from_strangers),
        cmocka_unit_test(keeps_control_tokens_from_two_strangers),
        cmocka_unit_test(decodes_a_stream),
        cmocka_unit_test(serves_many_threads),
        cmocka_unit_test(takes_large_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
