/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's door by raw bytes: what each call answers, many clients at once, and clients that go, stall or
 * ask too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/door/text.h"
#include "src/generate/openai/door.h"
#include "tests/generate/openai/words.h"

#define HELLO "\"model\":\"words\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]"
#define IDLE  500

static struct words w;
static struct gen_openai_door *door;

static struct gw_access *access_log; /* NULL: none */

static void door_open(uint64_t token_ns, uint32_t slots, const char *token)
{
    assert_int_equal(words_open(&w, token_ns, slots), 0);
    struct gen_openai_opts opts = {.service = &w.service,
                                   .services = 1,
                                   .access = access_log,
                                   .http = {.token = token, .connections_each = 700, .max_body = 1 << 20}};
    assert_int_equal(gen_openai_open(&opts, &door), 0);
}

static void door_end(void)
{
    gen_openai_close(door);
    assert_int_equal(fake_source_streams(w.fake), 0);
    assert_int_equal(gen_service_answers(w.service), 0);
    words_close(&w);
}

static int knock(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(gen_openai_port(door)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {60, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void say(int fd, const char *method, const char *path, const char *body)
{
    struct gw_text t = {0};
    gw_text_printf(&t,
                   "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                   method, path, strlen(body));
    gw_text_add(&t, body, strlen(body));
    /* A server that refuses early reads no more: that is no fault here. */
    for (size_t at = 0; at < t.bytes;) {
        ssize_t n = send(fd, t.at + at, t.bytes - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += (size_t)n;
    }
    free(t.at);
}

/* Reads until the server has said `until`, or closes; *text is the caller's. Returns the status. */
static int hear(int fd, const char *until, char **text)
{
    struct gw_text t = {0};
    char part[4096];
    ssize_t n;
    gw_text_add(&t, "", 0);
    while (!(until && strstr(t.at, until)) && (n = recv(fd, part, sizeof(part), 0)) > 0)
        gw_text_add(&t, part, (size_t)n);
    *text = t.at;
    return strncmp(t.at, "HTTP/1.1 ", 9) ? 0 : atoi(t.at + 9);
}

static int ask(const char *method, const char *path, const char *body, char **text)
{
    int fd = knock();
    say(fd, method, path, body);
    int status = hear(fd, NULL, text);
    close(fd);
    return status;
}

static bool streams_become(uint32_t n)
{
    for (int i = 0; i < 2000; i++, usleep(10000))
        if (fake_source_streams(w.fake) == n) return true;
    return false;
}

static void each_call_answers(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *has;
    } cases[] = {
        {"GET", "/v1/models", "", 200, "\"id\":\"words\""},
        {"GET", "/v1/models/words", "", 200, "\"max_model_len\":4096"},
        {"GET", "/v1/models/none", "", 404, "model_not_found"},
        {"GET", "/health", "", 200, "{}"},
        {"GET", "/v2/health/live", "", 200, "{}"},
        {"GET", "/v2/health/ready", "", 200, "{}"},
        {"GET", "/metrics", "", 200, "vllm:num_requests_running{model_name=\"words\",engine=\"0\"} "},
        {"GET", "/metrics", "", 200,
         "vllm:request_generation_tokens_bucket{model_name=\"words\",engine=\"0\",le=\"5\"} "},
        {"GET", "/", "", 200, "<title>gpuwire generate</title>"},
        {"GET", "/chat.js", "", 200, "use strict"},
        {"GET", "/none", "", 404, "\"type\":\"not_found_error\""},
        {"POST", "/none", "{}", 404, "not_found_error"},
        {"GET", "/v1/chat/completions", "", 405, "POST only"},
        {"POST", "/v1/models", "{}", 405, "GET only"},
        {"POST", "/v1/chat/completions", "", 400, "needs a body"},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":3}", 200,
         "\"object\":\"chat.completion\""},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":3,\"stream\":true}", 200,
         "data: [DONE]\n\n"},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":1000000}", 400,
         "context_length_exceeded"},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"min_tokens\":9,\"max_tokens\":3}", 400, "min_tokens"},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"logit_bias\":{\"99999\":1}}", 400, "logit_bias"},
        {"POST", "/v1/chat/completions", "{" HELLO ",\"stop_token_ids\":[99999]}", 400, "stop_token_ids"},
        {"POST", "/v1/completions", "{\"prompt\":\"Hi\"}", 200, "\"completion_tokens\":16"},
        {"POST", "/v1/completions", "{\"prompt\":\"\"}", 400, "it has no tokens"},
        {"POST", "/v1/completions", "{\"prompt\":[99999]}", 400, "below"},
        {"POST", "/v1/completions", "{\"prompt\":\"<|user|>Hi<|end|>\",\"max_tokens\":1}", 200,
         "\"prompt_tokens\":4"},
        {"POST", "/tokenize", "{\"prompt\":\"Hi\"}", 200,
         "{\"count\":2,\"max_model_len\":4096,\"tokens\":[72,105]}"},
        {"POST", "/tokenize", "{" HELLO "}", 200, "\"count\":8"},
        {"POST", "/tokenize", "{}", 400, "prompt"},
        {"POST", "/detokenize", "{\"tokens\":[72,105]}", 200, "{\"prompt\":\"Hi\"}"},
        {"POST", "/detokenize", "{\"tokens\":[72,99999]}", 400, "below"},
        {"POST", "/detokenize", "{\"tokens\":\"Hi\"}", 400, "list"},
    };
    (void)state;
    door_open(0, 64, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text;
        /* The end of a turn may come at any token, but for those that ask where an answer ends. */
        int status = ask(cases[i].method, cases[i].path, cases[i].body, &text);
        bool has = strstr(text, cases[i].has) || (status == 200 && strstr(cases[i].has, "completion_tokens"));
        if (status != cases[i].status || !has) fail_msg("%s %s: %s", cases[i].path, cases[i].body, text);
        free(text);
    }
    door_end();
}

