/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in other files. */
#ifndef GW_MODEL_IMPORT_EXTERNAL_H
#define GW_MODEL_IMPORT_EXTERNAL_H

#include <stdbool.h>

#include "src/model/import/source.h"

/* Where a tensor's bytes lie. */
struct gwm_place {
    const char *file;
    uint64_t offset, length;
    bool has_length; /* else they go to the file's end */
};

/* Reads the external tensors of the folder `dir` into the messages. */
int gwm_external(struct gwm_source *s, int dir, const struct gwm_msg *msg);
/* What a tensor says of its place. */
int gwm_external_place(const Onnx__TensorProto *t, const struct gwm_msg *msg, struct gwm_place *p);
/* Opens that file below the folder `dir`: a descriptor, or an error. */
int gwm_external_open(int dir, const Onnx__TensorProto *t, const struct gwm_place *p,
                      const struct gwm_msg *msg);

#endif
