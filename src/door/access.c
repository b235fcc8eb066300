/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the access log on a thread of its own. */
#include "src/door/access.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/sync.h>
#include <gpuwire/detail/held.h>

#include "src/door/access_share.h"
#include "src/door/limit.h"
#include "src/door/plain.h"
#include "src/trace/trace.h"

#define GATHER_NS 20000000 /* how long the writer waits for others after the first line */
#define CLOSE_NS  200000000u
#define LOOK_MS   50   /* while the file takes nothing, the writer looks so often whether it is to end */
#define AT_ONCE   4096 /* what a pipe takes without making the writer wait, when it takes anything */
#define OK_HTTP   200
#define OK_GRPC   0
#define TEXT      128 /* bytes of a stranger's word that are kept */

struct gw_access {
    const char *option; /* for messages */
    char *path;         /* NULL: standard output */
    int fd;             /* the writer's */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows; held for a few instructions */
    pthread_cond_t news;
    char *buffer;
    size_t room;
    uint64_t head, tail; /* bytes that were put in and taken out since the beginning */
    int waiting, reopen, closing;
    uint64_t close_by;
    uint64_t dropped; /* atomic */
    struct gw_say_limit said;
    struct gw_access_shares shares;
};

/* ---- the writer ---- */

static int open_file(const char *option, const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
    return fd < 0 ? gw_error_errno(-errno, "%s %s", option, path) : fd;
}

static void access_log_lose(struct gw_access *a, const char *data, size_t bytes, const char *why)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < bytes; i++) lines += data[i] == '\n';
    gw_add_relaxed_u64(&a->dropped, lines);
    gw_say(&a->said, "%s: %llu lines are lost: %s", a->option, (unsigned long long)lines, why);
}

/* Shall the writer give up what it cannot write? */
static int out_of_time(struct gw_access *a)
{
    pthread_mutex_lock(&a->lock);
    int over = a->closing && gw_deadline(0) >= a->close_by;
    pthread_mutex_unlock(&a->lock);
    return over;
}

/* A reader that does not read makes this thread wait, and no other. */
static void put_out(struct gw_access *a, const char *data, size_t bytes)
{
    while (bytes) {
        struct pollfd p = {.fd = a->fd, .events = POLLOUT};
        if (!poll(&p, 1, LOOK_MS)) {
            if (!out_of_time(a)) continue;
            access_log_lose(a, data, bytes, "it has no reader");
            return;
        }
        ssize_t n = write(a->fd, data, bytes < AT_ONCE ? bytes : AT_ONCE);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0) {
            access_log_lose(a, data, bytes, strerror(errno));
            return;
        }
        data += n;
        bytes -= (size_t)n;
    }
}

static void access_log_open_again(struct gw_access *a)
{
    int fd = a->path ? open_file(a->option, a->path) : -1;
    if (!a->path) return;
    if (fd < 0) {
        gw_say(&a->said, "%s; the old file goes on", gw_last_error());
        return;
    }
    close(a->fd);
    a->fd = fd;
}

/* Writes what is in the buffer now, and releases the lock for that. No other thread moves the tail. */
static void access_log_empty(struct gw_access *a)
{
    GW_ASSERT_HELD(&a->lock);
    uint64_t head = a->head;
    while (a->tail < head) {
        size_t at = a->tail % a->room, left = a->room - at;
        size_t n = head - a->tail < left ? (size_t)(head - a->tail) : left;
        pthread_mutex_unlock(&a->lock);
        put_out(a, a->buffer + at, n);
        pthread_mutex_lock(&a->lock);
        a->tail += n;
        GW_ASSERT(a->tail <= a->head && a->head - a->tail <= a->room);
    }
}

