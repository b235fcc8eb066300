/* SPDX-License-Identifier: Apache-2.0 */
/* MISC_CHECK, and the user that runs it. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/control/config_check.h"
#include "src/balance/control/config_plan.h"

typedef struct gw_bal_parse parse;
typedef const struct gw_bal_statement statement;

/* A number, or -1. */
static long id_number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && n < UINT32_MAX ? (long)n : -1;
}

static int find_user(const char *user, const char *group, uint32_t *uid, uint32_t *gid)
{
    const struct passwd *pw = id_number(user) < 0 ? getpwnam(user) : getpwuid((uid_t)id_number(user));
    if (!pw && id_number(user) < 0) return -1;
    *uid = pw ? pw->pw_uid : (uint32_t)id_number(user);
    *gid = pw ? pw->pw_gid : *uid;
    if (!group || !*group) return 0;
    const struct group *gr = id_number(group) < 0 ? getgrnam(group) : NULL;
    if (!gr && id_number(group) < 0) return -1;
    *gid = gr ? gr->gr_gid : (uint32_t)id_number(group);
    return 0;
}

/* "NAME", "NAME GROUP", "NAME :GROUP", "NAME:GROUP". */
static int take_user(parse *p, statement *s, uint32_t *uid, uint32_t *gid, char text[GW_BAL_NAME])
{
    char user[GW_BAL_NAME];
    snprintf(user, sizeof(user), "%.60s", s->word[1]);
    char *colon = strchr(user, ':');
    if (colon) *colon = 0;
    const char *group = s->words > 2 ? s->word[2] + (s->word[2][0] == ':') : colon ? colon + 1 : NULL;
    if (find_user(user, group, uid, gid))
        return gw_bal_wrong(p, s, "%.64s: there is no such user, or no such group", s->word[1]);
    snprintf(text, GW_BAL_NAME, group && *group ? "%.30s:%.30s" : "%.60s", user, group);
    return 0;
}

int gw_bal_set_script_user(parse *p, statement *s)
{
    return take_user(p, s, &p->plan->script_uid, &p->plan->script_gid, p->plan->script_user);
}

static int set_user(parse *p, statement *s)
{
    struct gw_bal_ask *a = &p->plan->said->ask;
    p->plan->said->has |= GW_BAL_SAID_HOST;
    return take_user(p, s, &a->uid, &a->gid, a->host);
}

/* The path, and words for it, which may be one in quotes. */
static int set_misc_path(parse *p, statement *s)
{
    struct gw_bal_ask *a = &p->plan->said->ask;
    size_t n = 0;
    p->plan->said->has |= GW_BAL_SAID_PATH;
    if (s->word[1][0] != '/') return gw_bal_wrong(p, s, "%.64s: a script's path begins with /", s->word[1]);
    for (unsigned k = 1; k < s->words; k++) {
        int m = snprintf(a->path + n, sizeof(a->path) - n, "%s%s", k > 1 ? " " : "", s->word[k]);
        n += m < 0 ? 0 : (size_t)m;
        if (n >= sizeof(a->path)) return gw_bal_wrong(p, s, "it may have %zu bytes", sizeof(a->path) - 1);
    }
    for (const char *c = a->path; *c; c++)
        if (*c < ' ' || *c > '~' || strchr("\"'\\", *c))
            return gw_bal_wrong(p, s, "its words may have no quotes in quotes, and no special characters");
    return 0;
}

static int set_dynamic(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_DYNAMIC;
    return gw_bal_take_yes(p, s, &p->plan->said->ask.dynamic);
}

const struct gw_bal_keyword gw_bal_keywords_misc[] = {
    {"misc_path", 1, GW_BAL_WORDS, set_misc_path, NULL, NULL},
    {"misc_timeout", 1, 1, gw_bal_set_check_timeout, NULL, NULL},
    {"misc_dynamic", 0, 1, set_dynamic, NULL, NULL},
    {"user", 1, 2, set_user, NULL, NULL},
    {"delay_loop", 1, 1, gw_bal_set_check_interval, NULL, NULL},
    {"delay_before_retry", 1, 1, gw_bal_set_check_again, NULL, NULL},
    {"retry", 1, 1, gw_bal_set_check_retry, NULL, NULL},
    {"rise", 1, 1, gw_bal_set_check_rise, NULL, NULL},
    {"fall", 1, 1, gw_bal_set_check_fall, NULL, NULL},
    {0},
};

static void script_user(const struct gw_bal_plan *plan, struct gw_bal_ask *a)
{
    if (a->kind != GW_BAL_MISC_CHECK || a->host[0]) return;
    a->uid = plan->script_uid;
    a->gid = plan->script_gid;
    snprintf(a->host, sizeof(a->host), "%s", plan->script_user);
    if (a->host[0]) return;
    static const char *const names[] = {"keepalived_script", "nobody", NULL};
    for (int i = 0; names[i] && !a->host[0]; i++)
        if (!find_user(names[i], NULL, &a->uid, &a->gid)) snprintf(a->host, sizeof(a->host), "%s", names[i]);
    if (!a->host[0]) a->uid = a->gid = 65534; /* a host without names */
}

void gw_bal_script_users(const struct gw_bal_plan *plan, struct gw_bal_check *c)
{
    script_user(plan, &c->ask);
    for (unsigned i = 0; i < c->others; i++) script_user(plan, &c->other[i]);
}
