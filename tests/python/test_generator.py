# SPDX-License-Identifier: Apache-2.0
"""A language model in the server inside a program: OpenAI's API beside the Open Inference Protocol, on one port."""
import json
import pathlib
import shutil
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import gpuwire
from serving import PATIENCE, SOURCE

STORYTELLER = SOURCE / "models/storyteller"
ECHO = SOURCE / "tests/server/models/echo/1/model.onnx"


def call(server, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}",
                                     None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.read().decode()


def complete(server, model="storyteller", **more):
    return json.loads(call(server, "/v1/completions", {"model": model, "prompt": "Once", "max_tokens": 12,
                                                       "temperature": 0, **more}))


class Generator(unittest.TestCase):
    def setUp(self):
        self.server = gpuwire.Server(port=0, exec="cpu", drain=5)
        self.addCleanup(self.server.close)

    def test_beside_other_models(self):
        self.server.add_file(ECHO, name="echo")
        self.assertEqual(self.server.add_generator(STORYTELLER), "storyteller")
        answer = complete(self.server)
        self.assertEqual(answer["usage"]["completion_tokens"], 12)
        self.assertEqual(complete(self.server)["choices"][0]["text"], answer["choices"][0]["text"])
        with gpuwire.Client(self.server.url, "echo") as client:
            client.infer([bytes(256)], timeout=PATIENCE)
        self.assertEqual([m["id"] for m in json.loads(call(self.server, "/v1/models"))["data"]], ["storyteller"])
        metrics = call(self.server, "/metrics")
        self.assertIn('vllm:generation_tokens_total{', metrics)
        self.assertIn("nv_inference_request_success", metrics)

    def test_stream(self):
        self.server.add_generator(STORYTELLER, name="teller", lanes=2, context=256)
        lines = call(self.server, "/v1/chat/completions", {
            "model": "teller", "stream": True, "max_tokens": 8,
            "messages": [{"role": "user", "content": "A story, please."}]}).split("\n\n")
        self.assertEqual(lines[-2], "data: [DONE]")
        self.assertIn('"role"', lines[0])

    def test_refused(self):
        with self.assertRaises(urllib.error.HTTPError) as none:
            complete(self.server)
        self.assertEqual(none.exception.code, 404)
        self.server.add_generator(STORYTELLER)
        with self.assertRaisesRegex(gpuwire.Error, "already"):
            self.server.add_generator(STORYTELLER)
        with self.assertRaises(gpuwire.NotFound):
            self.server.add_generator(SOURCE / "models/identity")
        for wrong in (dict(cache="int3"), dict(lanes=-1), dict(tokenizer=object())):
            with self.assertRaises(gpuwire.Invalid):
                self.server.add_generator(STORYTELLER, name="other", **wrong)
        with self.assertRaisesRegex(gpuwire.Invalid, "give a folder, or a model and a tokenizer"):
            self.server.add_generator(object())

    def test_a_model_of_transformers(self):
        """Whatever has save_pretrained: its files may go once it is served."""
        class Saved:
            def __init__(self, *names):
                self.names = names

            def save_pretrained(self, folder):
                for name in self.names:
                    shutil.copy(STORYTELLER / name, folder)

        model = Saved("config.json", "generation_config.json", "model.safetensors")
        self.server.add_generator(STORYTELLER)
        self.server.add_generator(model, Saved("tokenizer.json", "tokenizer_config.json"), name="saved")
        self.assertEqual(list(pathlib.Path(tempfile.gettempdir()).glob("gpuwire-generator-*")), [])
        self.assertEqual(complete(self.server, "saved")["choices"][0]["text"],
                         complete(self.server)["choices"][0]["text"])

    def test_close_in_the_middle(self):
        """What is under way may end; the server closes while streams run."""
        self.server.add_generator(STORYTELLER, lanes=4)
        ends = []

        def one():
            try:
                ends.append(complete(self.server, max_tokens=400, ignore_eos=True)["usage"]["completion_tokens"])
            except (urllib.error.URLError, OSError) as error:
                ends.append(error)

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        self.server.close()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(len(ends), 8)


if __name__ == "__main__":
    unittest.main()
