# SPDX-License-Identifier: Apache-2.0
"""The server inside a program: ONNX files on CPU threads. What needs a GPU is in gpu_serving.py."""
import array
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import gpuwire
from serving import PATIENCE, SOURCE, needs_torch, torch

MODELS = SOURCE / "tests/server/models"
ECHO, SUM = MODELS / "echo/1/model.onnx", MODELS / "sum/1/model.onnx"
ROW = array.array("f", range(64)).tobytes()


def asked(server, model, *inputs, door="rdma"):
    with gpuwire.Client(server.url.replace("rdma", door), model) as client:
        return bytes(memoryview(client.infer(list(inputs), timeout=PATIENCE)).cast("B"))


class Files(unittest.TestCase):
    def setUp(self):
        self.server = gpuwire.Server(port=0, exec="cpu")
        self.addCleanup(self.server.close)

    def test_two_models(self):
        self.assertFalse(self.server.on_gpu)
        self.assertGreater(self.server.port, 0)
        self.assertEqual(self.server.add_file(ECHO, name="echo"), "echo")
        self.server.add_file(str(SUM), name="sum")
        for door in ("rdma", "http"):
            self.assertEqual(asked(self.server, "echo", ROW, door=door), ROW)
            self.assertEqual(asked(self.server, "sum", ROW, bytes(256), door=door), ROW)
        stats = self.server.stats("echo")
        self.assertEqual((stats["successes"], stats["failures"]), (2, 0))
        self.assertGreater(stats["compute_infer_s"], 0)

    def test_the_file_names_the_model(self):
        self.assertEqual(self.server.add_file(ECHO), "model")

    def test_refusals(self):
        self.server.add_file(ECHO, name="echo")
        with self.assertRaisesRegex(gpuwire.Error, "echo"):
            self.server.add_file(ECHO, name="echo")
        with self.assertRaises(gpuwire.NotFound):
            self.server.add_file(MODELS / "nothing.onnx")
        with self.assertRaises(gpuwire.NotFound):
            self.server.stop("nothing")
        with self.assertRaises(gpuwire.NotFound):
            self.server.stats("nothing")
        with self.assertRaisesRegex(gpuwire.Unsupported, "odd.*NoSuchOperator"):
            self.server.add_file(SOURCE / "tests/server/bad_models/operator/1/model.onnx")
        with self.assertRaisesRegex(gpuwire.Invalid, "batch sizes"):
            self.server.add_file(ECHO, name="more", batch_sizes=(0, 1))
        self.assertEqual(asked(self.server, "echo", ROW), ROW)

    def test_stop_and_reload_while_another_serves(self):
        """Its client sees nothing of it: no wrong answer, no lost one."""
        self.server.add_file(ECHO, name="stays")
        ended, failed = threading.Event(), []

        def ask():
            try:
                with gpuwire.Client(self.server.url, "stays") as client:
                    while not ended.is_set():
                        if bytes(memoryview(client.infer(ROW, timeout=PATIENCE)).cast("B")) != ROW:
                            failed.append("a wrong answer")
            except gpuwire.Error as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for _ in range(5):
                self.server.add_file(ECHO, name="goes")
                self.assertEqual(asked(self.server, "goes", ROW), ROW)
                self.server.add_file(SUM, name="goes", replace=True)
                self.assertEqual(asked(self.server, "goes", ROW, bytes(256)), ROW)
                self.server.stop("goes")
                with self.assertRaises(gpuwire.NotFound):
                    asked(self.server, "goes", ROW)
        finally:
            ended.set()
            thread.join()
        self.assertEqual(failed, [])

    def test_paused(self):
        """Nothing comes or goes in a pause; on CPU threads models run on; everything goes on afterwards."""
        self.server.add_file(ECHO, name="echo")
        with self.server.paused(), self.server.paused():
            self.assertEqual(asked(self.server, "echo", ROW), ROW)
            for change in (lambda: self.server.add_file(ECHO, name="more"), lambda: self.server.stop("echo")):
                with self.assertRaisesRegex(gpuwire.Busy, "paused"):
                    change()
        self.server.add_file(ECHO, name="more")
        self.assertEqual(asked(self.server, "more", ROW), ROW)

    def test_wait_and_wake(self):
        self.assertFalse(self.server.wait(0.05))
        threading.Timer(0.2, self.server.wake).start()
        self.assertTrue(self.server.wait(PATIENCE))

    def test_closing_wakes_who_waits(self):
        thread = threading.Thread(target=self.server.wait)
        thread.start()
        time.sleep(0.1)
        self.server.close()
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.server.close()
        with self.assertRaisesRegex(gpuwire.Error, "closed"):
            self.server.add_file(ECHO)


TOKEN = "a-token-that-is-long-enough"


