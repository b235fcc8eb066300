/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire chat: talks to a language model, in the terminal or for a script. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/chat/stream.h"
#include "src/cli/options.h"
#include "src/client/url.h"
#include "src/door/plain.h"
#include "src/door/secret.h"
#include "src/door/text.h"

static const char usage[] =
    "usage: gpuwire chat [URL] [OPTION...]\n"
    "\n"
    "Talks to a language model of `gpuwire generate`, or of any server of OpenAI's API. Answers appear as "
    "they "
    "come.\n"
    "Each line is a message; the model sees what was said before. /clear begins a new chat. Ctrl-C stops an "
    "answer,\n"
    "Ctrl-D ends. Where standard input is no terminal, all of it is one message, and its answer is printed.\n"
    "\n"
    "  URL                http://HOST:PORT, https://… (default http://127.0.0.1:8000)\n"
    "  --model NAME       the model (default: the server's first one)\n"
    "  --system TEXT      what the model is told first\n"
    "  --temperature T    0: always the likeliest token (default: the model's)\n"
    "  --max-tokens N     of an answer (default: what the model's context has room for)\n"
    "  --token-file FILE  a file with the server's bearer token\n"
    "  --ca-file FILE     who may sign the server's certificate (PEM; default: the system's)\n"
    "  -h, --help         this text\n"
    "\n"
    "Exit code 0: answered, or ended; 1: not; 2: wrong usage; 130: ended by Ctrl-C.\n";

#define CHAT_READ 4096u /* of standard input at a time */

enum { MODEL = 256, SYSTEM, TEMPERATURE, MAX_TOKENS, TOKEN_FILE, CA_FILE };

static const struct option options[] = {
    {"model", 1, NULL, MODEL},
    {"system", 1, NULL, SYSTEM},
    {"temperature", 1, NULL, TEMPERATURE},
    {"max-tokens", 1, NULL, MAX_TOKENS},
    {"token-file", 1, NULL, TOKEN_FILE},
    {"ca-file", 1, NULL, CA_FILE},
    {"help", 0, NULL, 'h'},
    {0},
};

struct chat {
    const char *server, *model, *system, *token_file;
    double temperature;  /* negative: not said */
    uint32_t max_tokens; /* 0: not said */
    struct gw_http_opts http;
    struct gw_url url;
    char *token, *base;
    json_t *messages, *models;
    struct gw_chat_stream *stream;
    struct gw_text answer, input;
    bool to_terminal;
};

static volatile sig_atomic_t chat_stopped; /* Ctrl-C has come */
static int chat_event = -1;                /* readable then: one that comes just before a wait ends it, too */

static void chat_on_signal(int number)
{
    uint64_t one = 1;
    int saved = errno;
    (void)number;
    chat_stopped = 1;
    if (write(chat_event, &one, sizeof(one)) < 0) { /* it is readable already */
    }
    errno = saved;
}

static int chat_give_up(void)
{
    return chat_stopped;
}

/* ---- what is printed */

/* Text of a model must not steer the terminal: control characters become question marks. */
static void chat_print(const struct chat *c, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char byte = (unsigned char)*p;
        bool c1 = byte == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0;
        bool control = (byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f || c1;
        putchar(control && c->to_terminal ? '?' : byte);
        if (c1 && c->to_terminal) p++;
    }
    fflush(stdout);
}

static void chat_take(void *ctx, const char *text)
{
    struct chat *c = ctx;
    gw_text_add(&c->answer, text, strlen(text));
    chat_print(c, text);
}

/* ---- one message and its answer */

static json_t *chat_body(const struct chat *c)
{
    json_t *body = json_pack("{s:s, s:O, s:b}", "model", c->model, "messages", c->messages, "stream", 1);
    if (c->temperature >= 0) json_object_set_new(body, "temperature", json_real(c->temperature));
    if (c->max_tokens) json_object_set_new(body, "max_tokens", json_integer(c->max_tokens));
    return body;
}

