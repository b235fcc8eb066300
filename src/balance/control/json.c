/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the model as JSON, and reads it back. */
#include "src/balance/control/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/drain.h"

typedef json_int_t number;

/* ---- out ---- */

static json_t *health_json(const struct gw_bal_health *h)
{
    json_t *j = json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:s}", "up", h->up, "known", h->known, "good",
                          (number)h->good, "bad", (number)h->bad, "checks", (number)h->checks, "failures",
                          (number)h->failures, "why", h->why);
    if (j && h->has_weight) json_object_set_new(j, "weight", json_integer((number)h->weight));
    return j;
}

/* A limit on the wire: 0 is none, and what is not there is the default. */
static number limit_ms(uint64_t limit_ns)
{
    return limit_ns == GW_BAL_DRAIN_ALWAYS ? 0 : (number)(limit_ns / 1000000);
}

/* The end is for the next control plane, which has the same clock; what is left, for people. */
static void add_drain_json(json_t *j, const struct gw_bal_worker *w)
{
    uint64_t now = gw_deadline(0);
    json_object_set_new(j, "drain_limit_ms", json_integer(limit_ms(gw_bal_drain_limit(w))));
    if (w->drain_over) json_object_set_new(j, "drain_over", json_true());
    json_object_set_new(j, "drain_end_ns", json_integer((number)w->drain_end_ns));
    json_object_set_new(
        j, "drain_left_ms",
        json_integer(w->drain_end_ns > now ? (number)((w->drain_end_ns - now) / 1000000) : 0));
}

static number age_ms(uint64_t now, uint64_t then)
{
    return now > then ? (number)((now - then) / 1000000) : 0;
}

/* The state's age for people, and its beginning for the next control plane. A data plane of an older version
 * refuses members that it does not know, but not inside of these objects. */
static void add_ages_json(json_t *j, const struct gw_bal_worker *w)
{
    uint64_t now = gw_deadline(0);
    json_t *health = json_object_get(j, "health"), *flows = json_object_get(j, "flows");
    if (w->since_ns) {
        json_object_set_new(health, "since_ns", json_integer((number)w->since_ns));
        json_object_set_new(health, "state_ms", json_integer(age_ms(now, w->since_ns)));
    }
    if (w->health.last_ns) {
        json_object_set_new(health, "last_ms", json_integer(age_ms(now, w->health.last_ns)));
        json_object_set_new(health, "next_ms", json_integer(age_ms(w->health.next_ns, now)));
    }
    if (w->drain_from) json_object_set_new(flows, "drain_from", json_integer((number)w->drain_from));
    if (w->telemetry.at_ns)
        json_object_set_new(json_object_get(j, "telemetry"), "age_ms",
                            json_integer(age_ms(now, w->telemetry.at_ns)));
}

json_t *gw_bal_worker_json(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    static const char *const origins[] = {"file", "api", "itself"};
    char addr[GW_BAL_ADDR];
    const struct gw_bal_telemetry *t = &w->telemetry;
    json_t *j = json_pack(
        "{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:b, s:b, s:b, s:I, s:o, s:{s:I, s:I, s:I}, s:{s:I, s:I, s:I, "
        "s:I}}",
        "name", w->name, "id", (number)w->id, "address", gw_bal_addr_text(&w->addr, addr), "port",
        (number)gw_bal_port_of(s, w), "weight", (number)w->weight, "state",
        gw_bal_state_names[gw_bal_state_of(w)], "origin", origins[w->origin], "drain", w->drain, "leave",
        w->leave, "silent", w->silent, "queue_pairs", (number)w->pairs, "health", health_json(&w->health),
        "telemetry", "queue", (number)t->queue, "bytes", (number)t->bytes, "beat_ms",
        (number)(t->beat_ns / 1000000), "flows", "live", (number)w->counts.live, "opened",
        (number)w->counts.opened, "packets", (number)w->counts.packets, "bytes", (number)w->counts.bytes);
    if (j && s->persist_s)
        json_object_set_new(json_object_get(j, "flows"), "clients", json_integer((number)w->counts.clients));
    if (j) add_ages_json(j, w);
    if (j && w->sorry) json_object_set_new(j, "sorry", json_true());
    if (j && w->inhibit) json_object_set_new(j, "inhibit", json_true());
    if (j && w->drain_end_ns) add_drain_json(j, w);
    if (j && w->file_drain) json_object_set_new(j, "file_drain", json_true());
    if (j && (w->refused[0] || s->refused[0]))
        json_object_set_new(j, "refused", json_string(w->refused[0] ? w->refused : s->refused));
    if (j && w->has_check) json_object_set_new(j, "check", gw_bal_check_json(&w->check));
    return j;
}