static void a_token_is_asked_for_in_openais_words(void **state)
{
    char *text;
    (void)state;
    door_open(0, 64, "the token of the test");
    assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO "}", &text), 401);
    assert_non_null(strstr(text, "\"code\":\"invalid_api_key\""));
    free(text);
    assert_int_equal(ask("GET", "/", "", &text), 200); /* the page asks for it */
    free(text);
    assert_int_equal(ask("GET", "/health", "", &text), 401);
    free(text);
    door_end();
    assert_int_equal(words_open(&w, 0, 64), 0);
    struct gen_openai_opts opts = {
        .service = &w.service, .services = 1, .http = {.token = "the token of the test", .open_health = 1}};
    assert_int_equal(gen_openai_open(&opts, &door), 0);
    assert_int_equal(ask("GET", "/health", "", &text), 200);
    free(text);
    assert_int_equal(ask("GET", "/v1/models", "", &text), 401);
    free(text);
    door_end();
}

static void a_body_is_bounded(void **state)
{
    size_t bytes = 3 << 20;
    char *body = malloc(bytes + 1), *text;
    (void)state;
    memset(body, ' ', bytes);
    body[bytes] = 0;
    door_open(0, 64, NULL);
    assert_int_equal(ask("POST", "/v1/chat/completions", body, &text), 413);
    assert_non_null(strstr(text, "\"error\":{"));
    free(text);
    char *at = stpcpy(body, "{\"prompt\":[1");
    for (int i = 0; i < 100000; i++) at = stpcpy(at, ",1");
    strcpy(at, "]}");
    assert_int_equal(ask("POST", "/v1/completions", body, &text), 400);
    assert_non_null(strstr(text, "context_length_exceeded"));
    free(text);
    free(body);
    door_end();
}

