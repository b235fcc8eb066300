#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's own Python tests on the software NIC, and says what passed, what was skipped and why."""
import argparse
import collections
import gzip
import importlib.machinery
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DEBIAN = "/usr/share/doc/rdma-core"  # where Debian's python3-pyverbs puts them, compressed
SKIP = 77  # for test drivers: it cannot be run here


def leave(why):
    print(f"pyverbs: {why}", file=sys.stderr)
    sys.exit(SKIP)


def interpreter(folder):
    """A Python that has pyverbs, and the environment it needs: the checkout's own build comes first."""
    env = dict(os.environ)
    built = os.path.join(folder, "build", "python")
    if os.path.isdir(built):
        env["PYTHONPATH"] = built
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        done = subprocess.run([python, "-c", "import pyverbs.device, sys; print(sys.executable)"], env=env,
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip(), env
    return leave("no Python here has the module pyverbs: install python3-pyverbs, or build the checkout")


def unpacked(source, to):
    """A copy of the folder `source`, with no file compressed."""
    os.mkdir(to)
    for name in os.listdir(source):
        path = os.path.join(source, name)
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(os.path.join(to, name[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
        elif os.path.isfile(path):
            shutil.copy(path, to)
    return to


def outside(args):
    if not os.path.exists(os.path.join(args.folder, "tests", "run_tests.py")):
        leave(f"{args.folder} has no tests/run_tests.py: name a checkout of rdma-core")
    python, env = interpreter(args.folder)
    with tempfile.TemporaryDirectory(prefix="pyverbs-") as work:
        tests = unpacked(os.path.join(args.folder, "tests"), os.path.join(work, "tests"))
        command = [python, os.path.abspath(__file__), "--inside", "--device", args.device,
                   "--gid", str(args.gid), "--at-least", str(args.at_least), tests, *args.tests]
        if args.gpuwire != "none":
            tool = os.path.abspath(args.gpuwire) if "/" in args.gpuwire else args.gpuwire
            command = [tool, "run", "--", *command]
            # The tests of newer releases ask `rdma link`, which asks the kernel.
            env["PATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand-in") + ":" + env.get("PATH", os.defpath)
        try:
            return subprocess.run(command, env=env, cwd=work, check=False).returncode
        except FileNotFoundError:
            sys.exit(f"pyverbs: no program {args.gpuwire}: say --gpuwire PATH")


class Result(unittest.TextTestResult):
    """Counts what passed, which unittest does not."""

    passed = 0

    def addSuccess(self, test):
        self.passed += 1
        super().addSuccess(test)


def same(reason):
    """One reason, whatever file or number it names."""
    return re.sub(r"/tmp/\S+|0x[0-9a-f]+", "…", reason)


def inside(args):
    sys.path[:0] = [args.folder, os.path.dirname(args.folder)]
    sys.argv[1:] = ["--dev", args.device, "--port", "1", "--gid", str(args.gid)]
    from args_parser import parser  # the tests' own: they look there for the device

    parser.parse_args()
    first = os.path.join(args.folder, "__init__.py")
    module = importlib.machinery.SourceFileLoader("tests", first).load_module()
    load = unittest.TestLoader()
    suite = load.loadTestsFromNames(args.tests, module) if args.tests else load.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=2 if args.tests else 1, resultclass=Result).run(suite)
    wrong = result.failures + result.errors
    print(f"\npassed {result.passed}, skipped {len(result.skipped)}, failed {len(wrong)}, of {result.testsRun}")
    reasons = collections.Counter(same(why) for _, why in result.skipped)
    for why, count in reasons.most_common():
        print(f"{count:5} skipped: {why}")
    for test, _ in wrong:
        print(f"       failed: {test.id()}")
    if result.passed < args.at_least:
        print(f"       failed: {args.at_least} tests were to pass")
    return 1 if wrong or result.passed < args.at_least else 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folder", nargs="?", default=DEBIAN, metavar="CHECKOUT",
                   help=f"of rdma-core, of the release that pyverbs is of (default: {DEBIAN})")
    p.add_argument("tests", nargs="*", metavar="TEST", help="for example tests.test_odp; default: all")
    p.add_argument("--gpuwire", default="gpuwire", metavar="PATH",
                   help="the tool; none: on the system's own device")
    p.add_argument("--device", default="mlx5_0")
    p.add_argument("--gid", type=int, default=0, metavar="INDEX")
    p.add_argument("--at-least", type=int, default=0, metavar="N", help="fail when fewer tests pass")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    sys.exit(inside(args) if args.inside else outside(args))


main()
