/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's description of a model, with any bytes. What is taken has tensors that requests can have. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/fleet/router/metadata.h"
#include "tests/fuzz/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const char *json, size_t size)
{
    struct fleet_metadata m;
    if (fleet_metadata_read(json, size, &m)) {
        require(!m.model);
        return;
    }
    uint32_t rows = m.max_batch ? m.max_batch : 1;
    require(m.in.tensors == gw_model_inputs(m.model) && m.out.tensors == gw_model_outputs(m.model));
    require(m.in.tensors && m.out.tensors && *gw_model_kind(m.model) && m.version);
    require(gw_layout_bytes(&m.in, rows) <= GW_LAYOUT_MAX_BYTES);
    for (uint32_t i = 0; i < m.in.tensors; i++)
        require(strlen(gw_model_input(m.model, i)->name) &&
                m.in.tensor[i].bytes == gw_model_input(m.model, i)->bytes);
    fleet_metadata_free(&m);
}

/* To be damaged in a few places: few inputs are JSON by themselves. */
static const char sound[] = "{\"name\":\"m\",\"versions\":[\"1\"],\"platform\":\"onnx\",\"inputs\":[{"
                            "\"name\":\"x\",\"datatype\":\"FP32\","
                            "\"shape\":[-1,3,224]},{\"name\":\"n\",\"datatype\":\"INT8\",\"shape\":[2]}],"
                            "\"outputs\":[{\"name\":\"y\","
                            "\"datatype\":\"FP16\",\"shape\":[-1,9]}],\"max_batch_size\":16}";

static void read_damaged(struct stream *in)
{
    char text[sizeof(sound)];
    memcpy(text, sound, sizeof(sound));
    for (uint32_t left = take8(in) & 7; left; left--) {
        size_t at = (take8(in) | (size_t)take8(in) << 8) % (sizeof(sound) - 1);
        text[at] = (char)take8(in);
    }
    look(text, sizeof(sound) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream in = {data, size};
    look((const char *)data, size);
    read_damaged(&in);
    return 0;
}