static void *write_lines(void *arg)
{
    struct gw_access *a = arg;
    const struct timespec gather = {.tv_nsec = GATHER_NS};
    pthread_mutex_lock(&a->lock);
    while (!a->closing || a->tail < a->head) {
        if (a->reopen) { /* the lines before belong into the old file */
            a->reopen = 0;
            access_log_empty(a);
            pthread_mutex_unlock(&a->lock);
            access_log_open_again(a);
            pthread_mutex_lock(&a->lock);
        } else if (a->tail < a->head) {
            access_log_empty(a);
        } else {
            a->waiting = 1;
            pthread_cond_wait(&a->news, &a->lock);
            if (a->closing || a->reopen) continue;
            pthread_mutex_unlock(&a->lock);
            nanosleep(&gather, NULL);
            pthread_mutex_lock(&a->lock);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- the lines ---- */

static void access_log_wake(struct gw_access *a)
{
    if (a->waiting) pthread_cond_signal(&a->news);
    a->waiting = 0;
}

static void put_in(struct gw_access *a, const char *line, size_t bytes)
{
    pthread_mutex_lock(&a->lock);
    int fits = a->room - (size_t)(a->head - a->tail) >= bytes;
    for (size_t done = 0; fits && done < bytes;) {
        size_t at = (a->head + done) % a->room, left = a->room - at;
        size_t n = bytes - done < left ? bytes - done : left;
        memcpy(a->buffer + at, line + done, n);
        done += n;
    }
    if (fits) a->head += bytes;
    access_log_wake(a);
    pthread_mutex_unlock(&a->lock);
    if (fits) return;
    gw_add_relaxed_u64(&a->dropped, 1); /* a number by itself */
    gw_say(&a->said, "%s: lines are lost: they come faster than the file takes them", a->option);
}

/* The beginning of a stranger's word. What is no UTF-8 becomes question marks. */
static json_t *word(const char *text)
{
    char clean[TEXT];
    size_t n = strnlen(text, TEXT);
    while (n == TEXT || (n && ((unsigned char)text[n] & 0xc0) == 0x80)) n--; /* between two characters */
    json_t *w = json_stringn(text, n);
    if (w) return w;
    return json_string(gw_plain_text(clean, n + 1, text));
}

static void access_log_set_word(json_t *line, const char *name, const char *text)
{
    if (text && *text) json_object_set_new(line, name, word(text));
}

static void access_log_set_number(json_t *line, const char *name, uint64_t n)
{
    json_object_set_new(line, name, json_integer((json_int_t)n));
}

static void set_version(json_t *line, unsigned version)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", version);
    if (version) json_object_set_new(line, "version", json_string(text));
}

static json_t *access_log_begin(const char *client, const char *door)
{
    struct timespec now;
    struct tm tm;
    char when[32], text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof(text), "%s.%06ldZ", when, now.tv_nsec / 1000);
    json_t *line = json_pack("{s:s}", "time", text);
    access_log_set_word(line, "client", client);
    access_log_set_word(line, "door", door);
    return line;
}

static void access_log_end(struct gw_access *a, json_t *line)
{
    char text[GW_ACCESS_LINE];
    size_t n = line ? json_dumpb(line, text, sizeof(text) - 1, JSON_COMPACT | JSON_ENSURE_ASCII) : 0;
    json_decref(line);
    if (!n || n >= sizeof(text)) {
        gw_add_relaxed_u64(&a->dropped, 1);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] == 0x7f) text[i] = '?'; /* the one control character that JSON has as it is */
    text[n] = '\n';
    put_in(a, text, n + 1);
}

/* One line for many that a client did not get. */
static void sum_up(struct gw_access *a, int all)
{
    char who[GW_WHO_TEXT];
    uint64_t lines, now = gw_deadline(0);
    while (gw_access_share_summary(&a->shares, all, now, who, &lines)) {
        json_t *line = access_log_begin(who, NULL);
        access_log_set_word(line, "event", "left out");
        access_log_set_number(line, "lines", lines);
        access_log_end(a, line);
        gw_add_relaxed_u64(&a->dropped, lines);
    }
}

/* Each line here is work for a disk. Only what cost the model's time has one in any case. */
static bool may_have_line(struct gw_access *a, const char *client, int answered)
{
    sum_up(a, 0);
    return answered || gw_access_share_take(&a->shares, client ? client : "", gw_deadline(0));
}

