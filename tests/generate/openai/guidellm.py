# SPDX-License-Identifier: Apache-2.0
"""guidellm, unmodified, measures OpenAI's door: guidellm.py SERVE_FAKE. 77: there is none.

It is not installed by scripts/setup.sh, as it brings PyTorch. $GUIDELLM is its program."""
import json
import os
import subprocess
import sys
import tempfile

PATIENCE = float(os.environ.get("PATIENCE", "120"))
TOKEN_MS = 5


def measure(program, url, folder):
    prompts, result = os.path.join(folder, "prompts.jsonl"), os.path.join(folder, "result.json")
    with open(prompts, "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"prompt": f"Tell me {i}", "output_tokens_count": 20}) + "\n" for i in range(40))
    subprocess.run([program, "run", "--backend", f"kind=openai_http,target={url},model=words", "--profile",
                    "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=20", "--data",
                    f"kind=json_file,path={prompts}", "--disable-console", "--output", f"kind=json,path={result}"],
                   check=True, timeout=PATIENCE, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    with open(result, encoding="utf-8") as f:
        return json.load(f)["benchmarks"][0]["metrics"]


def check(metrics):
    totals = metrics["request_totals"]
    assert totals["successful"] == 20 and totals["errored"] == 0, totals
    assert metrics["output_token_count"]["successful"]["mean"] == 20, metrics["output_token_count"]
    between = metrics["inter_token_latency_ms"]["successful"]["median"]
    assert between >= TOKEN_MS / 2, between


def main():
    program = os.environ.get("GUIDELLM", os.path.expanduser("~/.cache/gpuwire/guidellm/bin/guidellm"))
    if not os.access(program, os.X_OK):
        print(f"skipped: {program} is not there: see {os.path.basename(__file__)}")
        sys.exit(77)
    server = subprocess.Popen([sys.argv[1], str(TOKEN_MS * 1000), "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            check(measure(program, f"http://127.0.0.1:{int(server.stdout.readline())}", folder))
    finally:
        server.stdin.close()
        code = server.wait(PATIENCE)
    assert code == 0, code
    print("guidellm measures 20 requests")


main()
