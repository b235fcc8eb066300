/* SPDX-License-Identifier: Apache-2.0 */
/* Reads how to join from the caller's attributes and the environment. */
#include "src/ranks/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number from 0 to max. */
static int settings_number(const char *name, uint32_t max, uint32_t *value)
{
    const char *text = getenv(name);
    char *end;
    unsigned long v;

    if (!text) return gw_error(-EINVAL, "%s is not set", name);
    v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || v > max)
        return gw_error(-EINVAL, "%s=%s is no number from 0 to %u", name, text, max);
    *value = (uint32_t)v;
    return 0;
}

static int place_check(const struct gw_ranks_settings *s)
{
    if (!s->size || s->size > GW_RANKS_MAX)
        return gw_error(-EINVAL, "%u ranks: there must be 1 to %u", s->size, (uint32_t)GW_RANKS_MAX);
    if (s->rank >= s->size) return gw_error(-EINVAL, "rank %u of %u: ranks begin at 0", s->rank, s->size);
    return 0;
}

static int secret_take(const struct gw_ranks_attr *attr, struct gw_ranks_settings *s)
{
    const char *secret = attr->secret ? attr->secret : getenv("GPUWIRE_SECRET");

    if (!secret) return 0;
    if (strlen(secret) >= GW_RANKS_SECRET)
        return gw_error(-EINVAL, "the secret of the ranks is longer than %u bytes", GW_RANKS_SECRET - 1);
    strcpy(s->secret, secret);
    return 0;
}

/* GPUWIRE_RANK, GPUWIRE_SIZE, GPUWIRE_RENDEZVOUS. */
static int settings_own(const struct gw_ranks_attr *attr, struct gw_ranks_settings *s)
{
    const char *at = attr->rendezvous ? attr->rendezvous : getenv("GPUWIRE_RENDEZVOUS");
    int err = 0;

    s->rank = attr->rank;
    s->size = attr->size;
    if (!attr->size) err = settings_number("GPUWIRE_RANK", GW_RANKS_MAX - 1, &s->rank);
    if (!attr->size && !err) err = settings_number("GPUWIRE_SIZE", GW_RANKS_MAX, &s->size);
    if (!err) err = place_check(s);
    if (err || s->size == 1 || (s->listener >= 0 && !s->rank)) return err;
    if (!at) return gw_error(-EINVAL, "GPUWIRE_RENDEZVOUS is not set: where rank 0 listens, as HOST:PORT");
    return gw_ranks_split(attr->rendezvous ? "the rendezvous" : "GPUWIRE_RENDEZVOUS", at, s->hosts, &s->port);
}

/* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. torchrun itself listens at that port. */
static int settings_torchrun(struct gw_ranks_settings *s)
{
    const char *host = getenv("MASTER_ADDR");
    uint32_t port = 0;
    int err = settings_number("RANK", GW_RANKS_MAX - 1, &s->rank);

    if (!err) err = settings_number("WORLD_SIZE", GW_RANKS_MAX, &s->size);
    if (!err) err = place_check(s);
    if (err || s->size == 1) return err;
    if (!host || !*host || strlen(host) >= sizeof(s->hosts) || strpbrk(host, " \t\n"))
        return gw_error(-EINVAL, "MASTER_ADDR is not set, or is no host");
    err = settings_number("MASTER_PORT", 65534, &port);
    strcpy(s->hosts, host);
    s->port = (uint16_t)(port + 1);
    return err;
}

int gw_ranks_settings(const struct gw_ranks_attr *attr, struct gw_ranks_settings *out)
{
    static const struct gw_ranks_attr none;
    bool own = getenv("GPUWIRE_RANK") != NULL, torchrun = getenv("RANK") && getenv("WORLD_SIZE");
    int err;

    if (!attr) attr = &none;
    *out = (struct gw_ranks_settings){.how = attr->how, .size = 1, .listener = (int)attr->listener - 1};
    if (attr->how > GW_RANKS_PMIX) return gw_error(-EINVAL, "%u is no way to join", attr->how);
    if (out->how == GW_RANKS_AUTO) {
        out->how = GW_RANKS_ALONE;
        if (attr->size || own)
            out->how = GW_RANKS_PLAIN;
        else if (getenv("PMIX_NAMESPACE"))
            out->how = GW_RANKS_PMIX;
        else if (torchrun)
            out->how = GW_RANKS_PLAIN;
    }
    if (out->how != GW_RANKS_PLAIN) return 0;
    err = secret_take(attr, out);
    if (err) return err;
    return !attr->size && !own && torchrun ? settings_torchrun(out) : settings_own(attr, out);
}
