/* SPDX-License-Identifier: Apache-2.0 */
/* Services as a file describes them. They enter the model when the whole file has been read. Statements after
 * a worker count for it, too, and a service of a group may stand before the group. */
#ifndef GW_BALANCE_CONTROL_CONFIG_PLAN_H
#define GW_BALANCE_CONTROL_CONFIG_PLAN_H

#include "src/balance/control/parse.h"
#include "src/balance/control/said.h"

struct gw_bal_plan_worker {
    struct gw_bal_plan_worker *next;
    struct gw_bal_place at;
    struct gw_bal_worker worker;
    struct gw_bal_saids checks;
    uint8_t has_forward, forward, has_inhibit;
};

struct gw_bal_plan_service {
    struct gw_bal_plan_service *next;
    struct gw_bal_place at;
    struct gw_bal_service service;
    uint32_t first, end_id; /* the numbers of its services in the model, one for each address of its group */
    struct gw_bal_saids checks;
    char group[GW_BAL_NAME]; /* whose addresses it has; "": its own */
    uint8_t inhibit;         /* of all workers */
    uint8_t has_sorry_forward, sorry_forward;
    struct gw_bal_plan_worker *workers, **end;
};

/* Addresses that follow each other. */
struct gw_bal_plan_range {
    struct gw_bal_plan_range *next;
    struct gw_bal_addr addr;
    uint32_t count;
    uint16_t port;
};

struct gw_bal_plan_group {
    struct gw_bal_plan_group *next;
    char name[GW_BAL_NAME];
    int spoiled; /* a member has a mistake */
    struct gw_bal_plan_range *ranges, **end;
};

struct gw_bal_plan {
    struct gw_bal_plan_service *services, **end, *service; /* the one that is being read */
    struct gw_bal_plan_group *groups;
    struct gw_bal_plan_worker *worker;
    /* The check that is being read, or what some have in common; the block around an url; one for nothing */
    struct gw_bal_said *said, block, spare;
    unsigned begun;                  /* checks before that block */
    uint32_t script_uid, script_gid; /* who runs scripts that name no user */
    char script_user[GW_BAL_NAME];   /* the same for people; "": no user was named */
    struct gw_bal_plan_service spare_service;
    struct gw_bal_plan_worker spare_worker;
};

/* The checks of the worker that is being read, else of the service. */
struct gw_bal_saids *gw_bal_plan_checks(struct gw_bal_plan *plan);
/* Where a service of the model, or a worker of it, stands in the file. */
const struct gw_bal_place *gw_bal_plan_place(const struct gw_bal_plan *plan, const struct gw_bal_service *s,
                                             const struct gw_bal_worker *w);
/* All enters the model of p->config; mistakes are noted. */
void gw_bal_plan_carry_out(struct gw_bal_parse *p);
void gw_bal_plan_free_service(struct gw_bal_plan_service *s);
void gw_bal_plan_free(struct gw_bal_plan *plan);

#endif