static json_t *service_json(const struct gw_bal_service *s, json_t *workers)
{
    char addr[GW_BAL_ADDR];
    json_t *j =
        json_pack("{s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:b, s:I, s:o, s:o}", "name", s->name, "id",
                  (number)s->id, "address", gw_bal_addr_text(&s->addr, addr), "port", (number)s->port,
                  "protocol", gw_bal_protocol_names[s->protocol], "scheduler", gw_bal_sched_names[s->sched],
                  "forward", gw_bal_forward_names[s->forward], "jet", s->jet, "origin", (number)s->origin,
                  "check", gw_bal_check_json(&s->check), "workers", workers);
    if (j && s->persist_s) json_object_set_new(j, "persistence_s", json_integer((number)s->persist_s));
    if (j && s->persist_bits)
        json_object_set_new(j, "persistence_bits", json_integer((number)s->persist_bits));
    if (j && s->quorum) json_object_set_new(j, "quorum", json_integer((number)s->quorum));
    if (j && gw_bal_sorry_server(s)) json_object_set_new(j, "sorry", json_boolean(!gw_bal_has_quorum(s)));
    if (j && s->refused[0]) json_object_set_new(j, "refused", json_string(s->refused));
    if (j) json_object_set_new(j, "drain_limit_ms", json_integer(limit_ms(gw_bal_drain_limit_of(s))));
    return j;
}

json_t *gw_bal_service_json(const struct gw_bal_service *s)
{
    json_t *workers = json_array();
    for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
        json_array_append_new(workers, gw_bal_worker_json(s, w));
    return service_json(s, workers);
}

static json_t *head_json(const struct gw_bal_model *m, json_t *services)
{
    char hash[20];
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)m->file_hash);
    return json_pack("{s:I, s:s, s:I, s:I, s:o}", "version", (number)m->version, "file", hash, "next_worker",
                     (number)m->next_worker, "next_service", (number)m->next_service, "services", services);
}

json_t *gw_bal_model_json(const struct gw_bal_model *m)
{
    json_t *services = json_array();
    for (const struct gw_bal_service *s = m->services; s; s = s->next)
        json_array_append_new(services, gw_bal_service_json(s));
    return head_json(m, services);
}

static json_t *gone_json(const uint8_t *mark, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++)
        if (mark[i] == GW_BAL_GONE) json_array_append_new(all, json_integer((number)i));
    return all;
}

json_t *gw_bal_part_json(const struct gw_bal_model *m, const struct gw_bal_part *what)
{
    json_t *services = json_array(), *workers = json_array(), *j;
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        if (what->service[s->id] == GW_BAL_CHANGED)
            json_array_append_new(services, service_json(s, json_array()));
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (what->worker[w->id] == GW_BAL_CHANGED)
                json_array_append_new(workers, json_pack("[I,o]", (number)s->id, gw_bal_worker_json(s, w)));
    }
    j = head_json(m, services);
    json_object_set_new(j, "workers", workers);
    json_object_set_new(j, "gone_services", gone_json(what->service, GW_BAL_SERVICES));
    json_object_set_new(j, "gone_workers", gone_json(what->worker, GW_BAL_WORKERS));
    return j;
}

/* ---- in ---- */

static int get_name(const json_t *from, const char *name, const char *const *names, uint8_t *out)
{
    char text[GW_BAL_NAME], all[128] = "";
    size_t n = 0;
    int got = gw_bal_get_text(from, name, text, sizeof(text));
    if (got <= 0) return got;
    int i = gw_bal_name_index(names, text);
    if (i >= 0) *out = (uint8_t)i;
    for (int k = 0; i < 0 && names[k] && n < sizeof(all); k++)
        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", k ? ", " : "", names[k]);
    return i >= 0 ? 1 : gw_error(-EINVAL, "%s %s: must be one of %s", name, text, all);
}

static int get_addr(const json_t *from, struct gw_bal_addr *out)
{
    char text[GW_BAL_ADDR];
    int got = gw_bal_get_text(from, "address", text, sizeof(text));
    if (got <= 0) return got;
    return gw_bal_addr_parse(text, out)
               ? gw_error(-EINVAL, "address %s: expected a numeric IPv4 or IPv6 address", text)
               : 1;
}

static int get_port(const json_t *from, uint64_t least, uint16_t *out)
{
    uint64_t n = *out;
    int got = gw_bal_get_number(from, "port", least, 65535, &n);
    *out = (uint16_t)n;
    return got;
}

