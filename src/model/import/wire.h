/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the file before it is unpacked. */
#ifndef GW_MODEL_IMPORT_WIRE_H
#define GW_MODEL_IMPORT_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* Is this a well-formed message of that type? -EBADMSG, or -ELOOP when nested too deeply. */
int gwm_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *p, size_t len);

#endif
