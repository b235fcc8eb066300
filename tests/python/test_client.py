# SPDX-License-Identifier: Apache-2.0
"""The client against `gpuwire serve`, over each door."""
import array
import os
import pathlib
import signal
import threading
import time
import unittest

import gpuwire
from serving import PATIENCE, SOURCE, Worker, needs_numpy, needs_torch, numpy, torch

ROW = array.array("f", range(64))


class Doors:
    """What must hold over every door. The model `echo` gives back 64 floats; `sum` adds two such tensors."""
    door = ""

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(SOURCE / "tests/server/models")

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()

    def client(self, model="echo", **options):
        client = gpuwire.Client(self.worker.url(self.door), model, **options)
        self.addCleanup(client.close)
        return client

    def test_description(self):
        client = self.client()
        self.assertEqual(client.door, self.door)
        self.assertEqual([(i.name, i.dtype, abs(i.shape[0]), i.shape[1:]) for i in client.inputs], [("x", "FP32", 1, (64,))])
        self.assertEqual([o.name for o in client.outputs], ["y"])
        self.assertGreater(client.slots, 0)
        self.assertEqual([i.name for i in self.client("sum").inputs], ["a", "b"])

    def test_bytes(self):
        self.assertEqual(bytes(memoryview(self.client().infer(ROW.tobytes())).cast("B")), ROW.tobytes())

    @needs_numpy
    def test_arrays(self):
        client = self.client()
        x = numpy.arange(64, dtype="float32").reshape(1, 64)
        for given in (x, [x], {"x": x}, x.tolist()):
            numpy.testing.assert_array_equal(client.infer(given), x)
        out = numpy.zeros_like(x)
        self.assertIs(client.infer(x, out=out), out)
        numpy.testing.assert_array_equal(out, x)

    @needs_numpy
    def test_two_inputs(self):
        client = self.client("sum")
        a, b = (numpy.random.default_rng(n).random((1, 64), dtype="float32") for n in (1, 2))
        for given in ((a, b), {"b": b, "a": a}):
            numpy.testing.assert_array_equal(client.infer(given), a + b)
        for wrong in (a, (a,), {"a": a}, {"a": a, "c": b}):
            with self.assertRaises(gpuwire.Invalid):
                client.infer(wrong)

    @needs_torch
    def test_torch(self):
        x = torch.arange(64.0).reshape(1, 64)
        answer = self.client().infer(x)
        self.assertTrue(torch.equal(answer, x))
        out = torch.zeros(1, 64)
        self.assertIs(self.client().infer(x, out=out), out)

    def test_several_in_flight(self):
        """More requests than slots, taken in another order: each future has its own answer."""
        client = self.client(slots=4)
        rows = [array.array("f", [n] * 64).tobytes() for n in range(40)]
        futures = [client.infer_async(row) for row in rows]
        for future, row in reversed(list(zip(futures, rows))):
            self.assertEqual(bytes(memoryview(future.result(PATIENCE)).cast("B")), row)
            self.assertTrue(future.done())
            self.assertGreater(future.times.total, 0)

    def test_done_does_not_wait(self):
        client = self.client()
        future = client.infer_async(ROW)
        end = time.monotonic() + PATIENCE
        while not future.done():
            self.assertLess(time.monotonic(), end)
        self.assertIsNone(future.exception())

    def test_wrong_inputs_take_no_slot(self):
        client = self.client(slots=1)
        for wrong in (bytes(3), array.array("d", range(64))):
            with self.assertRaises(gpuwire.Invalid):
                client.infer(wrong)
        self.assertEqual(len(client.infer(ROW)) > 0, True)

    def test_no_such_model(self):
        with self.assertRaises(gpuwire.NotFound) as raised:
            self.client("nothing")
        self.assertIn("nothing", str(raised.exception))
        self.assertNotIn("\n", str(raised.exception))

    def test_threads(self):
        """A client for each thread; and a client in two threads is refused, not corrupted."""
        failed = []

        def ask(value):
            try:
                row = array.array("f", [value] * 64).tobytes()
                with gpuwire.Client(self.worker.url(self.door), "echo", slots=2) as client:
                    for _ in range(20):
                        if bytes(memoryview(client.infer(row, timeout=PATIENCE)).cast("B")) != row:
                            failed.append("another's answer")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        client = self.client()
        with client._turn(), self.assertRaisesRegex(gpuwire.Error, "another thread"):
            client.infer(ROW)

    def test_closed(self):
        client = self.client()
        client.close()
        client.close()
        with self.assertRaisesRegex(gpuwire.Error, "closed"):
            client.infer(ROW)


