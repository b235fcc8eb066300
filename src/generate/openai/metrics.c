/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: Prometheus' text format, with vLLM's names, so that its dashboards work, and ours beside them. */
#include <errno.h>
#include <stdlib.h>

#include "src/generate/openai/shared.h"

#define METRICS_SECOND 1e9

struct openai_metrics_of {
    const char *name;
    struct gen_source_stats s;
    struct gen_service_stats t;
};

static double openai_metrics_running(const struct openai_metrics_of *m)
{
    return m->s.running;
}
static double openai_metrics_waiting(const struct openai_metrics_of *m)
{
    return m->s.waiting;
}
static double openai_metrics_cache(const struct openai_metrics_of *m)
{
    return m->s.pages ? (double)m->s.pages_used / (double)m->s.pages : 0;
}
static double openai_metrics_prompt(const struct openai_metrics_of *m)
{
    return (double)m->s.prompt_tokens;
}
static double openai_metrics_cached(const struct openai_metrics_of *m)
{
    return (double)m->s.prompt_cached;
}
static double openai_metrics_tokens(const struct openai_metrics_of *m)
{
    return (double)m->s.tokens;
}
static double openai_metrics_preempted(const struct openai_metrics_of *m)
{
    return (double)m->s.preempted;
}
static double openai_metrics_steps(const struct openai_metrics_of *m)
{
    return (double)m->s.steps;
}
static double openai_metrics_pages(const struct openai_metrics_of *m)
{
    return (double)m->s.pages;
}
static double openai_metrics_pages_used(const struct openai_metrics_of *m)
{
    return (double)m->s.pages_used;
}
static double openai_metrics_pages_shared(const struct openai_metrics_of *m)
{
    return (double)m->s.pages_shared;
}

static const struct {
    const char *name, *type, *help;
    double (*of)(const struct openai_metrics_of *m);
} openai_metrics_numbers[] = {
    {"vllm:num_requests_running", "gauge", "Requests that have a lane", openai_metrics_running},
    {"vllm:num_requests_waiting", "gauge", "Requests that wait for one", openai_metrics_waiting},
    {"vllm:kv_cache_usage_perc", "gauge", "Share of the pages that are in use, from 0 to 1",
     openai_metrics_cache},
    {"vllm:gpu_cache_usage_perc", "gauge", "The same, under its older name", openai_metrics_cache},
    {"vllm:prompt_tokens_total", "counter", "Tokens of prompts", openai_metrics_prompt},
    {"vllm:generation_tokens_total", "counter", "Tokens that were made", openai_metrics_tokens},
    {"vllm:prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in the cache",
     openai_metrics_prompt},
    {"vllm:prefix_cache_hits_total", "counter", "Of these: tokens that were there", openai_metrics_cached},
    {"vllm:num_preemptions_total", "counter", "Requests that gave their pages up, to be computed again",
     openai_metrics_preempted},
    {"gpuwire_generate_steps_total", "counter", "Passes of the network", openai_metrics_steps},
    {"gpuwire_generate_pages", "gauge", "Pages of keys and values that there are", openai_metrics_pages},
    {"gpuwire_generate_pages_used", "gauge", "Of these: pages in use", openai_metrics_pages_used},
    {"gpuwire_generate_pages_shared", "gauge", "Of these: pages that several requests use",
     openai_metrics_pages_shared},
};

/* How requests ended, and under which of vLLM's reasons and ours. */
static const struct {
    const char *reason;
    unsigned first, last; /* enum gen_status */
} openai_metrics_ends[] = {
    {"stop", GEN_STOPPED, GEN_STOPPED},      {"length", GEN_LENGTH, GEN_LENGTH},
    {"abort", GEN_CANCELLED, GEN_CANCELLED}, {"late", GEN_LATE, GEN_LATE},
    {"invalid", GEN_INVALID, GEN_INVALID},   {"refused", GEN_CLOSING, GEN_FULL},
    {"error", GEN_FAILED, GEN_FAILED},
};