int gw_bal_get_drain_limit(const json_t *from, uint64_t *limit_ns)
{
    uint64_t ms = 0;
    int found = gw_bal_get_number(from, "drain_limit_ms", 0, GW_BAL_DRAIN_MAX / 1000000, &ms);
    if (found > 0) *limit_ns = ms ? ms * 1000000 : GW_BAL_DRAIN_ALWAYS;
    return found;
}

/* A misspelt member would be ignored in silence. */
static int only_known(const json_t *from, const char *const *known)
{
    const char *key;
    json_t *value;
    if (!json_is_object(from)) return gw_error(-EINVAL, "the body must be a JSON object");
    json_object_foreach((json_t *)from, key, value)
    {
        if (gw_bal_name_index(known, key) < 0)
            return gw_error(-EINVAL, "%.64s: no such member; docs/balance.md lists them", key);
    }
    return 0;
}

int gw_bal_service_from(const json_t *from, struct gw_bal_service *out)
{
    static const char *const known[] = {
        "name",    "id",        "address",        "port",          "protocol",         "forward",
        "jet",     "origin",    "check",          "workers",       "quorum",           "sorry",
        "refused", "scheduler", "drain_limit_ms", "persistence_s", "persistence_bits", NULL};
    uint64_t quorum = out->quorum, seconds = out->persist_s, bits = out->persist_bits;
    if (only_known(from, known) || gw_bal_get_text(from, "name", out->name, sizeof(out->name)) < 0 ||
        get_addr(from, &out->addr) < 0 || get_port(from, 0, &out->port) < 0 ||
        get_name(from, "protocol", gw_bal_protocol_names, &out->protocol) < 0 ||
        get_name(from, "scheduler", gw_bal_sched_names, &out->sched) < 0 ||
        get_name(from, "forward", gw_bal_forward_names, &out->forward) < 0 ||
        gw_bal_get_yes(from, "jet", &out->jet) < 0 ||
        gw_bal_get_drain_limit(from, &out->drain_limit_ns) < 0 ||
        gw_bal_get_number(from, "persistence_s", 0, GW_BAL_PERSIST_S, &seconds) < 0 ||
        gw_bal_get_number(from, "persistence_bits", 0, 128, &bits) < 0 ||
        gw_bal_get_number(from, "quorum", 0, UINT32_MAX, &quorum) < 0 ||
        gw_bal_get_check(from, &out->check) < 0)
        return -EINVAL;
    out->quorum = (uint32_t)quorum;
    out->persist_s = (uint32_t)seconds;
    out->persist_bits = (uint8_t)bits;
    return out->addr.family ? 0 : gw_error(-EINVAL, "address: it is missing");
}

int gw_bal_worker_from(const json_t *from, struct gw_bal_worker *out)
{
    static const char *const known[] = {
        "name",           "id",           "address",       "port",        "weight",  "state",
        "origin",         "drain",        "leave",         "silent",      "health",  "telemetry",
        "flows",          "check",        "queue",         "queue_bytes", "beat_ms", "now",
        "queue_pairs",    "leaving",      "file_drain",    "refused",     "sorry",   "inhibit",
        "drain_limit_ms", "drain_end_ns", "drain_left_ms", "drain_over",  NULL};
    uint64_t weight = out->weight;
    if (only_known(from, known) || gw_bal_get_text(from, "name", out->name, sizeof(out->name)) < 0 ||
        get_addr(from, &out->addr) < 0 || get_port(from, 0, &out->port) < 0 ||
        gw_bal_get_number(from, "weight", 0, GW_BAL_WEIGHT, &weight) < 0 ||
        gw_bal_get_yes(from, "sorry", &out->sorry) < 0 || gw_bal_get_yes(from, "inhibit", &out->inhibit) < 0)
        return -EINVAL;
    out->weight = (uint32_t)weight;
    if (!out->has_check) gw_bal_check_default(&out->check);
    if (!out->has_check) out->check.kind = out->sorry ? GW_BAL_NO_CHECK : GW_BAL_TCP_CHECK;
    out->has_check |= out->sorry;
    int checked = gw_bal_get_check(from, &out->check);
    if (checked < 0) return checked;
    out->has_check |= (uint8_t)checked;
    return out->addr.family ? 0 : gw_error(-EINVAL, "address: it is missing");
}

/* ---- the whole model ---- */

