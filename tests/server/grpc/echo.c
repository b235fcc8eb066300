/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_echo HOST:PORT COUNT: COUNT inferences of the model `echo` over gRPC, one after the other. Every
 * answer must be right and come within five seconds: exit code 1 otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference.pb-c.h"
#include "tests/server/grpc/client.h"

enum { N = 64 };

static size_t pack(const float *x, uint8_t *bytes)
{
    Inference__ModelInferRequest m = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor
        t = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT,
        *ts = &t;
    int64_t shape[] = {1, N};
    ProtobufCBinaryData raw = {N * sizeof(*x), (uint8_t *)x};
    t.name = (char *)"x";
    t.datatype = (char *)"FP32";
    t.shape = shape;
    t.n_shape = 2;
    m.model_name = (char *)"echo";
    m.inputs = &ts;
    m.n_inputs = 1;
    m.raw_input_contents = &raw;
    m.n_raw_input_contents = 1;
    return inference__model_infer_request__pack(&m, bytes);
}

static int is_echo(const struct answer *a, const float *x)
{
    Inference__ModelInferResponse *m =
        a->status ? NULL : inference__model_infer_response__unpack(NULL, a->size, a->bytes);
    int same = m && m->n_raw_output_contents == 1 && m->raw_output_contents[0].len == N * sizeof(*x) &&
               !memcmp(m->raw_output_contents[0].data, x, N * sizeof(*x));
    if (m) inference__model_infer_response__free_unpacked(m, NULL);
    return same;
}

int main(int argc, char **argv)
{
    struct client c;
    float x[N];
    uint8_t bytes[1024];
    if (argc != 3) return 2;
    client_open(&c, argv[1]);
    int wrong = 0;
    for (int i = 0; i < atoi(argv[2]) && !wrong; i++) {
        for (int k = 0; k < N; k++) x[k] = (float)(i * N + k);
        struct ask q = {.method = "/inference.GRPCInferenceService/ModelInfer",
                        .bytes = bytes,
                        .size = pack(x, bytes),
                        .timeout_ms = 5000};
        struct answer a = client_ask(&c, &q);
        wrong = !is_echo(&a, x);
        if (wrong) fprintf(stderr, "request %d: status %d, %s\n", i, a.status, a.why);
        answer_free(&a);
    }
    client_close(&c);
    return wrong;
}
