/* SPDX-License-Identifier: Apache-2.0 */
/* config_check.h: keywords of checks, and what follows for the checks of services and workers. */
#ifndef GW_BALANCE_CONTROL_CONFIG_CHECK_H
#define GW_BALANCE_CONTROL_CONFIG_CHECK_H

#include "src/balance/control/parse.h"
#include "src/balance/control/said.h"

/* The check of a service, when all has been read: without one of its own, what its kind has by default. */
void gw_bal_saids_of_service(const struct gw_bal_saids *service, struct gw_bal_check *out);
/* The check of a worker, or 0 when it is its service's. */
int gw_bal_saids_of_worker(const struct gw_bal_saids *service, const struct gw_bal_saids *worker,
                           struct gw_bal_check *out);

/* Keywords of a service and of a worker. */
int gw_bal_begin_tcp(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_http(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_ssl(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_udp(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_misc(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_begin_rdma(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_no_check(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_end_check(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_timeout(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_interval(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_again(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_retry(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_rise(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_fall(struct gw_bal_parse *p, const struct gw_bal_statement *s);
int gw_bal_set_check_host(struct gw_bal_parse *p, const struct gw_bal_statement *s);
extern const struct gw_bal_keyword gw_bal_keywords_tcp[], gw_bal_keywords_http[], gw_bal_keywords_rdma[],
    gw_bal_keywords_udp[], gw_bal_keywords_misc[];

/* Of scripts (config_script.c). */
int gw_bal_set_script_user(struct gw_bal_parse *p, const struct gw_bal_statement *s);
/* A script without a user of its own gets the file's, otherwise `keepalived_script` or `nobody`. */
void gw_bal_script_users(const struct gw_bal_plan *plan, struct gw_bal_check *c);

#define GW_BAL_CHECK_PACE                                                                                    \
    {"connect_timeout", 1, 1, gw_bal_set_check_timeout, NULL, NULL},                                         \
        {"delay_loop", 1, 1, gw_bal_set_check_interval, NULL, NULL},                                         \
        {"delay_before_retry", 1, 1, gw_bal_set_check_again, NULL, NULL},                                    \
        {"retry", 1, 1, gw_bal_set_check_retry, NULL, NULL},                                                 \
    {                                                                                                        \
        "nb_get_retry", 1, 1, gw_bal_set_check_retry, NULL, NULL                                             \
    }

#define GW_BAL_CHECKS                                                                                        \
    {"TCP_CHECK", 0, 0, gw_bal_begin_tcp, gw_bal_keywords_tcp, gw_bal_end_check},                            \
        {"HTTP_GET", 0, 0, gw_bal_begin_http, gw_bal_keywords_http, gw_bal_end_check},                       \
        {"SSL_GET", 0, 0, gw_bal_begin_ssl, gw_bal_keywords_http, gw_bal_end_check},                         \
        {"UDP_CHECK", 0, 0, gw_bal_begin_udp, gw_bal_keywords_udp, gw_bal_end_check},                        \
        {"MISC_CHECK", 0, 0, gw_bal_begin_misc, gw_bal_keywords_misc, gw_bal_end_check},                     \
        {"RDMA_CHECK", 0, 0, gw_bal_begin_rdma, gw_bal_keywords_rdma, gw_bal_end_check},                     \
        {"NO_CHECK", 0, 0, gw_bal_no_check, NULL, NULL},                                                     \
    {                                                                                                        \
        "virtualhost", 1, 1, gw_bal_set_check_host, NULL, NULL                                               \
    }

#endif