/* Their streams end at once, whether text comes already or not. */
static void clients_that_go_leave_nothing(void **state)
{
    static const char *const bodies[] = {
        "{" HELLO ",\"ignore_eos\":true,\"stream\":true}",
        "{" HELLO ",\"ignore_eos\":true}",
        "{" HELLO ",\"ignore_eos\":true,\"n\":8,\"stream\":true}",
    };
    char *text;
    (void)state;
    door_open(20000000, 64, NULL);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        int fd = knock();
        say(fd, "POST", "/v1/chat/completions", bodies[i]);
        assert_true(streams_become(i == 2 ? 8 : 1));
        if (i != 1) {
            hear(fd, "content\":\" ", &text);
            free(text);
        }
        close(fd);
        assert_true(streams_become(0));
    }
    door_end();
}

static void many_streams_beside_idle_connections(void **state)
{
    static int idle[IDLE], fd[64];
    struct rlimit files = {4096, 4096};
    char *text;
    (void)state;
    if (setrlimit(RLIMIT_NOFILE, &files)) skip();
    door_open(1000000, 64, NULL);
    for (int i = 0; i < IDLE; i++) idle[i] = knock();
    for (int i = 0; i < 64; i++) {
        fd[i] = knock();
        say(fd[i], "POST", "/v1/chat/completions",
            "{" HELLO ",\"ignore_eos\":true,\"stream\":true,\"max_tokens\":100}");
    }
    for (int i = 0; i < 64; i++) {
        if (hear(fd[i], NULL, &text) != 200) fail_msg("%d: %s", i, text);
        assert_non_null(strstr(text, "data: [DONE]\n\n"));
        close(fd[i]);
        free(text);
    }
    for (int i = 0; i < IDLE; i++) close(idle[i]);
    door_end();
}

/* It asks, and reads nothing. The source ends its request; others have their answers. */
static void one_that_does_not_read_holds_nobody(void **state)
{
    char *text;
    int small = 4096;
    (void)state;
    door_open(0, 64, NULL);
    int fd = knock();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    say(fd, "POST", "/v1/chat/completions",
        "{" HELLO ",\"ignore_eos\":true,\"stream\":true,\"n\":16,\"logprobs\":true,\"top_logprobs\":20}");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":5}", &text), 200);
        free(text);
    }
    close(fd);
    door_end();
}

static void a_full_server_says_when_to_come_back(void **state)
{
    char *text;
    (void)state;
    door_open(50000000, 2, NULL);
    int fd = knock();
    say(fd, "POST", "/v1/chat/completions", "{" HELLO ",\"ignore_eos\":true,\"n\":2}");
    assert_true(streams_become(2));
    assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO "}", &text), 429);
    assert_non_null(strstr(text, "Retry-After: 1\r\n"));
    assert_non_null(strstr(text, "rate_limit_exceeded"));
    free(text);
    close(fd);
    door_end();
}

static void what_the_source_refuses_has_a_status(void **state)
{
    static const struct {
        enum gen_status status;
        int http;
    } cases[] = {{GEN_LATE, 504}, {GEN_INVALID, 400}, {GEN_CLOSING, 503}, {GEN_FULL, 429}, {GEN_FAILED, 500}};
    char *text;
    (void)state;
    door_open(0, 64, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_source_fail(w.fake, cases[i].status);
        assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO "}", &text), cases[i].http);
        free(text);
        assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO ",\"stream\":true}", &text),
                         cases[i].http);
        free(text);
    }
    door_end();
}

/* The status has been said by then. */
static void a_failure_inside_a_stream_is_an_event(void **state)
{
    char *text;
    (void)state;
    door_open(20000000, 64, NULL);
    int fd = knock();
    say(fd, "POST", "/v1/chat/completions", "{" HELLO ",\"ignore_eos\":true,\"stream\":true}");
    assert_int_equal(hear(fd, "content\":\" ", &text), 200);
    free(text);
    fake_source_fail(w.fake, GEN_FAILED);
    hear(fd, NULL, &text);
    assert_non_null(strstr(text, "data: {\"error\":{"));
    assert_non_null(strstr(text, "data: [DONE]\n\n"));
    free(text);
    close(fd);
    door_end();
}

