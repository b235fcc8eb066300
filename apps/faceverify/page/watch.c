/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the last requests and the counts of all blocks, and writes them as JSON. */
#include "apps/faceverify/page/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "apps/faceverify/now.h"

enum {
    LOOK_MS = 100,
    SAMPLES = 4096, /* requests that are remembered, of the last WINDOW_S seconds */
    WINDOW_S = 10,
    SHOWN = 16,     /* requests on the page */
    HISTORY_S = 60, /* a number of requests for each second */
    SPANS = FACE_POINTS - 1,
};

struct watch_sample {
    uint64_t seen_ns;
    struct face_recent_one one;
};

struct face_watch {
    struct face_page_source source;
    pthread_t thread;
    pthread_mutex_t lock;          /* of all below, but for stop */
    uint64_t *turn;                /* of each block: the newest that was seen */
    struct face_recent_one *fresh; /* of all blocks, in one look */
    struct watch_sample *sample;
    uint64_t samples;
    struct face_counts counts;
    uint64_t begun_ns, second_ns, second_requests;
    uint32_t history[HISTORY_S], seconds;
    bool stop; /* atomic */
};

/* Collects what a block has written since the last look. */
static uint32_t watch_block(struct face_watch *w, uint32_t block, struct face_recent_one *fresh)
{
    uint64_t newest = w->turn[block];
    uint32_t n = 0;
    for (uint32_t i = 0; i < FACE_RECENT; i++) {
        struct face_recent_one *one = &fresh[n];
        if (!face_recent_read(&w->source.recent[block], i, one) || one->turn <= w->turn[block]) continue;
        if (one->turn > newest) newest = one->turn;
        n++;
    }
    w->turn[block] = newest;
    return n;
}

static int compare_replied(const void *a, const void *b)
{
    const struct face_recent_one *x = a, *y = b;
    uint64_t u = x->ns[FACE_REPLIED], v = y->ns[FACE_REPLIED];
    return u < v ? -1 : u > v;
}

static void watch_look(struct face_watch *w)
{
    uint64_t now = face_now();
    uint32_t n = 0;
    pthread_mutex_lock(&w->lock);
    w->source.counts(w->source.ctx, &w->counts);
    for (uint32_t b = 0; b < w->source.blocks; b++) n += watch_block(w, b, w->fresh + n);
    qsort(w->fresh, n, sizeof(*w->fresh), compare_replied);
    for (uint32_t i = 0; i < n; i++)
        w->sample[w->samples++ % SAMPLES] = (struct watch_sample){now, w->fresh[i]};
    if (now - w->second_ns >= 1000000000u) {
        double seconds = (double)(now - w->second_ns) / 1e9;
        uint64_t requests = w->counts.requests - w->second_requests;
        w->history[w->seconds++ % HISTORY_S] = (uint32_t)((double)requests / seconds + .5);
        w->second_ns = now;
        w->second_requests = w->counts.requests;
    }
    pthread_mutex_unlock(&w->lock);
}

static void *watch_run(void *arg)
{
    struct face_watch *w = arg;
    while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) { /* joined after it is set: nothing else to order */
        watch_look(w);
        usleep(LOOK_MS * 1000);
    }
    return NULL;
}

static void watch_free(struct face_watch *w)
{
    free(w->turn);
    free(w->fresh);
    free(w->sample);
    free(w);
}

int face_watch_start(const struct face_page_source *source, struct face_watch **out)
{
    struct face_watch *w = calloc(1, sizeof(*w));
    if (!w) return gw_error(-ENOMEM, "no memory for the page");
    w->source = *source;
    w->turn = calloc(source->blocks, sizeof(*w->turn));
    w->fresh = calloc(source->blocks, FACE_RECENT * sizeof(*w->fresh));
    w->sample = calloc(SAMPLES, sizeof(*w->sample));
    w->begun_ns = w->second_ns = face_now();
    int err = w->turn && w->fresh && w->sample ? 0 : gw_error(-ENOMEM, "no memory for the page");
    if (!err) {
        pthread_mutex_init(&w->lock, NULL);
        int why = pthread_create(&w->thread, NULL, watch_run, w);
        if (why) err = gw_error_errno(-why, "no thread for the page");
    }
    if (err)
        watch_free(w);
    else
        *out = w;
    return err;
}

void face_watch_stop(struct face_watch *w)
{
    __atomic_store_n(&w->stop, true, __ATOMIC_RELAXED);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    watch_free(w);
}

/* ---- JSON ---- */

