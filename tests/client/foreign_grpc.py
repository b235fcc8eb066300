#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""foreign_grpc.py: a gRPC server of the Open Inference Protocol that is not ours: Google's, with Triton's messages. It prints its
port, and ends with its standard input. Its models take "x" FP32 [1, 600000] and give "y" of the same:
  mirror  what was sent   parts  the same, in numbers that are no raw bytes   packed  the same, compressed
  words   fails with a text that has to be encoded   busy  RESOURCE_EXHAUSTED   slow  answers after 3 s"""
import sys
import time
from concurrent import futures

import grpc
from tritonclient.grpc import service_pb2 as pb

SHAPE = [1, 600000]


def metadata(request, context):
    tensor = {"datatype": "FP32", "shape": SHAPE}
    return pb.ModelMetadataResponse(name=request.name, versions=["1"], inputs=[dict(tensor, name="x")],
                                    outputs=[dict(tensor, name="y")])


def config(request, context):
    return pb.ModelConfigResponse()


def infer(request, context):
    answer = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
    answer.outputs.add(name="y", datatype="FP32", shape=SHAPE)
    if request.model_name == "words":
        context.abort(grpc.StatusCode.INTERNAL, "100 % f\u00fcr nichts\nund wieder nichts")
    if request.model_name == "busy":
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much to do")
    if request.model_name == "slow":
        time.sleep(3)
    if request.model_name == "packed":
        context.set_compression(grpc.Compression.Gzip)
    if request.model_name == "parts":
        import array
        values = array.array("f")
        values.frombytes(request.raw_input_contents[0])
        answer.outputs[0].contents.fp32_contents.extend(values)
    else:
        answer.raw_output_contents.append(request.raw_input_contents[0])
    return answer


def main():
    methods = {"ModelMetadata": (metadata, pb.ModelMetadataRequest), "ModelConfig": (config, pb.ModelConfigRequest),
               "ModelInfer": (infer, pb.ModelInferRequest)}
    handlers = {name: grpc.unary_unary_rpc_method_handler(run, request_deserializer=message.FromString,
                                                          response_serializer=lambda m: m.SerializeToString())
                for name, (run, message) in methods.items()}
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1),
                                                                 ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0)


main()
