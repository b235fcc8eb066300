/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls, the memory and the wasted work of each gRPC client, and of all. */
#include "src/server/grpc/account.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/detail/held.h>

#define MAX_CREDIT    20000 /* of a client: a burst of 2000 calls that it cancels */
#define CREDIT_SECOND 2000  /* that comes back */

void gw_grpc_accounts_open(struct gw_grpc_accounts *a, const struct gw_grpc_limits *limits)
{
    *a = (struct gw_grpc_accounts){.max_calls = limits->calls,
                                   .calls_each = limits->calls_each,
                                   .max_streams = limits->streams,
                                   .max_bytes = limits->bytes,
                                   .bytes_each = limits->bytes - limits->bytes / 4};
    a->tail = &a->head;
    pthread_mutex_init(&a->lock, NULL);
}

void gw_grpc_accounts_close(struct gw_grpc_accounts *a)
{
    for (struct gw_grpc_client *c = a->clients, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    pthread_mutex_destroy(&a->lock);
}

/* ---- clients ---- */

static uint64_t credit_earned(const struct gw_grpc_client *c, uint64_t now)
{
    uint64_t ns = now - c->credited, most = MAX_CREDIT / CREDIT_SECOND * UINT64_C(1000000000);
    return (ns < most ? ns : most) / 1000 * CREDIT_SECOND / 1000000;
}

/* Adds what time has brought; with the lock held. */
static void add_credit(struct gw_grpc_client *c)
{
    uint64_t now = gw_deadline(0), more = credit_earned(c, now);
    if (!more) return; /* it adds up until there is some */
    c->credit += (int64_t)more;
    if (c->credit > MAX_CREDIT) c->credit = MAX_CREDIT;
    c->credited = now;
}

/* Has it nothing, and its credit is as at first? With the lock held. */
static bool is_forgotten(struct gw_grpc_client *c)
{
    if (c->users) return false;
    add_credit(c);
    return c->credit == MAX_CREDIT;
}

/* Clients that have gone are kept until they have their credit again: a new connection must not bring it. */
static void forget_clients(struct gw_grpc_accounts *a)
{
    GW_ASSERT_HELD(&a->lock);
    for (struct gw_grpc_client **at = &a->clients, *c; (c = *at);) {
        if (is_forgotten(c)) {
            *at = c->next;
            free(c);
        } else {
            at = &c->next;
        }
    }
}

struct gw_grpc_client *gw_grpc_client_join(struct gw_grpc_accounts *a, const char *who)
{
    pthread_mutex_lock(&a->lock);
    forget_clients(a);
    struct gw_grpc_client *c = a->clients;
    while (c && strcmp(c->who, who)) c = c->next;
    if (!c && (c = calloc(1, sizeof(*c)))) {
        snprintf(c->who, sizeof(c->who), "%s", who);
        c->credit = MAX_CREDIT;
        c->credited = gw_deadline(0);
        c->next = a->clients;
        a->clients = c;
    }
    if (c) c->users++;
    pthread_mutex_unlock(&a->lock);
    return c;
}

void gw_grpc_client_leave(struct gw_grpc_accounts *a, struct gw_grpc_client *c)
{
    pthread_mutex_lock(&a->lock);
    GW_ASSERT(c->users > 0);
    c->users--;
    forget_clients(a);
    pthread_mutex_unlock(&a->lock);
}

int gw_grpc_client_pay(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int64_t cost)
{
    pthread_mutex_lock(&a->lock);
    add_credit(c);
    c->credit -= cost;
    if (c->credit > MAX_CREDIT) c->credit = MAX_CREDIT;
    int has_some = c->credit > 0;
    if (!has_some) c->credit = 0; /* it owes nothing, so that it is heard again soon */
    pthread_mutex_unlock(&a->lock);
    return has_some;
}

/* ---- calls ---- */

const char *gw_grpc_call_enter(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int is_stream)
{
    pthread_mutex_lock(&a->lock);
    const char *why = a->calls >= a->max_calls ? "the server has as many calls under way as it may: try again"
                      : c->calls >= a->calls_each
                          ? "this client has as many calls under way as one may: try again"
                      : is_stream && (a->streams >= a->max_streams || c->streams >= a->max_streams / 4)
                          ? "the limit of streams is reached: try again"
                          : NULL;
    if (!why) {
        a->calls++;
        c->calls++;
        a->streams += is_stream != 0;
        c->streams += is_stream != 0;
    }
    pthread_mutex_unlock(&a->lock);
    return why;
}

void gw_grpc_call_leave(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int is_stream)
{
    pthread_mutex_lock(&a->lock);
    GW_ASSERT(a->calls > 0 && c->calls > 0);
    GW_ASSERT(!is_stream || (a->streams > 0 && c->streams > 0));
    a->calls--;
    c->calls--;
    a->streams -= is_stream != 0;
    c->streams -= is_stream != 0;
    pthread_mutex_unlock(&a->lock);
}

/* ---- places ---- */

/* One message fits in any case when its client has no other. */
static bool fits_client(const struct gw_grpc_accounts *a, const struct gw_grpc_client *c, uint64_t bytes)
{
    return bytes <= a->bytes_each && c->bytes <= a->bytes_each - bytes;
}

static bool fits_all(const struct gw_grpc_accounts *a, uint64_t bytes)
{
    return bytes <= a->max_bytes && a->bytes <= a->max_bytes - bytes;
}

static void place_count(struct gw_grpc_accounts *a, struct gw_grpc_client *c, uint64_t bytes)
{
    GW_ASSERT_HELD(&a->lock);
    a->bytes += bytes;
    c->bytes += bytes;
}

/* The first that may have its place. One whose own client has too much is passed over. One for which there is
 * no room at all stops those after it: small messages would keep a large one waiting without end. */
static struct gw_grpc_waiter **first_that_may(struct gw_grpc_accounts *a)
{
    GW_ASSERT_HELD(&a->lock);
    struct gw_grpc_waiter **at = &a->head;
    while (*at && !fits_client(a, (*at)->client, (*at)->bytes)) at = &(*at)->next;
    return *at && fits_all(a, (*at)->bytes) ? at : NULL;
}

static void unlink_waiter(struct gw_grpc_accounts *a, struct gw_grpc_waiter **at)
{
    GW_ASSERT_HELD(&a->lock);
    *at = (*at)->next;
    if (!*at) a->tail = at;
}

/* Does a waiter exist that could have the free bytes? */
static bool is_anyone_before(const struct gw_grpc_accounts *a)
{
    GW_ASSERT_HELD(&a->lock);
    for (const struct gw_grpc_waiter *w = a->head; w; w = w->next)
        if (fits_client(a, w->client, w->bytes)) return true;
    return false;
}

int gw_grpc_place_take(struct gw_grpc_accounts *a, struct gw_grpc_waiter *w)
{
    pthread_mutex_lock(&a->lock);
    int may = fits_client(a, w->client, w->bytes) && fits_all(a, w->bytes) && !is_anyone_before(a);
    if (may) {
        place_count(a, w->client, w->bytes);
    } else {
        w->next = NULL;
        *a->tail = w;
        a->tail = &w->next;
    }
    pthread_mutex_unlock(&a->lock);
    return may;
}

int gw_grpc_place_withdraw(struct gw_grpc_accounts *a, struct gw_grpc_waiter *w)
{
    pthread_mutex_lock(&a->lock);
    struct gw_grpc_waiter **at = &a->head;
    while (*at && *at != w) at = &(*at)->next;
    int waited = *at != NULL;
    if (waited) unlink_waiter(a, at);
    pthread_mutex_unlock(&a->lock);
    return waited;
}

int gw_grpc_place_grow(struct gw_grpc_accounts *a, struct gw_grpc_client *c, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    int may = fits_client(a, c, bytes) && fits_all(a, bytes);
    if (may) place_count(a, c, bytes);
    pthread_mutex_unlock(&a->lock);
    return may;
}

void gw_grpc_place_give(struct gw_grpc_accounts *a, struct gw_grpc_client *c, uint64_t bytes)
{
    pthread_mutex_lock(&a->lock);
    GW_ASSERT(c->bytes >= bytes && a->bytes >= c->bytes);
    a->bytes -= bytes;
    c->bytes -= bytes;
    pthread_mutex_unlock(&a->lock);
}

struct gw_grpc_waiter *gw_grpc_place_next(struct gw_grpc_accounts *a)
{
    pthread_mutex_lock(&a->lock);
    struct gw_grpc_waiter **at = first_that_may(a), *w = at ? *at : NULL;
    if (w) {
        unlink_waiter(a, at);
        place_count(a, w->client, w->bytes);
    }
    pthread_mutex_unlock(&a->lock);
    return w;
}
