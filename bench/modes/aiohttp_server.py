# SPDX-License-Identifier: Apache-2.0
"""What a user would write: a PyTorch model behind aiohttp, with the Open Inference Protocol's binary tensors. It is written with
care: the model is a CUDA graph, and tensors go through pinned memory. aiohttp runs on one thread, and the GPU's work on another."""
import asyncio
import concurrent.futures
import json
import threading
from typing import Any, List

TYPES = {"float32": "FP32", "float16": "FP16", "int64": "INT64"}


class Graph:
    """A module, captured, and the pinned memory on both sides of it."""

    def __init__(self, module: Any, example: Any):
        import torch
        from gpuwire.capture import capture
        self.captured = capture(module, example, (1,), "aiohttp")
        self.graph, (self.input,), (self.output,) = self.captured.variants[0].keep
        self.graph.instantiate()
        self.host_in, self.host_out = (torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in (self.input, self.output))
        self.bytes_in, self.bytes_out = (t.numpy().reshape(-1).view("uint8") for t in (self.host_in, self.host_out))
        self.stream = torch.cuda.Stream()

    def run(self, body: Any) -> bytes:
        import numpy
        import torch
        self.bytes_in[:] = numpy.frombuffer(body, dtype="uint8")
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            self.input.copy_(self.host_in, non_blocking=True)
            self.graph.replay()
            self.host_out.copy_(self.output, non_blocking=True)
        self.stream.synchronize()
        return self.bytes_out.tobytes()


def describe(name: str, tensor: Any) -> Any:
    return {"name": name, "datatype": TYPES[str(tensor.dtype).split(".")[-1]], "shape": list(tensor.shape)}


class Server:
    def __init__(self, name: str, graph: Graph):
        self.name, self.graph = name, graph
        self.names = [graph.captured.inputs[0].name, graph.captured.outputs[0].name]
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.main, args=(ready,))
        self.thread.start()
        ready.wait()
        self.url = f"http://127.0.0.1:{self.port}"

    def main(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        ready.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.runner.cleanup())

    async def listen(self) -> None:
        from aiohttp import web
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/v2/health/live", self.live)
        app.router.add_get(f"/v2/models/{self.name}", self.metadata)
        app.router.add_post(f"/v2/models/{self.name}/infer", self.infer)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.port = self.runner.addresses[0][1]

    async def live(self, request: Any) -> Any:
        from aiohttp import web
        return web.Response()

    async def metadata(self, request: Any) -> Any:
        from aiohttp import web
        return web.json_response({"name": self.name, "versions": ["1"], "platform": "pytorch",
                                  "inputs": [describe(self.names[0], self.graph.input)],
                                  "outputs": [describe(self.names[1], self.graph.output)]})

    async def infer(self, request: Any) -> Any:
        from aiohttp import web
        body = memoryview(await request.read())
        head = int(request.headers["Inference-Header-Content-Length"])
        out = await self.loop.run_in_executor(self.worker, self.graph.run, body[head:])
        output = {**describe(self.names[1], self.graph.output), "parameters": {"binary_data_size": len(out)}}
        text = json.dumps({"model_name": self.name, "id": json.loads(bytes(body[:head])).get("id", ""), "outputs": [output]}).encode()
        return web.Response(body=text + out, headers={"Inference-Header-Content-Length": str(len(text)),
                                                      "Content-Type": "application/octet-stream"})

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.worker.shutdown()