/* Bytes of the UTF-8 character at s, which has n bytes left; 0: it is none. */
static size_t utf8_length(const uint8_t *s, size_t n)
{
    size_t length = s[0] < 0x80                   ? 1
                    : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                    : (s[0] & 0xf0) == 0xe0       ? 3
                    : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                  : 0;
    if (!length || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

/* A name is a stranger's: what is no UTF-8 becomes a question mark. */
static void json_text(FILE *f, const char *text, size_t n)
{
    fputc('"', f);
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = utf8_length((const uint8_t *)text + i, n - i);
        if (!length)
            fputc('?', f);
        else if (length == 1 && ((uint8_t)text[i] < ' ' || strchr("\"\\<>&", text[i])))
            fprintf(f, "\\u%04x", (uint8_t)text[i]);
        else
            fwrite(text + i, 1, length, f);
    }
    fputc('"', f);
}

static double span_us(const struct face_recent_one *one, int span)
{
    uint64_t from = one->ns[span], to = one->ns[span + 1];
    return from && to >= from ? (double)(to - from) / 1e3 : -1;
}

static int compare_us(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median and 99th percentile of a span, or, for span == SPANS, of the whole. */
static void json_span(const struct face_watch *w, int span, uint64_t now, FILE *f)
{
    static _Thread_local double us[SAMPLES];
    uint32_t n = 0;
    for (uint64_t i = 0; i < w->samples && i < SAMPLES; i++) {
        const struct watch_sample *s = &w->sample[i];
        if (now - s->seen_ns > WINDOW_S * UINT64_C(1000000000)) continue;
        const struct face_recent_one *one = &s->one;
        double v = span < SPANS                   ? span_us(one, span)
                   : one->ns[0] && one->ns[SPANS] ? (double)(one->ns[SPANS] - one->ns[0]) / 1e3
                                                  : -1;
        if (v >= 0) us[n++] = v;
    }
    qsort(us, n, sizeof(us[0]), compare_us);
    if (n)
        fprintf(f, "{\"median\": %.2f, \"p99\": %.2f, \"samples\": %u}", us[n / 2],
                us[(uint64_t)n * 99 / 100], n);
    else
        fputs("null", f);
}

static void json_request(const struct watch_sample *s, uint64_t now, FILE *f)
{
    const struct face_recent_one *one = &s->one;
    fputs("{\"name\": ", f);
    json_text(f, one->name, one->name_len);
    fprintf(f, ", \"verdict\": %u, \"distance\": %.5f, \"server\": %u, \"age_ms\": %llu, \"us\": [",
            one->verdict, (double)one->distance, one->server,
            (unsigned long long)((now - s->seen_ns) / 1000000));
    for (int i = 0; i < SPANS; i++) fprintf(f, "%s%.2f", i ? ", " : "", span_us(one, i));
    fputs("]}", f);
}

static void json_lists(const struct face_watch *w, uint64_t now, FILE *f)
{
    fputs(", \"memcached\": [", f);
    for (uint32_t i = 0; i < w->source.memcached->count; i++) {
        char text[300];
        int n = snprintf(text, sizeof(text), "%s:%u", w->source.memcached->server[i].host,
                         w->source.memcached->server[i].port);
        fputs(i ? ", " : "", f);
        json_text(f, text, (size_t)n);
    }
    fputs("], \"history\": [", f);
    for (uint32_t k = w->seconds > HISTORY_S ? w->seconds - HISTORY_S : 0, i = k; i < w->seconds; i++)
        fprintf(f, "%s%u", i > k ? ", " : "", w->history[i % HISTORY_S]);
    fputs("], \"spans\": [", f);
    for (int i = 0; i <= SPANS; i++) {
        fputs(i ? ", " : "", f);
        json_span(w, i, now, f);
    }
    fputs("], \"last\": [", f);
    for (uint64_t i = 0; i < SHOWN && i < w->samples; i++) {
        fputs(i ? ", " : "", f);
        json_request(&w->sample[(w->samples - 1 - i) % SAMPLES], now, f);
    }
    fputs("]", f);
}

char *face_watch_json(struct face_watch *w, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);
    if (!f) return NULL;
    pthread_mutex_lock(&w->lock);
    uint64_t now = face_now();
    fprintf(f, "{\"threshold\": %.5f, \"blocks\": %u, \"up_s\": %.1f, \"window_s\": %d",
            (double)w->source.threshold, w->source.blocks, (double)(now - w->begun_ns) / 1e9, WINDOW_S);
    fputs(", \"listens\": ", f);
    json_text(f, w->source.listens, strlen(w->source.listens));
    fputs(", \"exec\": ", f);
    json_text(f, w->source.exec, strlen(w->source.exec));
    fprintf(
        f, ", \"requests\": %llu, \"clients\": %llu, \"lost\": %llu, \"links_failed\": %llu, \"verdicts\": [",
        (unsigned long long)w->counts.requests, (unsigned long long)w->counts.clients,
        (unsigned long long)w->counts.lost, (unsigned long long)w->counts.links_failed);
    for (int i = 0; i < FACE_VERDICTS; i++)
        fprintf(f, "%s%llu", i ? ", " : "", (unsigned long long)w->counts.verdicts[i]);
    fputs("]", f);
    json_lists(w, now, f);
    pthread_mutex_unlock(&w->lock);
    fputs("}\n", f);
    return fclose(f) ? (free(text), NULL) : text;
}
