/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile client of a worker that serves the model echo: a session, and a queue pair of its own to
 * misuse. */
#ifndef TESTS_SERVE_FOE_H
#define TESTS_SERVE_FOE_H

#include <stdint.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/client/http_client.h"
#include "src/server/wire/wire.h"
#include "tests/server/process.h"

#define WAIT_NS  60000000000u
#define FLOATS   64 /* of the model echo */
#define IN_BYTES (sizeof(struct gw_serve_request) + FLOATS * sizeof(float))
#define SLOTS    4

struct foe {
    struct gw_http *http;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    uint8_t *memory; /* requests first, answers in the second half */
    uint64_t request_addr, stride;
    uint32_t rkey;
    char id[40]; /* the session's */
};

enum { HALF = 64 << 10, REPLY_STRIDE = 1024 };

/* Makes the queue pair and opens a session for it. The functions fail the test when something goes wrong. */
void foe_open(struct foe *f, const char *server, uint32_t receives);
void foe_close(struct foe *f);
/* What it asks for when it opens a session. */
json_t *foe_wish(struct foe *f);
/* A proper request in the foe's memory, for the test to spoil. */
struct gw_serve_request *foe_request(struct foe *f, uint32_t slot);
const struct gw_serve_reply *foe_reply(const struct foe *f, uint32_t slot);
/* Writes the request in slot `slot` to `to`, as a request with this immediate. */
int foe_put(struct foe *f, uint32_t slot, uint64_t to, uint32_t rkey, uint32_t bytes, uint32_t imm);
/* The next completion of one kind: 1 an answer came, 0 a send completed. */
enum ibv_wc_status foe_completion(struct foe *f, int receive);

#endif
