/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the registry, as JSON. */
#include "src/fleet/registry/entry.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/plan/plan.h"

/* ---- writing ---- */

static char *entry_hex(const uint8_t *bytes, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++) sprintf(to + 2 * i, "%02x", bytes[i]);
    return to;
}

static int entry_dump(json_t *o, char to[FLEET_ENTRY_VALUE])
{
    size_t n = o ? json_dumpb(o, to, FLEET_ENTRY_VALUE - 1, JSON_COMPACT) : 0;
    json_decref(o);
    if (!n || n >= FLEET_ENTRY_VALUE)
        return gw_error(-EINVAL, "fleet: an entry whose texts are not UTF-8, or too long");
    to[n] = 0;
    return (int)n;
}

static bool entry_texts_ok(const char *a, size_t a_size, const char *b, size_t b_size)
{
    return fleet_text_ok(a, a_size) && (!b || fleet_text_ok(b, b_size));
}

int fleet_entry_put_leader(const struct fleet_registry_leader *l, char to[FLEET_ENTRY_VALUE])
{
    char id[2 * FLEET_ID + 1];
    if (!entry_texts_ok(l->name, sizeof(l->name), l->address, sizeof(l->address)))
        return gw_error(-EINVAL, "a controller's name and address must be UTF-8 without control characters");
    return entry_dump(json_pack("{s:s, s:s, s:s}", "id", entry_hex(l->id, FLEET_ID, id), "name", l->name,
                                "address", l->address),
                      to);
}

int fleet_entry_put_worker(const struct fleet_registry_worker *w, char to[FLEET_ENTRY_VALUE])
{
    char id[2 * FLEET_ID + 1];
    if (!entry_texts_ok(w->address, sizeof(w->address), NULL, 0))
        return gw_error(-EINVAL, "a worker's address must be UTF-8 without control characters");
    return entry_dump(json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "id", entry_hex(w->id, FLEET_ID, id),
                                "address", w->address, "gpu_pages", (json_int_t)w->gpu_pages, "host_pages",
                                (json_int_t)w->host_pages, "slots", (json_int_t)w->slots, "emulated",
                                w->emulated),
                      to);
}

int fleet_entry_put_model(const struct fleet_registry_model *m, char to[FLEET_ENTRY_VALUE])
{
    char digest[2 * sizeof(m->digest) + 1];
    if (m->request_bytes > INT64_MAX || m->answer_bytes > INT64_MAX)
        return gw_error(-EINVAL, "a model's request or answer of more than 2^63 bytes");
    return entry_dump(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "version", (json_int_t)m->version,
                                "pages", (json_int_t)m->pages, "min_replicas", (json_int_t)m->min_replicas,
                                "max_batch", (json_int_t)m->max_batch, "request_bytes",
                                (json_int_t)m->request_bytes, "answer_bytes", (json_int_t)m->answer_bytes,
                                "digest", entry_hex(m->digest, sizeof(m->digest), digest)),
                      to);
}

static const char *const entry_where[] = {
    [FLEET_HOST] = "host", [FLEET_LOADING] = "loading", [FLEET_GPU] = "gpu", [FLEET_LEAVING] = "leaving"};

int fleet_entry_put_place(const struct fleet_registry_place *p, char to[FLEET_ENTRY_VALUE])
{
    if (p->where > FLEET_LEAVING) return gw_error(-EINVAL, "a place of kind %u", p->where);
    return entry_dump(json_pack("{s:s}", "where", entry_where[p->where]), to);
}

int fleet_entry_put_drain(const struct fleet_registry_drain *d, char to[FLEET_ENTRY_VALUE])
{
    if (!entry_texts_ok(d->why, sizeof(d->why), NULL, 0))
        return gw_error(-EINVAL, "the reason of a drain must be UTF-8 without control characters");
    return entry_dump(json_pack("{s:s}", "why", d->why), to);
}

/* ---- reading ---- */

/* NULL: it is no object. */
static json_t *entry_load(struct fleet_etcd_bytes value)
{
    if (!value.bytes || value.bytes > FLEET_ENTRY_MAX) return NULL;
    json_t *o = json_loadb(value.data, value.bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(o)) return o;
    json_decref(o);
    return NULL;
}

