/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h: what a fleet keeps in etcd, for controllers, workers and clients.
 *
 *     gpuwire/FLEET/leader               who leads; its create revision is the term (the fencing token)
 *     gpuwire/FLEET/workers/NAME         a live worker; the entry ends with the worker's etcd lease
 *     gpuwire/FLEET/models/NAME          a model that the fleet serves
 *     gpuwire/FLEET/places/WORKER/MODEL  where the leader wants the model
 *     gpuwire/FLEET/drain/WORKER         the worker shall get nothing new
 *
 * Values are JSON objects. Fields that a reader does not know are skipped, so versions may be mixed. A value
 * that is no such object is skipped with a line in handler.trouble. Names in keys are percent-encoded.
 *
 * Who may call: the loop's thread alone, also from inside a handler, but for fleet_registry_close(). Nothing
 * blocks; answers come as calls of the handler. Functions return 0 or a negative errno, and say why in
 * gw_last_error().
 *
 * While etcd is away everything waits. When it is back, everything resumes: watches go on where they stopped
 * or read all again, a worker's entry is put again if its lease has ended, a candidate campaigns again.
 */
#ifndef GW_FLEET_REGISTRY_H
#define GW_FLEET_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "src/fleet/wire/conn.h"

struct fleet_registry;

/* ---- what the entries say */

struct fleet_registry_leader {
    uint64_t term; /* 0 in what is put: etcd gives it */
    uint8_t id[FLEET_ID];
    char name[FLEET_NAME];
    char address[FLEET_ADDRESS]; /* where workers and clients reach it */
};

struct fleet_registry_worker {
    uint8_t id[FLEET_ID]; /* this life of it */
    char name[FLEET_NAME];
    char address[FLEET_ADDRESS]; /* where clients reach it */
    uint32_t gpu_pages, host_pages, slots;
    bool emulated;
};

struct fleet_registry_model {
    char name[FLEET_MODEL];
    uint32_t version, pages, min_replicas, max_batch;
    uint64_t request_bytes, answer_bytes;
    uint8_t digest[32];
};

struct fleet_registry_place {
    char worker[FLEET_NAME];
    char model[FLEET_MODEL];
    uint32_t where; /* enum fleet_where (plan.h) */
};

struct fleet_registry_drain {
    char worker[FLEET_NAME];
    char why[FLEET_WHY];
};

/* ---- opening */

/* Any function may be NULL. A registry whose worker, model, place and drain are all NULL watches the leader
 * alone. */
struct fleet_registry_handler {
    /* etcd answers (up), or not any more. `line` is for the log: what is wrong, and what to do. It comes once
     * for each change. */
    void (*state)(void *ctx, bool up, const char *line);
    /* An entry that makes no sense, a refused registration: one line for the log. */
    void (*trouble)(void *ctx, const char *line);

    /* Entries: each that is there, then each change. `gone`: only the names in it still mean something. The
     * struct is the registry's again afterwards. */
    void (*worker)(void *ctx, const struct fleet_registry_worker *w, bool gone);
    void (*model)(void *ctx, const struct fleet_registry_model *m, bool gone);
    void (*place)(void *ctx, const struct fleet_registry_place *p, bool gone);
    void (*drain)(void *ctx, const struct fleet_registry_drain *d, bool gone);
    /* All entries that were there have been told. It comes again when all had to be read again. */
    void (*synced)(void *ctx);

    /* Who leads now; NULL: no one does. Also our own leadership. */
    void (*leader)(void *ctx, const struct fleet_registry_leader *l);

    /* After fleet_registry_campaign: we lead, with this term. */
    void (*leads)(void *ctx, uint64_t term);
    /* We lead no more, as far as this process can be sure of it. The campaign goes on. */
    void (*lost)(void *ctx, uint64_t term, const char *why);

    /* After fleet_registry_register: our entry is there, or not any more. */
    void (*registered)(void *ctx, bool is);
};

struct fleet_registry_opts {
    const char *etcd;      /* "http://HOST:PORT,http://HOST:PORT" or https:// ; NULL: http://127.0.0.1:2379 */
    const char *fleet;     /* its name; NULL: "default" */
    const char *user;      /* NULL: etcd asks for none */
    const char *password;  /* the user's */
    const char *ca_file;   /* of https; NULL: the system's certificates */
    uint32_t leader_ttl_s; /* of the leader's etcd lease; 0: 2 */
    uint32_t worker_ttl_s; /* of a worker's; 0: 5 */
};

/* Opens a registry; it connects in the background. -EINVAL: an URL or a name that makes no sense. -ENOTSUP:
 * this build has no gRPC. */
int fleet_registry_open(struct fleet_loop *loop, const struct fleet_registry_opts *opts,
                        const struct fleet_registry_handler *handler, void *ctx, struct fleet_registry **out);
/* Gives up leadership and the worker's entry, and waits for etcd's answer for 0.3 s at most. It calls no
 * handler. NULL is allowed. */
void fleet_registry_close(struct fleet_registry *r);
/* Does etcd answer? */
bool fleet_registry_is_up(const struct fleet_registry *r);

/* ---- controllers */

/* Runs for leadership, until fleet_registry_resign. `me` is copied. -EALREADY: it does. */
int fleet_registry_campaign(struct fleet_registry *r, const struct fleet_registry_leader *me);
/* Gives leadership up, if it has it, and runs no more. `lost` is not called. */
void fleet_registry_resign(struct fleet_registry *r);
/* Our term, while our clock says that etcd cannot have ended our lease; otherwise 0. */
uint64_t fleet_registry_term(const struct fleet_registry *r);

/* How a write ended: 0; -ESTALE: another leads, nothing was written; -ETIMEDOUT or another errno: it may
 * have been written or not, with the reason in gw_last_error(). NULL as function: no one asks. */
typedef void fleet_registry_done(void *ctx, int err);

/* Writes of a leader: etcd does them only while our term is the leader's. They are done in their order.
 * -EPERM: we do not lead. */
int fleet_registry_put_model(struct fleet_registry *r, const struct fleet_registry_model *m,
                             fleet_registry_done *done, void *ctx);
int fleet_registry_drop_model(struct fleet_registry *r, const char *model, fleet_registry_done *done,
                              void *ctx);
int fleet_registry_put_place(struct fleet_registry *r, const struct fleet_registry_place *p,
                             fleet_registry_done *done, void *ctx);
int fleet_registry_drop_place(struct fleet_registry *r, const char *worker, const char *model,
                              fleet_registry_done *done, void *ctx);
int fleet_registry_put_drain(struct fleet_registry *r, const struct fleet_registry_drain *d,
                             fleet_registry_done *done, void *ctx);
int fleet_registry_drop_drain(struct fleet_registry *r, const char *worker, fleet_registry_done *done,
                              void *ctx);

/* ---- workers */

/* Puts our entry, and keeps it there, until fleet_registry_unregister. While another life holds the name it
 * waits, and says so in `trouble`. `w` is copied; a second call changes the entry. */
int fleet_registry_register(struct fleet_registry *r, const struct fleet_registry_worker *w);
void fleet_registry_unregister(struct fleet_registry *r);

#endif
