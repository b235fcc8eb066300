/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_vanish HOST:PORT COUNT cancel|close: COUNT inferences of the model `slow` at once on one connection.
 * After half a second they are cancelled, or the connection is closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inference.pb-c.h"
#include "tests/server/grpc/client.h"

enum { MOST = 32, FLOATS = 32 * 128 * 128 };

static size_t pack(uint8_t **bytes)
{
    static float x[FLOATS];
    Inference__ModelInferRequest m = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor
        t = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT,
        *ts = &t;
    int64_t shape[] = {1, 32, 128, 128};
    ProtobufCBinaryData raw = {sizeof(x), (uint8_t *)x};
    t.name = (char *)"x";
    t.datatype = (char *)"FP32";
    t.shape = shape;
    t.n_shape = 4;
    m.model_name = (char *)"slow";
    m.inputs = &ts;
    m.n_inputs = 1;
    m.raw_input_contents = &raw;
    m.n_raw_input_contents = 1;
    *bytes = malloc(inference__model_infer_request__get_packed_size(&m));
    return *bytes ? inference__model_infer_request__pack(&m, *bytes) : 0;
}

int main(int argc, char **argv)
{
    static struct stream calls[MOST];
    struct client c;
    uint8_t *bytes;
    const struct timespec tick = {.tv_nsec = 5000000};
    if (argc != 4 || atoi(argv[2]) > MOST) return 2;
    int n = atoi(argv[2]);
    size_t size = pack(&bytes);
    if (!size) return 2;
    client_open(&c, argv[1]);
    for (int i = 0; i < n; i++) {
        stream_open(&c, "/inference.GRPCInferenceService/ModelInfer", &calls[i]);
        stream_send(&calls[i], bytes, size);
    }
    for (int i = 0; i < 100; i++) {
        client_work(&c);
        nanosleep(&tick, NULL);
    }
    for (int i = 0; i < n && !strcmp(argv[3], "cancel"); i++) stream_cancel(&calls[i]);
    client_close(&c);
    free(bytes);
    return 0; /* what the streams have is the system's */
}