static void openai_metrics_head(struct gw_text *t, const char *name, const char *type, const char *help)
{
    gw_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* NAME{model_name="…",engine="0" and what follows: quotes and backslashes are escaped. */
static void openai_metrics_begin(struct gw_text *t, const char *name, const char *tail, const char *model)
{
    gw_text_printf(t, "%s%s{model_name=\"", name, tail);
    for (; *model; model++) {
        if (*model == '"' || *model == '\\') gw_text_add(t, "\\", 1);
        gw_text_add(t, *model == '\n' ? " " : model, 1);
    }
    gw_text_add(t, "\",engine=\"0\"", 12);
}

/* Counts by size: bucket i has those up to end(i), and the last one has no end. */
struct openai_metrics_buckets {
    const uint64_t *count;
    uint32_t buckets;
    double sum;
    double (*end)(uint32_t bucket);
};

static double openai_metrics_time_end(uint32_t bucket)
{
    return (double)(GEN_BUCKET_NS << bucket) / METRICS_SECOND;
}

static double openai_metrics_length_end(uint32_t bucket)
{
    return (double)gen_length_end(bucket);
}

static struct openai_metrics_buckets openai_metrics_of_times(const struct gen_histogram *h)
{
    return (struct openai_metrics_buckets){h->count, GEN_BUCKETS, (double)h->sum_ns / METRICS_SECOND,
                                           openai_metrics_time_end};
}

static struct openai_metrics_buckets openai_metrics_of_lengths(const struct gen_lengths *l)
{
    return (struct openai_metrics_buckets){l->count, GEN_LENGTHS, (double)l->sum, openai_metrics_length_end};
}

static void openai_metrics_histogram(struct gw_text *t, const char *name, const char *model,
                                     const struct openai_metrics_buckets *b)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < b->buckets; i++) {
        count += b->count[i];
        openai_metrics_begin(t, name, "_bucket", model);
        if (i == b->buckets - 1)
            gw_text_printf(t, ",le=\"+Inf\"} %llu\n", (unsigned long long)count);
        else
            gw_text_printf(t, ",le=\"%.9g\"} %llu\n", b->end(i), (unsigned long long)count);
    }
    openai_metrics_begin(t, name, "_sum", model);
    gw_text_printf(t, "} %.17g\n", b->sum);
    openai_metrics_begin(t, name, "_count", model);
    gw_text_printf(t, "} %llu\n", (unsigned long long)count);
}

/* A stop string's end is a stop, which the source does not know. */
static uint64_t openai_metrics_ended(const struct openai_metrics_of *m, size_t k)
{
    uint64_t n = 0,
             text = m->t.text_stops < m->s.ended[GEN_CANCELLED] ? m->t.text_stops : m->s.ended[GEN_CANCELLED];
    for (unsigned i = openai_metrics_ends[k].first; i <= openai_metrics_ends[k].last; i++) n += m->s.ended[i];
    if (openai_metrics_ends[k].first == GEN_STOPPED) n += text;
    if (openai_metrics_ends[k].first == GEN_CANCELLED) n -= text;
    return n;
}

static void openai_metrics_write_ends(struct gw_text *t, const struct openai_metrics_of *m, uint32_t n)
{
    openai_metrics_head(t, "vllm:request_success_total", "counter",
                        "Requests that have ended, by the reason");
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(openai_metrics_ends) / sizeof(openai_metrics_ends[0]); k++) {
            openai_metrics_begin(t, "vllm:request_success_total", "", m[i].name);
            gw_text_printf(t, ",finished_reason=\"%s\"} %llu\n", openai_metrics_ends[k].reason,
                           (unsigned long long)openai_metrics_ended(&m[i], k));
        }
}

static struct openai_metrics_buckets openai_metrics_first(const struct openai_metrics_of *m)
{
    return openai_metrics_of_times(&m->s.first);
}
static struct openai_metrics_buckets openai_metrics_between(const struct openai_metrics_of *m)
{
    return openai_metrics_of_times(&m->s.between);
}
static struct openai_metrics_buckets openai_metrics_whole(const struct openai_metrics_of *m)
{
    return openai_metrics_of_times(&m->s.whole);
}
static struct openai_metrics_buckets openai_metrics_queued(const struct openai_metrics_of *m)
{
    return openai_metrics_of_times(&m->s.queued);
}
static struct openai_metrics_buckets openai_metrics_prompts(const struct openai_metrics_of *m)
{
    return openai_metrics_of_lengths(&m->t.prompts);
}
static struct openai_metrics_buckets openai_metrics_made(const struct openai_metrics_of *m)
{
    return openai_metrics_of_lengths(&m->t.made);
}

