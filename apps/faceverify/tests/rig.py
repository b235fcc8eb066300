# SPDX-License-Identifier: Apache-2.0
"""What the tests of faceverify's tools share: the tool, a memcached, and checks."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

GPUWIRE = os.environ["GPUWIRE"]
PATIENCE = float(os.environ.get("GW_PATIENCE") or 60)  # seconds that a step may take
failures = []


def need(program):
    if not shutil.which(program):
        print(f"{program} is not here")
        sys.exit(77)


def run(*args, stdin=None):
    """(exit code, standard output, standard error) of `gpuwire app faceverify ARGS`."""
    p = subprocess.run([GPUWIRE, "app", "faceverify", *map(str, args)], input=stdin, capture_output=True, text=True, timeout=PATIENCE)
    return p.returncode, p.stdout, p.stderr


def check(what, fine, more=""):
    if not fine:
        failures.append(what)
    print(f"{'ok  ' if fine else 'FAIL'} {what}{'' if fine else f': {more}'}")


def refused(what, words, *args, code=1):
    """The call must fail with one line that has the words."""
    rc, out, err = run(*args)
    check(what, rc == code and words in err and err.count("\n") == 1, f"rc {rc}: {out}{err}")


def end():
    sys.exit(1 if failures else 0)


@contextlib.contextmanager
def memcached():
    """A memcached of our own on a free port of loopback, which this gives."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    p = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(port), "-m", "64", *user])
    try:
        for _ in range(int(50 * PATIENCE)):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.02)
        yield port
    finally:
        p.terminate()
        p.wait()


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="faceverify-") as d:
        yield d