/* A reason is another host's words, and a state must be read whatever they are: what cannot be read is 0. */
static void health_from(const json_t *from, struct gw_bal_health *h)
{
    uint64_t good = 0, bad = 0, weight = 0;
    const json_t *j = json_object_get(from, "health");
    gw_bal_get_yes(j, "up", &h->up);
    gw_bal_get_yes(j, "known", &h->known);
    gw_bal_get_number(j, "good", 0, UINT16_MAX, &good);
    gw_bal_get_number(j, "bad", 0, UINT16_MAX, &bad);
    gw_bal_get_number(j, "checks", 0, INT64_MAX, &h->checks);
    gw_bal_get_number(j, "failures", 0, INT64_MAX, &h->failures);
    gw_bal_get_text(j, "why", h->why, sizeof(h->why));
    h->has_weight = gw_bal_get_number(j, "weight", 0, GW_BAL_WEIGHT, &weight) > 0;
    h->weight = (uint32_t)weight;
    h->good = (uint16_t)good;
    h->bad = (uint16_t)bad;
}

/* A state that is not as it was shows at the next look. */
static void since_from(const json_t *from, struct gw_bal_worker *w)
{
    char state[16] = "";
    if (gw_bal_get_text(from, "state", state, sizeof(state)) > 0)
        w->shown = (uint8_t)gw_bal_name_index(gw_bal_state_names, state);
    gw_bal_get_number(json_object_get(from, "health"), "since_ns", 0, INT64_MAX, &w->since_ns);
    gw_bal_get_number(json_object_get(from, "flows"), "drain_from", 0, INT64_MAX, &w->drain_from);
}

/* A worker's part of a state, and its id. */
static int read_worker(const struct gw_bal_service *s, const json_t *from, uint64_t now_ns,
                       struct gw_bal_worker *w, uint64_t *id)
{
    static const char *const origins[] = {"file", "api", "itself", NULL};
    uint64_t beat = 0, queue = 0;
    const json_t *telemetry = json_object_get(from, "telemetry");
    *w = (struct gw_bal_worker){.weight = 1};
    int err = gw_bal_worker_from(from, w);
    if (err) return err;
    if (!w->name[0]) return gw_error(-EINVAL, "a worker of service %s has no name", s->name);
    if (w->port == s->port) w->port = 0;
    if (gw_bal_get_number(from, "id", 0, GW_BAL_WORKERS - 1, id) <= 0 ||
        get_name(from, "origin", origins, &w->origin) < 0 || gw_bal_get_yes(from, "drain", &w->drain) < 0 ||
        gw_bal_get_yes(from, "leave", &w->leave) < 0 || gw_bal_get_yes(from, "silent", &w->silent) < 0 ||
        gw_bal_get_yes(from, "file_drain", &w->file_drain) < 0 ||
        gw_bal_get_yes(from, "drain_over", &w->drain_over) < 0 ||
        gw_bal_get_drain_limit(from, &w->drain_limit_ns) < 0 ||
        gw_bal_get_number(from, "drain_end_ns", 0, INT64_MAX, &w->drain_end_ns) < 0 ||
        gw_bal_get_number(telemetry, "beat_ms", 0, 86400000, &beat) < 0 ||
        gw_bal_get_number(telemetry, "queue", 0, UINT32_MAX, &queue) < 0 ||
        gw_bal_get_number(telemetry, "bytes", 0, INT64_MAX, &w->telemetry.bytes) < 0)
        return gw_error(-EINVAL, "worker %s: %s", w->name, gw_last_error());
    /* It may not have known our address: its patience begins now. */
    w->telemetry.at_ns = beat ? now_ns : 0;
    w->telemetry.beat_ns = beat * 1000000;
    w->telemetry.queue = (uint32_t)queue;
    health_from(from, &w->health);
    since_from(from, w);
    return 0;
}

static int read_service(const json_t *from, struct gw_bal_service *s, uint64_t *id)
{
    uint64_t origin = 0;
    *s = (struct gw_bal_service){0};
    gw_bal_check_default(&s->check);
    int err = gw_bal_service_from(from, s);
    if (!err && (gw_bal_get_number(from, "origin", 0, GW_BAL_OF_ITSELF, &origin) < 0 ||
                 gw_bal_get_number(from, "id", 0, GW_BAL_SERVICES - 1, id) <= 0))
        err = gw_error(-EINVAL, "service %s: it has no id", s->name);
    if (!err && !s->name[0]) err = gw_error(-EINVAL, "a service has no name");
    s->origin = (uint8_t)origin;
    return err;
}