void gw_access_log(struct gw_access *a, const struct gw_access_request *r)
{
    GW_TRACE(server, answered, r->door, r->client, r->model, r->status, r->total_ns, r->error);
    GW_TRACE(server, times, r->door, r->model, r->queue_ns, r->compute_ns, r->total_ns);
    if (!a || !may_have_line(a, r->client, r->status == OK_HTTP || r->status == OK_GRPC)) return;
    json_t *line = access_log_begin(r->client, r->door);
    access_log_set_word(line, "model", r->model);
    set_version(line, r->version);
    if (r->rows) access_log_set_number(line, "batch", r->rows);
    access_log_set_number(line, "status", r->status);
    access_log_set_number(line, "bytes_in", r->in);
    access_log_set_number(line, "bytes_out", r->out);
    access_log_set_number(line, "queue_us", r->queue_ns / 1000);
    access_log_set_number(line, "compute_us", r->compute_ns / 1000);
    access_log_set_number(line, "total_us", r->total_ns / 1000);
    access_log_set_word(line, "id", r->id);
    access_log_set_word(line, "error", r->error);
    access_log_end(a, line);
}

void gw_access_log_session(struct gw_access *a, const struct gw_access_session *s)
{
    if (!a || !may_have_line(a, s->client, s->requests != 0)) return;
    json_t *line = access_log_begin(s->client, "rdma");
    access_log_set_word(line, "session", s->session);
    access_log_set_word(line, "model", s->model);
    set_version(line, s->version);
    access_log_set_word(line, "event", s->reason ? "close" : "open");
    if (s->reason) {
        access_log_set_number(line, "requests", s->requests);
        access_log_set_number(line, "total_us", s->lasted_ns / 1000);
        access_log_set_word(line, "reason", s->reason);
    }
    access_log_end(a, line);
}

void gw_access_json(struct gw_access *a, const json_t *more)
{
    if (!a) return;
    json_t *line = access_log_begin(NULL, NULL);
    if (line) json_object_update(line, (json_t *)more);
    access_log_end(a, line);
}

/* ---- opening and closing ---- */

static int access_log_start(struct gw_access *a, const char *path)
{
    int is_file = strcmp(path, "-") != 0;
    a->buffer = malloc(a->room);
    if (is_file) a->path = strdup(path);
    if (!a->buffer || (is_file && !a->path)) return gw_error(-ENOMEM, "%s: out of memory", a->option);
    a->fd = is_file ? open_file(a->option, path) : STDOUT_FILENO;
    if (a->fd < 0) return a->fd;
    int err = -pthread_create(&a->thread, NULL, write_lines, a);
    return err ? gw_error_errno(err, "%s: cannot start a thread", a->option) : 0;
}

static void free_access(struct gw_access *a)
{
    if (a->path && a->fd >= 0) close(a->fd);
    pthread_cond_destroy(&a->news);
    pthread_mutex_destroy(&a->lock);
    gw_access_shares_close(&a->shares);
    free(a->buffer);
    free(a->path);
    free(a);
}

int gw_access_open(const char *path, size_t room, struct gw_access **out)
{
    return gw_access_open_as("--access-log", path, room, out);
}

int gw_access_open_as(const char *option, const char *path, size_t room, struct gw_access **out)
{
    struct gw_access *a = calloc(1, sizeof(*a));
    if (!a) return gw_error(-ENOMEM, "%s: out of memory", option);
    a->option = option;
    a->fd = -1;
    a->room = room < GW_ACCESS_LINE ? GW_ACCESS_LINE : room;
    gw_access_shares_open(&a->shares);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->news, NULL);
    int err = access_log_start(a, path);
    if (err)
        free_access(a);
    else
        *out = a;
    return err;
}

void gw_access_close(struct gw_access *a)
{
    if (!a) return;
    sum_up(a, 1);
    pthread_mutex_lock(&a->lock);
    a->closing = 1;
    a->close_by = gw_deadline(CLOSE_NS);
    access_log_wake(a);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    free_access(a);
}

void gw_access_reopen(struct gw_access *a)
{
    pthread_mutex_lock(&a->lock);
    a->reopen = 1;
    access_log_wake(a);
    pthread_mutex_unlock(&a->lock);
}

uint64_t gw_access_dropped(const struct gw_access *a)
{
    return a ? gw_ld_relaxed_u64(&a->dropped) : 0;
}