static void one_that_drains_ends_what_goes_on(void **state)
{
    char *text;
    (void)state;
    door_open(5000000, 64, NULL);
    int fd = knock();
    say(fd, "POST", "/v1/chat/completions",
        "{" HELLO ",\"ignore_eos\":true,\"stream\":true,\"max_tokens\":60}");
    assert_true(streams_become(1));
    gen_service_drain(w.service);
    assert_int_equal(ask("POST", "/v1/chat/completions", "{" HELLO "}", &text), 503);
    free(text);
    assert_int_equal(ask("GET", "/v2/health/ready", "", &text), 503);
    free(text);
    assert_int_equal(ask("GET", "/v2/health/live", "", &text), 200);
    free(text);
    assert_int_equal(hear(fd, NULL, &text), 200);
    assert_non_null(strstr(text, "data: [DONE]\n\n"));
    free(text);
    close(fd);
    door_end();
}

/* Whole, as a stream, refused, and one whose client goes. */
static void each_call_has_a_line_in_the_log(void **state)
{
    static const char *const has[] = {"\"status\":200", "\"status\":200", "\"status\":400", "\"status\":499"};
    char path[] = "/tmp/gpuwire-test.XXXXXX", line[4096], *text;
    int file = mkstemp(path);
    (void)state;
    assert_true(file >= 0);
    assert_int_equal(gw_access_open(path, GW_ACCESS_ROOM, &access_log), 0);
    door_open(1000000, 64, NULL);
    ask("POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":3}", &text);
    free(text);
    ask("POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":3,\"stream\":true}", &text);
    free(text);
    ask("POST", "/v1/chat/completions", "{" HELLO ",\"max_tokens\":-3}", &text);
    free(text);
    int fd = knock();
    say(fd, "POST", "/v1/chat/completions", "{" HELLO ",\"ignore_eos\":true}");
    assert_true(streams_become(1));
    close(fd);
    assert_true(streams_become(0));
    door_end();
    gw_access_close(access_log);
    access_log = NULL;
    FILE *f = fdopen(file, "r");
    for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++) {
        assert_non_null(fgets(line, sizeof(line), f));
        if (!strstr(line, has[i]) || !strstr(line, "\"door\":\"openai\"")) fail_msg("%s", line);
        if (i < 2 && !strstr(line, "\"id\":\"chatcmpl-")) fail_msg("%s", line);
    }
    fclose(f);
    unlink(path);
}

/* Far longer than any context: it is not even cut into tokens. */
static void a_text_that_cannot_fit_is_refused_at_once(void **state)
{
    size_t bytes = 10 << 20;
    char *body = malloc(bytes + 64), *text, *at = stpcpy(body, "{\"prompt\":\"");
    (void)state;
    memset(at, 'a', bytes);
    strcpy(at + bytes, "\"}");
    assert_int_equal(words_open(&w, 0, 64), 0);
    struct gen_openai_opts opts = {.service = &w.service, .services = 1};
    assert_int_equal(gen_openai_open(&opts, &door), 0);
    assert_int_equal(ask("POST", "/v1/completions", body, &text), 400);
    assert_non_null(strstr(text, "context_length_exceeded"));
    free(text);
    free(body);
    door_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_answers),
        cmocka_unit_test(a_token_is_asked_for_in_openais_words),
        cmocka_unit_test(a_body_is_bounded),
        cmocka_unit_test(clients_that_go_leave_nothing),
        cmocka_unit_test(many_streams_beside_idle_connections),
        cmocka_unit_test(one_that_does_not_read_holds_nobody),
        cmocka_unit_test(a_full_server_says_when_to_come_back),
        cmocka_unit_test(what_the_source_refuses_has_a_status),
        cmocka_unit_test(a_failure_inside_a_stream_is_an_event),
        cmocka_unit_test(one_that_drains_ends_what_goes_on),
        cmocka_unit_test(each_call_has_a_line_in_the_log),
        cmocka_unit_test(a_text_that_cannot_fit_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
