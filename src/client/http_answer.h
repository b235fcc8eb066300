/* SPDX-License-Identifier: Apache-2.0 */
/* An answer over HTTP, as it comes and as it is read: JSON, then tensors. */
#ifndef GW_CLIENT_HTTP_ANSWER_H
#define GW_CLIENT_HTTP_ANSWER_H

#include "src/client/impl.h"

struct gw_answer {
    uint8_t *buffer; /* kept from answer to answer */
    size_t room, bytes;
    size_t shift;   /* where the body begins: so that what follows its JSON does so at a multiple of 64 */
    size_t limit;   /* of a body: a server that sends more gives no answer of this model */
    uint64_t json;  /* bytes; UINT64_MAX: all of the body */
    uint8_t *apart; /* tensors that came as text, or where they are not aligned */
    size_t apart_room;
    char why[300];
};

/* Before a request. */
void gw_answer_begin(struct gw_answer *a);
void gw_answer_free(struct gw_answer *a);
/* One line of the answer's head. */
void gw_answer_header(struct gw_answer *a, const char *line, size_t bytes);
/* A part of its body; `expected` is what the whole body takes, 0: not known. 0 or -1: it is too long, or no
 * memory. */
int gw_answer_take(struct gw_answer *a, const void *data, size_t bytes, uint64_t expected);

/* Reads the answer that came with that status, and fills error, why, outputs and out of *reply. */
void gw_answer_read(struct gw_client *c, struct gw_answer *a, long status, uint32_t rows,
                    struct gw_client_reply *reply);

#endif
