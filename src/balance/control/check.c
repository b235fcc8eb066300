/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what can run: the data plane's own checks (src/balance/check.h), with the model's terms. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/check.h"
#include "src/balance/control/model.h"
#include "src/balance/control/translate.h"

_Static_assert(GW_BAL_WHY >= BAL_WHY, "a reason fits");

static bool name_is_good(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.:", *c)) return false;
    return *name != 0;
}

int gw_bal_service_fits(const struct gw_bal_model *m, const struct gw_bal_service *s)
{
    struct bal_port ports[BAL_PORTS];
    struct bal_service there;
    char text[GW_BAL_ENDPOINT], why[BAL_WHY];
    gw_bal_endpoint_text(s, text);
    if (!name_is_good(s->name))
        return gw_error(-EINVAL, "service %s: its name must have letters, digits and -_.: only", text);
    if (s->protocol == GW_BAL_ROCE && s->port != 4791)
        return gw_error(-EINVAL, "service %s: the port of RoCE is 4791", text);
    if (s->forward == GW_BAL_NAT && !s->port)
        return gw_error(-EINVAL, "service %s: NAT wants a port; all ports (0) go with DR and TUN", text);
    gw_bal_to_service(s, &there);
    if (m->global) gw_bal_to_ports(m->global, ports);
    return bal_check_service(m->global ? ports : NULL, &there, why)
               ? gw_error(-EINVAL, "service %s: %s", text, why)
               : 0;
}

int gw_bal_fits(const struct gw_bal_model *m, const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    struct bal_port ports[BAL_PORTS];
    struct bal_service service;
    struct bal_worker there;
    char text[GW_BAL_ADDR], why[BAL_WHY];
    gw_bal_addr_text(&w->addr, text);
    if (w->name[0] && !name_is_good(w->name))
        return gw_error(-EINVAL, "worker %s: its name must have letters, digits and -_.: only", text);
    if (w->weight > GW_BAL_WEIGHT)
        return gw_error(-EINVAL, "worker %s: weight %u: it must be at most %u", text, w->weight,
                        GW_BAL_WEIGHT);
    if (w->addr.family != s->addr.family)
        return gw_error(-EINVAL, "worker %s: it is IPv%u and the service IPv%u; both must be the same", text,
                        w->addr.family, s->addr.family);
    gw_bal_to_service(s, &service);
    gw_bal_to_worker(s, w, m->global, &there);
    if (m->global) gw_bal_to_ports(m->global, ports);
    return bal_check_worker(m->global ? ports : NULL, &service, &there, why)
               ? gw_error(-EINVAL, "worker %s: %s", text, why)
               : 0;
}

/* ---- the whole ---- */

static int check_names(const struct gw_bal_model *m)
{
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        for (const struct gw_bal_service *o = s->next_name; o; o = o->next_name)
            if (!strcmp(o->name, s->name))
                return gw_error(-EEXIST, "service %s: two services have this name; give one another",
                                s->name);
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            for (const struct gw_bal_worker *o = w->next_name; o; o = o->next_name)
                if (o->service == s && !strcmp(o->name, w->name))
                    return gw_error(-EEXIST,
                                    "worker %s: service %s has two of this name; give one another name",
                                    w->name, s->name);
    }
    return 0;
}

/* The data plane's view of a model; `all`: also what is marked as refused. */
static struct bal_config *config_of(const struct gw_bal_model *m, bool all)
{
    struct bal_config *c = calloc(1, sizeof(*c));
    if (c) gw_bal_translate(m, m->global, all, c);
    return c;
}

struct verdict {
    const struct gw_bal_model *model;
    int refused;
};

static void say_first(void *ctx, enum bal_object kind, uint32_t number, const char *why)
{
    struct verdict *v = ctx;
    const struct gw_bal_service *s = kind == BAL_A_SERVICE ? gw_bal_service_by_id(v->model, number) : NULL;
    const struct gw_bal_worker *w = kind == BAL_A_WORKER ? gw_bal_worker_by_id(v->model, number) : NULL;
    if (v->refused++) return;
    if (w)
        gw_error(-EINVAL, "service %s: worker %s: %s", w->service->name, w->name, why);
    else if (s)
        gw_error(-EINVAL, "service %s: %s", s->name, why);
    else
        gw_error(-EINVAL, "network port %u: %s", number, why);
}

int gw_bal_model_check(const struct gw_bal_model *m)
{
    struct verdict v = {.model = m};
    int err = check_names(m);
    if (err) return err;
    struct bal_config *c = config_of(m, false);
    err = c ? bal_check_config(c, say_first, &v) : -ENOMEM;
    free(c);
    if (err) return gw_error_errno(err, "balance");
    return v.refused ? -EINVAL : 0;
}

static void control_check_mark(void *ctx, enum bal_object kind, uint32_t number, const char *why)
{
    struct verdict *v = ctx;
    struct gw_bal_service *s = kind == BAL_A_SERVICE ? gw_bal_service_by_id(v->model, number) : NULL;
    struct gw_bal_worker *w = kind == BAL_A_WORKER ? gw_bal_worker_by_id(v->model, number) : NULL;
    if (s) snprintf(s->refused, sizeof(s->refused), "%s", why);
    if (w) snprintf(w->refused, sizeof(w->refused), "%s", why);
    v->refused++;
}

int gw_bal_model_refuse(struct gw_bal_model *m)
{
    struct verdict v = {.model = m};
    struct bal_config *c = config_of(m, true);
    for (struct gw_bal_service *s = m->services; c && s; s = s->next) {
        s->refused[0] = 0;
        for (struct gw_bal_worker *w = s->workers; w; w = w->next) w->refused[0] = 0;
    }
    int err = c ? bal_check_config(c, control_check_mark, &v) : -ENOMEM;
    free(c);
    return err ? gw_error_errno(err, "balance") : v.refused;
}