/* The worker of this id becomes what `from` says. */
static int restore_worker(struct gw_bal_model *m, struct gw_bal_service *s, const json_t *from,
                          uint64_t now_ns)
{
    struct gw_bal_worker w, *mine;
    uint64_t id = 0;
    int err = read_worker(s, from, now_ns, &w, &id);
    if (err) return err;
    mine = gw_bal_worker_by_id(m, (uint32_t)id);
    if (!mine) return gw_bal_put_worker(m, s, &w, (uint32_t)id, NULL);
    if (mine->service == s) {
        gw_bal_replace_worker(m, mine, &w);
        return 0;
    }
    gw_bal_leave(m, mine->service, mine, true); /* its id is another's by now */
    return gw_bal_put_worker(m, s, &w, (uint32_t)id, NULL);
}

static int restore_service(struct gw_bal_model *m, const json_t *from, struct gw_bal_service **out)
{
    struct gw_bal_service s;
    uint64_t id = 0;
    int err = read_service(from, &s, &id);
    if (err) return err;
    *out = gw_bal_service_by_id(m, (uint32_t)id);
    if (*out && !gw_bal_replace_service(m, *out, &s)) return 0;
    if (*out) gw_bal_remove_service(m, *out); /* its id is another's by now */
    return gw_bal_put_service(m, &s, (uint32_t)id, out);
}

/* Objects that cannot be read are left out, and the rest is there. */
static void restore_lost(struct gw_bal_model *m)
{
    if (!m->lost++) gw_bal_plain(m->lost_why, sizeof(m->lost_why), gw_last_error());
}

static void restore_all(struct gw_bal_model *m, const json_t *services, uint64_t now_ns)
{
    size_t i, k;
    json_t *service, *worker;
    struct gw_bal_service *mine;
    json_array_foreach(services, i, service)
    {
        if (restore_service(m, service, &mine)) {
            restore_lost(m);
            continue;
        }
        json_array_foreach(json_object_get(service, "workers"), k, worker)
        {
            if (restore_worker(m, mine, worker, now_ns)) restore_lost(m);
        }
    }
}

static int restore_head(const json_t *from, struct gw_bal_model *m)
{
    uint64_t version = 0, next_worker = 0, next_service = 0;
    unsigned long long hash = 0;
    char text[20] = "";
    if (gw_bal_get_number(from, "version", 0, INT64_MAX, &version) <= 0 ||
        gw_bal_get_number(from, "next_worker", 0, UINT32_MAX, &next_worker) <= 0 ||
        gw_bal_get_number(from, "next_service", 0, UINT32_MAX, &next_service) <= 0 ||
        gw_bal_get_text(from, "file", text, sizeof(text)) <= 0 || sscanf(text, "%16llx", &hash) != 1)
        return gw_error(-EINVAL, "the state is not one of a balancer");
    m->version = version;
    m->next_worker = (uint32_t)next_worker;
    m->next_service = (uint32_t)next_service;
    m->file_hash = hash;
    m->lost = 0;
    return 0;
}

int gw_bal_model_from(const json_t *from, struct gw_bal_model *m, uint64_t now_ns)
{
    int err = restore_head(from, m);
    if (err) return err;
    uint64_t version = m->version;
    restore_all(m, json_object_get(from, "services"), now_ns);
    m->version = version + 1;
    return 0;
}

/* A service that goes takes its workers with it; they are named, too, and are not there any more then. */
static void forget_part(const json_t *from, struct gw_bal_model *m)
{
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(from, "gone_workers"), i, id)
    {
        struct gw_bal_worker *w = gw_bal_worker_by_id(m, (uint32_t)json_integer_value(id));
        if (w) gw_bal_leave(m, w->service, w, true);
    }
    json_array_foreach(json_object_get(from, "gone_services"), i, id)
    {
        struct gw_bal_service *s = gw_bal_service_by_id(m, (uint32_t)json_integer_value(id));
        if (s) gw_bal_remove_service(m, s);
    }
}

int gw_bal_part_from(const json_t *from, struct gw_bal_model *m, uint64_t now_ns)
{
    size_t i;
    json_t *one;
    int err = restore_head(from, m);
    if (err) return err;
    uint64_t version = m->version;
    forget_part(from, m);
    restore_all(m, json_object_get(from, "services"), now_ns);
    json_array_foreach(json_object_get(from, "workers"), i, one)
    {
        uint32_t id = (uint32_t)json_integer_value(json_array_get(one, 0));
        struct gw_bal_service *s = gw_bal_service_by_id(m, id);
        if (!s) gw_error(-EINVAL, "a worker's service is not there");
        if (!s || restore_worker(m, s, json_array_get(one, 1), now_ns)) restore_lost(m);
    }
    m->version = version + 1;
    return 0;
}