static const struct {
    const char *name, *help;
    struct openai_metrics_buckets (*of)(const struct openai_metrics_of *m);
} openai_metrics_sizes[] = {
    {"vllm:time_to_first_token_seconds", "From a request's arrival to its first token", openai_metrics_first},
    {"vllm:inter_token_latency_seconds", "From one token of a request to its next", openai_metrics_between},
    {"vllm:time_per_output_token_seconds", "The same, under its older name", openai_metrics_between},
    {"vllm:e2e_request_latency_seconds", "From a request's arrival to its last token", openai_metrics_whole},
    {"vllm:request_queue_time_seconds", "From a request's arrival until it had a lane",
     openai_metrics_queued},
    {"vllm:request_prompt_tokens", "Tokens of a request's prompt", openai_metrics_prompts},
    {"vllm:request_generation_tokens", "Tokens of a request's answer", openai_metrics_made},
};

static void openai_metrics_write(struct gw_text *t, const struct openai_metrics_of *m, uint32_t n)
{
    for (size_t k = 0; k < sizeof(openai_metrics_numbers) / sizeof(openai_metrics_numbers[0]); k++) {
        openai_metrics_head(t, openai_metrics_numbers[k].name, openai_metrics_numbers[k].type,
                            openai_metrics_numbers[k].help);
        for (uint32_t i = 0; i < n; i++) {
            openai_metrics_begin(t, openai_metrics_numbers[k].name, "", m[i].name);
            gw_text_printf(t, "} %.17g\n", openai_metrics_numbers[k].of(&m[i]));
        }
    }
    for (size_t k = 0; k < sizeof(openai_metrics_sizes) / sizeof(openai_metrics_sizes[0]); k++) {
        openai_metrics_head(t, openai_metrics_sizes[k].name, "histogram", openai_metrics_sizes[k].help);
        for (uint32_t i = 0; i < n; i++) {
            struct openai_metrics_buckets b = openai_metrics_sizes[k].of(&m[i]);
            openai_metrics_histogram(t, openai_metrics_sizes[k].name, m[i].name, &b);
        }
    }
    openai_metrics_write_ends(t, m, n);
}

static void openai_metrics_server(struct gw_text *t, const struct gen_openai_door *d)
{
    openai_metrics_head(t, "gpuwire_server_info", "gauge", "The server's version");
    gw_text_printf(t, "gpuwire_server_info{version=\"%s\",executor=\"%s\"} 1\n", GW_VERSION,
                   d->executor ? d->executor : "");
    openai_metrics_head(t, "gpuwire_access_log_lost_total", "counter", "Lines that the access log lacks");
    gw_text_printf(t, "gpuwire_access_log_lost_total %llu\n",
                   (unsigned long long)gw_access_dropped(d->access));
}

int gen_openai_metrics_models(const void *door, struct gw_text *t)
{
    const struct gen_openai_door *d = door;
    uint32_t n = gen_openai_services(d);
    struct openai_metrics_of *m = calloc(n ? n : 1, sizeof(*m));
    for (uint32_t i = 0; m && i < n; i++) {
        const struct gen_service_opts *o = gen_service_of(d->service[i]);
        m[i].name = o->name;
        gen_service_stats(d->service[i], &m[i].t);
        o->source->ops->stats(o->source->own, &m[i].s);
    }
    if (m && n) openai_metrics_write(t, m, n);
    free(m);
    return m ? 0 : -ENOMEM;
}

json_t *gen_openai_metrics(const struct gen_openai_door *d)
{
    struct gw_text t = {0};
    int err = gen_openai_metrics_models(d, &t);
    openai_metrics_server(&t, d);
    json_t *text = !err && !t.broken ? json_stringn(t.at, t.bytes) : NULL;
    free(t.at);
    return text;
}
