#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's clients against a router: triton_router.py HTTP GRPC"""
import base64
import sys
import threading

import numpy
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

X = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)


def refused(what, words, call, *args, **keywords):
    try:
        call(*args, **keywords)
    except InferenceServerException as e:
        if all(w not in str(e) for w in words):
            sys.exit(f"{what}: {e}")
        return
    sys.exit(f"{what}: not refused")


def use(kind, client):
    given = kind.InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X)
    wanted = kind.InferRequestedOutput("y")
    if not (client.is_server_live() and client.is_server_ready() and client.is_model_ready("echo")):
        sys.exit("the router is not ready")
    if client.is_model_ready("none"):
        sys.exit("a model that is not there is ready")
    client.get_server_metadata()
    client.get_model_metadata("echo")
    client.get_model_config("m-12")
    for model in ("echo", "m-0", "m-299"):
        answer = client.infer(model, [given], outputs=[wanted], request_id="5", priority=1).as_numpy("y")
        if not numpy.array_equal(answer, X):
            sys.exit(f"{model}: the answer is {answer}")
    client.get_inference_statistics("echo")
    client.get_inference_statistics()
    client.get_model_repository_index()
    refused("full", ("every worker is full",), client.infer, "full", [given])
    refused("dead", ("worker w-1 died",), client.infer, "dead", [given])
    refused("never", ("timeout expired", "no answer"), client.infer, "never", [given], timeout=50000)
    refused("none", ("not found",), client.infer, "none", [given])
    refused("load", ("loads no models",), client.load_model, "echo")
    refused("shared memory", ("GPU",), client.register_cuda_shared_memory, "r", base64.b64encode(b"x" * 64), 0, 64)


def code(client, model, given, **keywords):
    try:
        client.infer(model, [given], **keywords)
    except InferenceServerException as e:
        return e.status()
    return None


def main():
    http = tritonclient.http.InferenceServerClient(sys.argv[1])
    grpc = tritonclient.grpc.InferenceServerClient(sys.argv[2])
    use(tritonclient.http, http)
    use(tritonclient.grpc, grpc)
    given = tritonclient.grpc.InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X)
    for model, keywords, status in (
        ("full", {}, "StatusCode.UNAVAILABLE"),
        ("dead", {}, "StatusCode.UNAVAILABLE"),
        ("never", {"timeout": 50000}, "StatusCode.DEADLINE_EXCEEDED"),
        ("broken", {}, "StatusCode.INTERNAL"),
        ("none", {}, "StatusCode.NOT_FOUND"),
    ):
        got = code(grpc, model, given, **keywords)
        if got != status:
            sys.exit(f"{model}: gRPC's status is {got}, not {status}")
    # A stream whose answers come in the order of the requests.
    answers, over = [], threading.Event()

    def take(result, error):
        answers.append(error or result.as_numpy("y"))
        if len(answers) == 8:
            over.set()

    grpc.start_stream(take)
    for i in range(8):
        one = tritonclient.grpc.InferInput("x", [2, 4], "FP32")
        one.set_data_from_numpy(X + numpy.float32(i))
        grpc.async_stream_infer(f"m-{i}", [one])
    if not over.wait(20):
        sys.exit(f"only {len(answers)} answers came on the stream")
    grpc.stop_stream()
    if not all(numpy.array_equal(a, X + numpy.float32(i)) for i, a in enumerate(answers)):
        sys.exit("the stream's answers are others")


main()