static void chat_add(struct chat *c, const char *role, const char *text, size_t bytes)
{
    json_array_append_new(c->messages, json_pack("{s:s, s:s%}", "role", role, "content", text, bytes));
}

static void chat_clear(struct chat *c)
{
    json_array_clear(c->messages);
    if (c->system) chat_add(c, "system", c->system, strlen(c->system));
}

/* 0; -EINTR: Ctrl-C; else gw_last_error() has the reason. A message without an answer is forgotten. */
static int chat_say(struct chat *c, const char *text, size_t bytes)
{
    size_t before = json_array_size(c->messages);
    chat_add(c, "user", text, bytes);
    if (json_array_size(c->messages) == before) return gw_error(-EINVAL, "the message is not UTF-8");
    json_t *body = chat_body(c);
    c->answer.bytes = 0;
    int err = gw_chat_stream_ask(c->stream, body, chat_take, c);
    json_decref(body);
    if (c->answer.bytes && c->answer.at[c->answer.bytes - 1] != '\n') putchar('\n');
    fflush(stdout);
    if (c->answer.bytes)
        chat_add(c, "assistant", c->answer.at, c->answer.bytes);
    else
        json_array_remove(c->messages, before);
    return err;
}

/* ---- in a terminal, and for a script */

/* Takes the line that ends at `at` out of the input. The caller frees it. */
static char *chat_cut(struct chat *c, size_t at)
{
    char *line = strndup(c->input.at, at);
    size_t rest = at < c->input.bytes ? at + 1 : at; /* without its end */
    memmove(c->input.at, c->input.at + rest, c->input.bytes - rest);
    c->input.bytes -= rest;
    if (line) line[strcspn(line, "\r")] = 0;
    return line;
}

/* The next line; NULL at the end, or when Ctrl-C has come. The wait is for both at once. */
static char *chat_line(struct chat *c)
{
    const int fds[] = {STDIN_FILENO, chat_event};
    for (;;) {
        const char *end = c->input.bytes ? memchr(c->input.at, '\n', c->input.bytes) : NULL;
        if (end) return chat_cut(c, (size_t)(end - c->input.at));
        while (gw_wait_fds(fds, 2, GW_NEVER) == -EINTR && !chat_stopped) continue;
        char *to = chat_stopped ? NULL : gw_text_room(&c->input, CHAT_READ);
        ssize_t n = to ? read(STDIN_FILENO, to, CHAT_READ) : 0;
        if (n <= 0) return !chat_stopped && c->input.bytes ? chat_cut(c, c->input.bytes) : NULL;
        c->input.bytes += (size_t)n;
    }
}

static void chat_prompt(void)
{
    uint64_t count;
    chat_stopped = 0;                                  /* it was meant for the answer */
    if (read(chat_event, &count, sizeof(count)) < 0) { /* none has come */
    }
    fputs("> ", stderr);
}

static int chat_talk(struct chat *c)
{
    fprintf(stderr, "%s at %s; /clear begins a new chat, Ctrl-D ends\n", c->model, c->base);
    for (char *line;; free(line)) {
        chat_prompt();
        line = chat_line(c);
        if (!line) break;
        if (!strcmp(line, "/clear")) chat_clear(c);
        if (!*line || !strcmp(line, "/clear")) continue;
        int err = chat_say(c, line, strlen(line));
        if (err && err != -EINTR) gw_fail("chat", "%s", gw_last_error());
    }
    fputc('\n', stderr);
    return chat_stopped ? GW_EXIT_INTERRUPTED : GW_EXIT_OK;
}

/* Ctrl-C ends the process, as it does with other commands. */
static int chat_answer_one(struct chat *c)
{
    char part[65536];
    size_t n;
    struct gw_text all = {0};
    while ((n = fread(part, 1, sizeof(part), stdin)) > 0) gw_text_add(&all, part, n);
    while (all.bytes && strchr("\r\n", all.at[all.bytes - 1])) all.at[--all.bytes] = 0;
    int err = all.broken || !all.bytes ? gw_error(-EINVAL, "standard input has no message")
                                       : chat_say(c, all.at, all.bytes);
    free(all.at);
    return err ? gw_fail("chat", "%s", gw_last_error()) : GW_EXIT_OK;
}

