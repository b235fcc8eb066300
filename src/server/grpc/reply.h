/* SPDX-License-Identifier: Apache-2.0 */
/* Messages out of turns, and answers to them. */
#ifndef GW_SERVER_GRPC_REPLY_H
#define GW_SERVER_GRPC_REPLY_H

#include <protobuf-c/protobuf-c.h>

#include "src/server/grpc/wire/arena.h"
#include "src/server/grpc/call.h"
#include "src/server/requests/error.h"
#include "src/server/requests/infer.h"

/* Answers with a message. */
void gw_grpc_reply(struct gw_grpc_turn *turn, const ProtobufCMessage *message);
/* Ends the call with the error's status. */
void gw_grpc_fail(struct gw_grpc_turn *turn, const struct gw_infer_error *error);
/* The turn's message, which lives in the arena; the arena is closed by the caller either way. NULL: it was
 * not of that type, and the turn has ended. */
const ProtobufCMessage *gw_grpc_request(struct gw_grpc_turn *turn, const ProtobufCMessageDescriptor *type,
                                        struct gw_grpc_arena *arena);

/* A ModelInferResponse of a run that has succeeded. NULL: no memory. */
struct gw_grpc_message *gw_grpc_infer_response(const struct gw_infer_run *run,
                                               const struct gw_infer_request *asked, const char *id,
                                               int streams);
/* A ModelStreamInferResponse with an error. NULL: no memory. */
struct gw_grpc_message *gw_grpc_stream_error(const char *id, const char *why);

#endif
