/* SPDX-License-Identifier: Apache-2.0 */
/* A check as JSON: the first thing that it tries stands in the check itself, the others in `others`. */
#include "src/balance/control/json_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/json_get.h"

typedef json_int_t number;

/* ---- out ---- */

/* 0, 204, or "200-299 503". */
static json_t *status_json(const struct gw_bal_range *r)
{
    char text[GW_BAL_RANGES * 8 + 1] = "";
    size_t n = 0;
    if (!r[0].from) return json_integer(0);
    if (r[0].from == r[0].to && !r[1].from) return json_integer(r[0].from);
    for (unsigned i = 0; i < GW_BAL_RANGES && r[i].from; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, r[i].from == r[i].to ? "%s%u" : "%s%u-%u",
                              i ? " " : "", r[i].from, r[i].to);
    return json_string(text);
}

static void set_text(json_t *j, const char *name, const char *text)
{
    if (*text) json_object_set_new(j, name, json_string(text));
}
static void json_check_set_addr(json_t *j, const char *name, const struct gw_bal_addr *a)
{
    char text[GW_BAL_ADDR];
    if (a->family) json_object_set_new(j, name, json_string(gw_bal_addr_text(a, text)));
}

static json_t *ask_json(const struct gw_bal_ask *a)
{
    json_t *j = json_pack("{s:s, s:I, s:I, s:o, s:s, s:s, s:s}", "kind", gw_bal_check_names[a->kind], "port",
                          (number)a->port, "timeout_ms", (number)(a->timeout_ns / 1000000), "status",
                          status_json(a->status), "path", a->path, "host", a->host, "model", a->model);
    if (!j) return NULL;
    set_text(j, "digest", a->digest);
    json_check_set_addr(j, "connect", &a->connect);
    json_check_set_addr(j, "bind", &a->bind);
    if (a->needs_reply)
        json_object_update_new(j, json_pack("{s:b, s:I, s:I}", "needs_reply", 1, "least", (number)a->least,
                                            "most", (number)a->most));
    if (a->kind == GW_BAL_MISC_CHECK)
        json_object_update_new(j, json_pack("{s:b, s:I, s:I}", "dynamic", a->dynamic, "uid", (number)a->uid,
                                            "gid", (number)a->gid));
    return j;
}

json_t *gw_bal_check_json(const struct gw_bal_check *c)
{
    json_t *j = ask_json(&c->ask), *others = c->others ? json_array() : NULL;
    if (!j) return NULL;
    json_object_update_new(
        j, json_pack("{s:I, s:I, s:I, s:I}", "interval_ms", (number)(c->interval_ns / 1000000), "again_ms",
                     (number)(c->again_ns / 1000000), "rise", (number)c->rise, "fall", (number)c->fall));
    for (unsigned i = 0; i < c->others; i++) json_array_append_new(others, ask_json(&c->other[i]));
    if (others) json_object_set_new(j, "others", others);
    return j;
}

/* ---- in ---- */

static int get_status(const json_t *from, struct gw_bal_range *out)
{
    const json_t *v = json_object_get(from, "status");
    uint64_t n = 0;
    unsigned i = 0;
    if (!v) return 0;
    if (json_is_integer(v) && gw_bal_get_number(from, "status", 0, 599, &n) < 0) return -EINVAL;
    const char *at = json_string_value(v);
    memset(out, 0, GW_BAL_RANGES * sizeof(*out));
    if (!at) out[0] = (struct gw_bal_range){(uint16_t)n, (uint16_t)n};
    for (char *end; at && *at && i < GW_BAL_RANGES; at = end + strspn(end, " "), i++) {
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end != at && *end == '-') last = strtoul(end + 1, &end, 10);
        if (first < 100 || last > 599 || first > last || (*end && *end != ' '))
            return gw_error(-EINVAL, "status: it must be numbers and ranges, such as \"200-299 503\"");
        out[i] = (struct gw_bal_range){(uint16_t)first, (uint16_t)last};
    }
    return at && *at ? gw_error(-EINVAL, "status: it may have %u ranges", GW_BAL_RANGES) : 0;
}

static int get_ask_addr(const json_t *from, const char *name, struct gw_bal_addr *out)
{
    char text[GW_BAL_ADDR];
    int got = gw_bal_get_text(from, name, text, sizeof(text));
    if (got <= 0) return got;
    return gw_bal_addr_parse(text, out) ? gw_error(-EINVAL, "%s: it must be a numeric address", name) : 1;
}

/* The members that are numbers. */
static int get_ask_numbers(const json_t *j, struct gw_bal_ask *a)
{
    uint64_t port = a->port, timeout = a->timeout_ns / 1000000, least = a->least, most = a->most,
             uid = a->uid, gid = a->gid;
    if (gw_bal_get_number(j, "port", 0, 65535, &port) < 0 ||
        gw_bal_get_number(j, "timeout_ms", 10, 86400000, &timeout) < 0 ||
        gw_bal_get_number(j, "least", 0, 65507, &least) < 0 ||
        gw_bal_get_number(j, "most", 0, 65507, &most) < 0 ||
        gw_bal_get_number(j, "uid", 0, UINT32_MAX, &uid) < 0 ||
        gw_bal_get_number(j, "gid", 0, UINT32_MAX, &gid) < 0 ||
        gw_bal_get_yes(j, "needs_reply", &a->needs_reply) < 0 ||
        gw_bal_get_yes(j, "dynamic", &a->dynamic) < 0)
        return -EINVAL;
    a->port = (uint16_t)port;
    a->timeout_ns = timeout * 1000000;
    a->least = (uint16_t)least;
    a->most = (uint16_t)most;
    a->uid = (uint32_t)uid;
    a->gid = (uint32_t)gid;
    return 0;
}

