/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind graphs. */
#ifndef GW_MODEL_IMPORT_SOURCE_H
#define GW_MODEL_IMPORT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "src/model/graph/msg.h"

#include "onnx.pb-c.h"

/* The file, unpacked. Graphs made of it keep pointers into it. */
struct gwm_source {
    Onnx__ModelProto *model;
    ProtobufCAllocator allocator;
    /* left: bytes that unpacking may still take; len: of the file and of its external data */
    size_t left, len;
    int64_t opset;
    char *file;
};

int gwm_source_open(const void *bytes, size_t len, const struct gwm_msg *msg, struct gwm_source **source);
void gwm_source_free(struct gwm_source *s);
/* Frees large tensors, unless one of n addresses, which ascend, lies in it. No graph can be made any more. */
void gwm_source_keep(struct gwm_source *s, const void *const *at, size_t n);

#endif