class Rdma(Doors, unittest.TestCase):
    door = "rdma"

    @needs_numpy
    def test_registered_memory(self):
        client = self.client()
        whole = numpy.random.default_rng(3).random((8, 64), dtype="float32")
        client.register(whole)
        for n in range(8):
            numpy.testing.assert_array_equal(client.infer(whole[n:n + 1]), whole[n:n + 1])
        client.unregister(whole)
        with self.assertRaises(gpuwire.NotFound):
            client.unregister(whole)
        numpy.testing.assert_array_equal(client.infer(whole[:1]), whole[:1])

    def test_times_add_up(self):
        client = self.client()
        future = client.infer_async(ROW)
        future.result(PATIENCE)
        t = future.times
        self.assertAlmostEqual(t.total, t.net_in + t.wait + t.model + t.post + t.net_out, places=6)
        self.assertEqual(future.batch, 1)


class Http(Doors, unittest.TestCase):
    door = "http"


class Grpc(Doors, unittest.TestCase):
    door = "grpc"


class Alone(unittest.TestCase):
    """What needs a server of its own, or none."""

    def test_nobody_there(self):
        with self.assertRaises(gpuwire.Disconnected) as raised:
            gpuwire.Client("127.0.0.1:1", "echo", timeout=5)
        self.assertIsInstance(raised.exception, ConnectionError)
        self.assertIn("127.0.0.1:1", str(raised.exception))

    def test_the_server_goes(self):
        worker = Worker(SOURCE / "tests/server/models")
        self.addCleanup(worker.stop)
        client = gpuwire.Client(worker.url("rdma"), "echo")
        client.infer(ROW)
        worker.stop(signal.SIGKILL)
        with self.assertRaises(gpuwire.Disconnected):
            for _ in range(3):
                client.infer(ROW, timeout=PATIENCE)
        client.close()

    def test_interrupt_over_rdma(self):
        """Ctrl-C ends whatever the client is at; it goes on afterwards, with all its slots and no wrong answer."""
        worker = Worker(SOURCE / "models", "--model", "superresolution")
        self.addCleanup(worker.stop)
        client = gpuwire.Client(worker.url("rdma"), "superresolution", slots=4)
        self.addCleanup(client.close)
        picture = bytes(client.inputs[0].shape[2] * client.inputs[0].shape[3] * 4)
        expected = bytes(client.infer(picture))
        with self.assertRaises(TimeoutError):
            client.infer(picture, timeout=0)
        for _ in range(3):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            end = time.monotonic() + PATIENCE
            with self.assertRaises(KeyboardInterrupt):
                while time.monotonic() < end:
                    client.infer(picture)
        futures = [client.infer_async(picture) for _ in range(8)]
        for future in futures:
            self.assertEqual(bytes(future.result(PATIENCE)), expected)

    def test_a_server_that_stands_still(self):
        """Waiting ends in time, and by Ctrl-C; the answer is not lost."""
        worker = Worker(SOURCE / "tests/server/models")
        self.addCleanup(worker.stop)
        client = gpuwire.Client(worker.url("http"), "echo")
        self.addCleanup(client.close)
        client.infer(ROW)
        worker.process.send_signal(signal.SIGSTOP)
        self.addCleanup(worker.process.send_signal, signal.SIGCONT)
        while any(t.joinpath("stat").read_text().rsplit(") ")[-1][0] != "T"  # each thread stops by itself
                  for t in pathlib.Path(f"/proc/{worker.process.pid}/task").iterdir()):
            time.sleep(0.01)
        future = client.infer_async(ROW)
        with self.assertRaises(TimeoutError):
            future.result(0.2)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            future.result(PATIENCE)
        self.assertLess(time.monotonic() - began, PATIENCE / 2)
        worker.process.send_signal(signal.SIGCONT)
        self.assertEqual(bytes(memoryview(future.result(PATIENCE)).cast("B")), ROW.tobytes())


if __name__ == "__main__":
    unittest.main()