static bool is_hex(const char *text, const char *digits)
{
    return strspn(text, digits) == strlen(text) && strlen(text) % 2 == 0;
}

static int json_check_ask(const struct gw_bal_ask *a)
{
    bool udp = a->kind == GW_BAL_UDP_CHECK;
    if (a->digest[0] && (strlen(a->digest) != 32 || !is_hex(a->digest, "0123456789abcdefABCDEF")))
        return gw_error(-EINVAL, "check: digest: it must be 32 hexadecimal digits");
    if (udp && (!is_hex(a->path, "0123456789abcdef") || !is_hex(a->model, "0123456789abcdefx")))
        return gw_error(-EINVAL, "check: path and model of a UDP check must be hexadecimal digits");
    if (udp) return 0;
    if (a->path[0] != '/') return gw_error(-EINVAL, "check: path %s: a path begins with /", a->path);
    for (const char *at = a->path; *at && a->kind != GW_BAL_MISC_CHECK; at++)
        if (isspace((unsigned char)*at)) return gw_error(-EINVAL, "check: path %s: it has a blank", a->path);
    return 0;
}

/* The meaning of path and model depends on the kind. */
static void get_ask_kind(struct gw_bal_ask *a, uint8_t kind)
{
    struct gw_bal_check fresh;
    gw_bal_check_default(&fresh);
    if (kind == GW_BAL_UDP_CHECK)
        a->path[0] = a->model[0] = 0;
    else if (a->kind == GW_BAL_UDP_CHECK || a->kind == GW_BAL_MISC_CHECK || a->path[0] != '/') {
        memcpy(a->path, fresh.path, sizeof(a->path));
        memcpy(a->model, fresh.model, sizeof(a->model));
        a->host[0] = 0;
    }
    a->kind = kind;
}

static int get_ask(const json_t *j, struct gw_bal_ask *a)
{
    char kind[GW_BAL_NAME] = "";
    int got = gw_bal_get_text(j, "kind", kind, sizeof(kind));
    int i = got > 0 ? gw_bal_name_index(gw_bal_check_names, kind) : a->kind;
    if (got < 0) return got;
    if (i < 0) return gw_error(-EINVAL, "kind %s: it must be none, tcp, http, https, udp or rdma", kind);
    if (i != a->kind) get_ask_kind(a, (uint8_t)i);
    if (get_ask_numbers(j, a) || get_status(j, a->status) < 0 ||
        gw_bal_get_text(j, "path", a->path, sizeof(a->path)) < 0 ||
        gw_bal_get_text(j, "host", a->host, sizeof(a->host)) < 0 ||
        gw_bal_get_text(j, "model", a->model, sizeof(a->model)) < 0 ||
        gw_bal_get_text(j, "digest", a->digest, sizeof(a->digest)) < 0 ||
        get_ask_addr(j, "connect", &a->connect) < 0 || get_ask_addr(j, "bind", &a->bind) < 0)
        return -EINVAL;
    return a->kind == GW_BAL_NO_CHECK || a->kind == GW_BAL_TCP_CHECK || a->kind == GW_BAL_RDMA_CHECK
               ? 0
               : json_check_ask(a);
}

static int get_others(const json_t *j, struct gw_bal_check *c)
{
    const json_t *others = json_object_get(j, "others"), *one;
    size_t i, n = json_array_size(others);
    struct gw_bal_check fresh;
    if (!others) {
        if (json_object_get(j, "kind")) c->others = 0;
        return 0;
    }
    if (!json_is_array(others) || n > GW_BAL_ASKS - 1)
        return gw_error(-EINVAL, "check: others: it must be an array of %u checks at most", GW_BAL_ASKS - 1);
    gw_bal_check_default(&fresh);
    json_array_foreach(others, i, one)
    {
        c->other[i] = fresh.ask;
        c->other[i].kind = GW_BAL_TCP_CHECK;
        if (!json_is_object(one)) return gw_error(-EINVAL, "check: others: they must be objects");
        int err = get_ask(one, &c->other[i]);
        if (err) return err;
        if (c->other[i].kind == GW_BAL_NO_CHECK || c->kind == GW_BAL_NO_CHECK)
            return gw_error(-EINVAL, "check: `none` goes alone");
    }
    c->others = (uint8_t)n;
    return 0;
}

int gw_bal_get_check(const json_t *from, struct gw_bal_check *c)
{
    const json_t *j = json_object_get(from, "check");
    if (!j) return 0;
    if (!json_is_object(j)) return gw_error(-EINVAL, "check: it must be an object");
    uint64_t interval = c->interval_ns / 1000000, again = c->again_ns / 1000000, rise = c->rise,
             fall = c->fall;
    int err = get_ask(j, &c->ask);
    if (!err) err = get_others(j, c);
    if (err) return err;
    if (gw_bal_get_number(j, "interval_ms", 10, 86400000, &interval) < 0 ||
        gw_bal_get_number(j, "again_ms", 0, 86400000, &again) < 0 ||
        gw_bal_get_number(j, "rise", 1, 1000, &rise) < 0 || gw_bal_get_number(j, "fall", 1, 1001, &fall) < 0)
        return -EINVAL;
    c->interval_ns = interval * 1000000;
    c->again_ns = again * 1000000;
    c->rise = (uint16_t)rise;
    c->fall = (uint16_t)fall;
    return 1;
}