/* ---- beginning */

static int chat_option(struct chat *c, int option, const char *name)
{
    switch (option) {
    case MODEL: c->model = optarg; return 0;
    case SYSTEM: c->system = optarg; return 0;
    case TOKEN_FILE: c->token_file = optarg; return 0;
    case CA_FILE: c->http.ca_file = optarg; return 0;
    case TEMPERATURE: return gw_option_real("chat", name, optarg, 0, 100, &c->temperature);
    default: return gw_option_u32("chat", name, optarg, 1, UINT32_MAX, &c->max_tokens);
    }
}

/* -1: go on; else the exit code. */
static int chat_args(int argc, char **argv, struct chat *c)
{
    int option, which = 0, wrong = 0;
    char name[32];
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, &which)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong("chat", argv, option);
        snprintf(name, sizeof(name), "--%s", options[which].name);
        wrong = chat_option(c, option, name);
    }
    if (wrong) return wrong;
    c->server = optind < argc ? argv[optind++] : "http://127.0.0.1:8000";
    return optind < argc ? gw_usage_error("chat", "%s: not an option", argv[optind]) : -1;
}

/* People copy the URL that other clients want, which ends with v1. */
static int chat_find_server(struct chat *c)
{
    int err = gw_url_parse(c->server, &c->url);
    if (err) return err;
    if (c->url.door != GW_URL_HTTP && strstr(c->server, "://"))
        return gw_error(-EINVAL, "server %s: must begin with http:// or https://", c->server);
    c->base = strdup(c->url.base);
    if (!c->base) return -ENOMEM;
    size_t n = strlen(c->base);
    if (n > 4 && !strcmp(c->base + n - 4, "/v1/")) c->base[n - 3] = 0;
    c->http.base = c->base;
    return 0;
}

static int chat_find_model(struct chat *c)
{
    struct gw_http *http;
    int err = gw_http_open(&c->http, &http);
    if (err) return err;
    if (!c->model) err = gw_http_call(http, "GET", "v1/models", NULL, &c->models);
    gw_http_close(http);
    if (!c->model && !err) {
        const json_t *first = json_array_get(json_object_get(c->models, "data"), 0);
        c->model = json_string_value(json_object_get(first, "id"));
        if (!c->model) return gw_error(-ENOENT, "server %s: it has no models", c->base);
    }
    return err;
}

static int chat_begin(struct chat *c)
{
    int err = chat_find_server(c);
    if (!err && c->token_file) err = gw_secret_take_token(NULL, c->token_file, &c->token);
    c->http.token = c->token;
    if (!err) err = chat_find_model(c);
    if (!err) err = gw_chat_stream_open(&c->http, &c->stream);
    c->messages = json_array();
    if (!err) chat_clear(c);
    return err;
}

static void chat_end(struct chat *c)
{
    gw_chat_stream_close(c->stream);
    json_decref(c->messages);
    json_decref(c->models);
    gw_secret_forget(c->token);
    gw_url_free(&c->url);
    free(c->answer.at);
    free(c->input.at);
    free(c->base);
}

int gw_cli_chat(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = chat_on_signal};
    struct chat c = {
        .temperature = -1,
        .http = {.timeout_ns = 20000000000u, .give_up = chat_give_up, .program = "gpuwire generate"},
        .to_terminal = isatty(STDOUT_FILENO)};
    int done = chat_args(argc, argv, &c);
    if (done >= 0) return done;
    bool talks = isatty(STDIN_FILENO);
    chat_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (talks) sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (chat_begin(&c))
        done = gw_fail("chat", "%s", gw_last_error());
    else
        done = talks ? chat_talk(&c) : chat_answer_one(&c);
    chat_end(&c);
    return done;
}