def certificate(folder):
    """A key and a certificate for 127.0.0.1 that vouches for itself."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return {"tls_cert": pathlib.Path(folder, "cert.pem"), "tls_key": f"{folder}/key.pem"}


class Options(unittest.TestCase):
    def test_wrong(self):
        for wrong, says in (({"token": "short"}, "16 characters"), ({"token": TOKEN, "token_file": "/dev/null"}, "not both"),
                            ({"port": 70000}, "port=70000"), ({"sessions": -1}, "sessions=-1"), ({"model_control": True}, "repository"),
                            ({"tls_cert": "/nonexistent"}, "go together"), ({"idle": -1}, "idle"), ({"max_batch": 1000}, "max_batch"),
                            ({"watch": True}, "watch needs"), ({"resident": "often"}, "never, auto, always"),
                            ({"log_level": "loud"}, "log_level loud"), ({"drain": -1}, "drain")):
            with self.assertRaisesRegex(gpuwire.Invalid, says):
                gpuwire.Server(**{"port": 0, "exec": "cpu", **wrong})
        with self.assertRaisesRegex(gpuwire.NotFound, "/nonexistent"):
            gpuwire.Server(port=0, exec="cpu", models="/nonexistent")

    def test_repository_and_metrics(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            metrics = found.getsockname()[1]
        with gpuwire.Server(port=0, exec="cpu", models=MODELS, model_control=True, max_body=1 << 20, metrics_port=metrics,
                            idle=None, sessions=4, sessions_per_client=2, batch_delay=0.001, max_batch=2) as server:
            self.assertEqual(asked(server, "echo", ROW), ROW)
            post(server, "/v2/repository/models/echo/unload")
            with self.assertRaises(gpuwire.NotFound):
                asked(server, "echo", ROW)
            post(server, "/v2/repository/models/echo/load")
            self.assertEqual(asked(server, "echo", ROW), ROW)
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=PATIENCE) as page:
                self.assertIn(b"nv_inference_request_success", page.read())

    def test_a_repository_is_followed(self):
        with tempfile.TemporaryDirectory() as folder:
            models = pathlib.Path(folder, "models")
            shutil.copytree(MODELS / "echo", models / "echo")
            shutil.copytree(MODELS / "sum", models / "sum")
            with gpuwire.Server(port=0, exec="cpu", models=models, watch=True, model="echo") as server:
                with self.assertRaises(gpuwire.NotFound):
                    asked(server, "sum", ROW, bytes(256))
                shutil.copytree(MODELS / "echo/1", folder + "/7")
                os.rename(folder + "/7", models / "echo/7")
                until = time.monotonic() + PATIENCE
                while versions(server, "echo") != ["7"] and time.monotonic() < until:
                    time.sleep(0.05)
                self.assertEqual(versions(server, "echo"), ["7"])
                self.assertEqual(asked(server, "echo", ROW), ROW)

    def test_access_log(self):
        with tempfile.TemporaryDirectory() as folder:
            log, old = pathlib.Path(folder, "log"), pathlib.Path(folder, "old")
            with gpuwire.Server(port=0, exec="cpu", models=MODELS, access_log=log) as server:
                asked(server, "echo", ROW, door="http")
                until = time.monotonic() + PATIENCE
                while '"echo"' not in log.read_text() and time.monotonic() < until:
                    time.sleep(0.05)
                log.rename(old)
                server.reopen_log()
                asked(server, "echo", ROW, door="http")
            for file in (log, old):
                self.assertEqual([json.loads(line)["model"] for line in file.read_text().splitlines()], ["echo"])
            with gpuwire.Server(port=0, exec="cpu") as server, self.assertRaises(gpuwire.NotFound):
                server.reopen_log()

    def test_small_models(self):
        for resident, number in (("never", 0), ("always", 1)):
            with gpuwire.Server(port=0, exec="cpu", models=MODELS, resident=resident, log_level="error") as server:
                self.assertEqual(asked(server, "echo", ROW), ROW)
                metrics = get(server, "/metrics")
                self.assertIn(f'gpuwire_batch_resident{{model="echo",version="1",batch_size="1"}} {number}\n', metrics)

    def test_what_is_under_way_is_answered(self):
        """A request whose last byte is missing: with drain, close waits for it; without, it is cut off."""
        for drain, answer in ((PATIENCE, b"HTTP/1.1 200"), (0, b"")):
            server = gpuwire.Server(port=0, exec="cpu", models=MODELS, drain=drain, log_level="error")
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as request:
                body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64],
                                               "parameters": {"binary_data_size": len(ROW)}}]}).encode()
                request.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n"
                                b"Inference-Header-Content-Length: %d\r\n\r\n" % (len(body) + len(ROW), len(body)))
                request.sendall(body + ROW[:-1])
                time.sleep(0.3)
                thread = threading.Thread(target=server.close)
                thread.start()
                time.sleep(0.5)
                self.assertEqual(thread.is_alive(), drain > 0)
                try:
                    request.sendall(ROW[-1:])
                    got = request.recv(12, socket.MSG_WAITALL)
                except ConnectionError:
                    got = b""
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive())
                self.assertEqual(got, answer)

    def test_sigterm_drains(self):
        """run ends by SIGTERM as it does by Ctrl-C: what is under way is answered. A second signal ends it at once."""
        code = f"import gpuwire; s = gpuwire.Server(port=0, exec='cpu', models={str(MODELS)!r}, drain={PATIENCE}); s.run()"
        for second in (False, True):
            with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as program:
                self.addCleanup(program.kill)
                line = ""
                while "serving on" not in line:
                    line = program.stderr.readline()
                    self.assertTrue(line, "the program has ended")
                port = int(line.split(",")[0].rsplit(":", 1)[1])
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as request:
                    request.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                                    b"Inference-Header-Content-Length: 0\r\n\r\n" % len(ROW) + ROW[:-1])
                    time.sleep(0.3)
                    program.send_signal(signal.SIGTERM)
                    time.sleep(0.5)
                    self.assertIsNone(program.poll())
                    if second:
                        program.send_signal(signal.SIGTERM)
                        self.assertEqual(program.wait(PATIENCE), -signal.SIGTERM)
                        continue
                    request.sendall(ROW[-1:])
                    self.assertEqual(request.recv(12, socket.MSG_WAITALL), b"HTTP/1.1 200")
                self.assertEqual(program.wait(PATIENCE), 0)

    def test_grpc(self):
        try:
            server = gpuwire.Server(port=0, exec="cpu", grpc_port=0, token=TOKEN)
        except gpuwire.Unsupported as error:
            self.skipTest(str(error))
        with server:
            server.add_file(ECHO, name="echo")
            url = f"grpc://127.0.0.1:{server.grpc_port}"
            with gpuwire.Client(url, "echo", token=TOKEN) as client:
                self.assertEqual(client.door, "grpc")
                self.assertEqual(bytes(memoryview(client.infer(ROW, timeout=PATIENCE)).cast("B")), ROW)
            with self.assertRaisesRegex(gpuwire.Error, "UNAUTHENTICATED"):
                gpuwire.Client(url, "echo")

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_token_and_encryption(self):
        with tempfile.TemporaryDirectory() as folder, \
                gpuwire.Server(port=0, exec="cpu", token=TOKEN, **certificate(folder)) as server:
            server.add_file(ECHO, name="echo")
            self.assertTrue(server.url.startswith("rdmas://"))
            for url in (server.url, server.url.replace("rdmas", "https")):
                with gpuwire.Client(url, "echo", token=TOKEN, ca_file=f"{folder}/cert.pem") as client:
                    self.assertEqual(bytes(memoryview(client.infer(ROW, timeout=PATIENCE)).cast("B")), ROW)
                with self.assertRaisesRegex(gpuwire.Error, "401"):
                    gpuwire.Client(url, "echo", ca_file=f"{folder}/cert.pem")
                with self.assertRaisesRegex(gpuwire.Error, "not trusted"):
                    gpuwire.Client(url, "echo", token=TOKEN)


def get(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=PATIENCE) as page:
        return page.read().decode()


def versions(server, model):
    return json.loads(get(server, f"/v2/models/{model}"))["versions"]


def post(server, path):
    urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", data=b"{}", timeout=PATIENCE).close()


class Modules(unittest.TestCase):
    def test_without_a_gpu(self):
        """A module cannot be served on CPU threads, and the error says what can."""
        with gpuwire.Server(port=0, exec="cpu") as server:
            with self.assertRaisesRegex(gpuwire.Unsupported, "torch.onnx.export.*add_file"):
                server.add(lambda x: x, None, name="module")

    @needs_torch
    def test_capture_without_a_gpu(self):
        if torch.cuda.is_available():
            self.skipTest("this machine has a GPU")
        from gpuwire.capture import capture
        with self.assertRaisesRegex(gpuwire.Unsupported, "no GPU"):
            capture(torch.nn.Linear(2, 2), torch.zeros(1, 2), (1,), "linear")


class Process(unittest.TestCase):
    def test_interrupt(self):
        """run() ends by Ctrl-C within moments, and without a traceback; Python sleeps until then."""
        program = ("import gpuwire, sys, time\n"
                   "with gpuwire.Server(port=0, exec='cpu') as server:\n"
                   f"    server.add_file({str(ECHO)!r}, name='echo')\n"
                   "    print(server.url, flush=True)\n"
                   "    server.run()\n"
                   "print('closed')\n")
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        url = process.stdout.readline().strip()
        with gpuwire.Client(url, "echo") as client:
            self.assertEqual(bytes(memoryview(client.infer(ROW, timeout=PATIENCE)).cast("B")), ROW)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out), (0, "closed\n"), err)
        self.assertNotIn("Traceback", err)


if __name__ == "__main__":
    unittest.main()
