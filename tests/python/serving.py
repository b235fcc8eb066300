# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: a server of the tool's, and where the libraries are."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = float(os.environ.get("PATIENCE", "120"))

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")
needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed")


class Worker:
    """`gpuwire serve` of a folder of models, on any free port."""

    def __init__(self, models, *arguments):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.environ["GPUWIRE"], "serve", "--port", "0", "--exec", "cpu", "--models", str(models), *arguments],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        # Reading would wait forever for a server that says nothing.
        self.alarm = threading.Timer(PATIENCE, self.process.kill)
        self.alarm.start()
        line = self.process.stdout.readline()
        self.alarm.cancel()
        found = re.search(r"HTTP on port (\d+)", line)
        if not found:
            self.log.seek(0)
            said = self.log.read()
            self.stop(signal.SIGKILL)
            raise AssertionError(f"the server is not ready: {line}{said}")
        self.port = int(found.group(1))
        found = re.search(r"gRPC on port (\d+)", line)
        self.grpc_port = int(found.group(1)) if found else None

    def url(self, door):
        """Skips the test where the server has no such door."""
        port = self.grpc_port if door == "grpc" else self.port
        if port is None:
            raise unittest.SkipTest("built without gRPC")
        return f"{door}://127.0.0.1:{port}"

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.stdout.close()
            self.log.close()
