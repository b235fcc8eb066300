# SPDX-License-Identifier: Apache-2.0
"""Two ranks of a PyTorch program, on two GPUs or on one. gpu_nccl.py and gpu_torch.py start themselves this way."""
import json
import os
import subprocess
import sys
import tempfile
import time

LIMIT_S = 200  # of one run of both ranks
AFTER_FAILURE_S = 20  # of the other rank
# NCCL's ways past the network (NVLink by itself, shared memory) are off. Its choice of GPUDirect is its default.
NCCL = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_HCA": "mlx5_0", "NCCL_IB_GID_INDEX": "0", "NCCL_CUMEM_ENABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}


def gpus():
    if not any(os.access(os.path.join(d, "nvidia-smi"), os.X_OK) for d in os.get_exec_path()):
        return 0
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")


def start(rank, folder, arguments, settings, under_nic):
    """The calling script as a rank. under_nic: `gpuwire run` puts the software NIC under it."""
    env = dict(os.environ, RANK=str(rank), **settings)
    # NCCL 2.28 refuses two ranks on one GPU ("Duplicate GPU detected"), unless it takes them for two hosts.
    if gpus() == 1:
        env["NCCL_HOSTID"] = f"rank{rank}"
    command = [sys.executable, os.path.abspath(sys.argv[0]), "--rank", str(rank), "--meet", os.path.join(folder, "meet"), *arguments]
    if under_nic:
        command = [env["GPUWIRE"], "run", "--"] + command
    log = open(os.path.join(folder, f"{rank}.log"), "w+")
    return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT), log


def run(arguments, settings, under_nic):
    """Exit codes and outputs of both ranks. When one has ended with an error the other is not waited for."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [start(r, folder, arguments, settings, under_nic) for r in range(2)]
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and all(p.poll() is None for p, _ in ranks):
            time.sleep(0.05)
        failed = any(p.poll() not in (None, 0) for p, _ in ranks)
        end = min(end, time.monotonic() + AFTER_FAILURE_S) if failed else end
        codes = []
        for p, _ in ranks:
            try:
                codes.append(p.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                codes.append(None)
        outputs = []
        for _, log in ranks:
            log.seek(0)
            outputs.append(log.read())
            log.close()
        return codes, outputs


def tell(result):
    """What rank 0 has found, for result_of."""
    print("RESULT " + json.dumps(result), flush=True)


def result_of(codes, outputs):
    if codes != [0, 0]:
        sys.exit(f"FAILED: exit codes {codes}\n" + "\n".join(o[-3000:] for o in outputs))
    line = [l for l in outputs[0].splitlines() if l.startswith("RESULT ")][-1]
    return json.loads(line[len("RESULT "):])
