/* SPDX-License-Identifier: Apache-2.0 */
/* Says what a load has shown: a table for people, a line for programs. */
#include <stdio.h>

#include "apps/faceverify/load/load.h"

static const char *const verdicts[FACE_VERDICTS] = {"match",       "no_match",  "unknown",
                                                    "unavailable", "malformed", "busy"};
static const char *const spans[FACE_SPANS] = {"picture_in", "memcached", "compare", "reply_out"};
static const char *const span_words[FACE_SPANS] = {"until memcached is asked", "until memcached answers",
                                                   "histogram and distance", "until the reply is sent"};
static const double percents[] = {50, 90, 99, 99.9};
enum { PERCENTS = sizeof(percents) / sizeof(percents[0]) };

void face_tally_merge(struct face_tally *to, const struct face_tally *from)
{
    to->replies += from->replies;
    for (int i = 0; i < FACE_VERDICTS; i++) to->verdict[i] += from->verdict[i];
    to->counted += from->counted;
    to->wrong += from->wrong;
    to->strange += from->strange;
    to->sent += from->sent;
    to->lost += from->lost;
    to->behind += from->behind;
    to->gone += from->gone;
    if (!to->why[0]) memcpy(to->why, from->why, sizeof(to->why));
    face_times_merge(&to->total, &from->total);
    for (int i = 0; i < FACE_SPANS; i++) face_times_merge(&to->span[i], &from->span[i]);
}

static void print_times(const char *name, const struct face_times *t)
{
    if (!t->count) return;
    printf("  %-26s", name);
    for (int i = 0; i < PERCENTS; i++) printf(" %10.1f", (double)face_times_at(t, percents[i]) / 1e3);
    printf(" %10.1f\n", (double)t->most / 1e3);
}

void face_load_print(const struct face_report *report)
{
    const struct face_tally *t = report->tally;
    const struct face_load *l = report->load;
    printf("%s: %u connections, %u requests on each at most, %u threads", report->server, l->connections,
           l->pipeline, l->threads);
    if (l->rate > 0) printf(", %.0f requests/s", l->rate);
    printf("\n\n  %.0f requests/s in %.1f s\n", (double)t->counted / report->seconds, report->seconds);
    printf("  replies:");
    for (int i = 0; i < FACE_VERDICTS; i++)
        if (t->verdict[i]) printf(" %s %llu", verdicts[i], (unsigned long long)t->verdict[i]);
    printf("\n\n  %-26s %10s %10s %10s %10s %10s\n", "time, µs", "p50", "p90", "p99", "p99.9", "longest");
    print_times("a request", &t->total);
    for (int i = 0; i < FACE_SPANS; i++) print_times(span_words[i], &t->span[i]);
    printf("\n");
    if (t->behind)
        printf("  %llu requests were due and found no room: the rate is too high\n",
               (unsigned long long)t->behind);
    if (t->wrong || t->strange || t->gone || t->lost)
        printf("  WRONG: %llu verdicts, %llu replies that are none; %llu connections ended, %llu requests "
               "had no reply\n  first: %s\n",
               (unsigned long long)t->wrong, (unsigned long long)t->strange, (unsigned long long)t->gone,
               (unsigned long long)t->lost, t->why[0] ? t->why : "no reply in time");
    else
        printf("  every verdict was right\n");
}

static void print_json_times(const char *name, const struct face_times *t)
{
    printf(", \"%s\": {\"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"most\": %.3f}", name,
           (double)face_times_at(t, 50) / 1e3, (double)face_times_at(t, 90) / 1e3,
           (double)face_times_at(t, 99) / 1e3, (double)face_times_at(t, 99.9) / 1e3, (double)t->most / 1e3);
}

void face_load_print_json(const struct face_report *report)
{
    const struct face_tally *t = report->tally;
    const struct face_load *l = report->load;
    printf("{\"connections\": %u, \"pipeline\": %u, \"threads\": %u, \"rate\": %.1f, \"seconds\": %.3f",
           l->connections, l->pipeline, l->threads, l->rate, report->seconds);
    printf(", \"requests_per_s\": %.1f, \"replies\": %llu, \"counted\": %llu, \"sent\": %llu",
           (double)t->counted / report->seconds, (unsigned long long)t->replies,
           (unsigned long long)t->counted, (unsigned long long)t->sent);
    for (int i = 0; i < FACE_VERDICTS; i++)
        printf(", \"%s\": %llu", verdicts[i], (unsigned long long)t->verdict[i]);
    printf(", \"wrong\": %llu, \"strange\": %llu, \"gone\": %llu, \"lost\": %llu, \"behind\": %llu",
           (unsigned long long)t->wrong, (unsigned long long)t->strange, (unsigned long long)t->gone,
           (unsigned long long)t->lost, (unsigned long long)t->behind);
    print_json_times("us", &t->total);
    for (int i = 0; i < FACE_SPANS; i++) print_json_times(spans[i], &t->span[i]);
    printf("}\n");
}