/* A field that is not there is 0, or "". */
static bool entry_number(const json_t *o, const char *field, uint64_t most, uint64_t *to)
{
    const json_t *v = json_object_get(o, field);
    json_int_t n = json_integer_value(v);
    *to = 0;
    if (!v) return true;
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > most) return false;
    *to = (uint64_t)n;
    return true;
}

static bool entry_small(const json_t *o, const char *field, uint32_t *to)
{
    uint64_t n;
    bool is = entry_number(o, field, UINT32_MAX, &n);
    *to = (uint32_t)n;
    return is;
}

static bool entry_text(const json_t *o, const char *field, char *to, size_t size)
{
    const json_t *v = json_object_get(o, field);
    *to = 0;
    if (!v) return true;
    if (!json_is_string(v) || json_string_length(v) >= size) return false;
    snprintf(to, size, "%s", json_string_value(v));
    return fleet_text_ok(to, size);
}

static bool entry_bytes(const json_t *o, const char *field, uint8_t *to, size_t n)
{
    const char *hex = json_string_value(json_object_get(o, field));
    if (!hex || strlen(hex) != 2 * n || strspn(hex, "0123456789abcdef") != 2 * n) return false;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return false;
        to[i] = (uint8_t)byte;
    }
    return true;
}

static const char *entry_verdict(json_t *o, bool is_good, const char *bad)
{
    bool is_object = o != NULL;
    json_decref(o);
    return !is_object ? "its value is no JSON object" : is_good ? NULL : bad;
}

const char *fleet_entry_get_leader(struct fleet_etcd_bytes value, struct fleet_registry_leader *l)
{
    json_t *o = entry_load(value);
    bool is_good = entry_bytes(o, "id", l->id, FLEET_ID) && entry_text(o, "name", l->name, sizeof(l->name)) &&
                   entry_text(o, "address", l->address, sizeof(l->address)) && *l->address;
    return entry_verdict(o, is_good, "its id, name or address makes no sense");
}

const char *fleet_entry_get_worker(struct fleet_etcd_bytes value, struct fleet_registry_worker *w)
{
    json_t *o = entry_load(value);
    bool is_good = entry_bytes(o, "id", w->id, FLEET_ID) &&
                   entry_text(o, "address", w->address, sizeof(w->address)) && *w->address &&
                   entry_small(o, "gpu_pages", &w->gpu_pages) &&
                   entry_small(o, "host_pages", &w->host_pages) && entry_small(o, "slots", &w->slots);
    w->emulated = json_is_true(json_object_get(o, "emulated"));
    return entry_verdict(o, is_good, "its id, address or sizes make no sense");
}

const char *fleet_entry_get_model(struct fleet_etcd_bytes value, struct fleet_registry_model *m)
{
    json_t *o = entry_load(value);
    bool is_good = entry_bytes(o, "digest", m->digest, sizeof(m->digest)) &&
                   entry_small(o, "version", &m->version) && entry_small(o, "pages", &m->pages) &&
                   entry_small(o, "min_replicas", &m->min_replicas) &&
                   entry_small(o, "max_batch", &m->max_batch) &&
                   entry_number(o, "request_bytes", INT64_MAX, &m->request_bytes) &&
                   entry_number(o, "answer_bytes", INT64_MAX, &m->answer_bytes);
    return entry_verdict(o, is_good, "its digest, version or sizes make no sense");
}

const char *fleet_entry_get_place(struct fleet_etcd_bytes value, struct fleet_registry_place *p)
{
    json_t *o = entry_load(value);
    const char *where = json_string_value(json_object_get(o, "where"));
    bool is_good = false;
    for (uint32_t i = 0; where && i <= FLEET_LEAVING; i++) {
        if (strcmp(where, entry_where[i])) continue;
        p->where = i;
        is_good = true;
    }
    return entry_verdict(o, is_good, "it is neither on the host nor on the GPU");
}

const char *fleet_entry_get_drain(struct fleet_etcd_bytes value, struct fleet_registry_drain *d)
{
    json_t *o = entry_load(value);
    bool is_good = entry_text(o, "why", d->why, sizeof(d->why));
    return entry_verdict(o, is_good, "its reason makes no sense");
}
