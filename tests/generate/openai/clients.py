# SPDX-License-Identifier: Apache-2.0
"""Everyone's clients, unmodified, at OpenAI's door: clients.py SERVE_FAKE; and OpenAI's own at a model that is really computed:
clients.py GPUWIRE FOLDER."""
import json
import os
import subprocess
import sys
import tempfile
import urllib.request

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask another host for prices

import openai

TOKEN = "a-token-of-the-tests"
MODEL = "words"
# An answer has all its tokens, and all of them are in its text.
PLAIN = {"ignore_eos": True, "skip_special_tokens": False}
HELLO = [{"role": "user", "content": "Hello"}]


def call(url, path, **body):
    """A call that OpenAI's client does not know."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(url.replace("/v1", path), json.dumps({"model": MODEL, **body}).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def check_chat(client):
    ask = dict(model=MODEL, messages=HELLO, max_tokens=8, seed=5, extra_body=PLAIN)
    whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
    choice = whole.choices[0]
    assert choice.finish_reason == "length" and choice.message.role == "assistant", whole
    assert whole.usage.completion_tokens == 8 and whole.usage.total_tokens == whole.usage.prompt_tokens + 8, whole.usage
    tokens = choice.logprobs.content
    assert "".join(t.token for t in tokens) == choice.message.content and len(tokens[0].top_logprobs) == 2, tokens
    assert bytes(b for t in tokens for b in t.bytes).decode() == choice.message.content
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == choice.message.content
    assert chunks[-1].usage.completion_tokens == 8 and chunks[-2].choices[0].finish_reason == "length", chunks[-2:]
    return choice.message.content


def check_completions(client, url):
    ask = dict(model=MODEL, prompt="Hello", max_tokens=6, seed=5, extra_body=PLAIN)
    many = client.completions.create(**ask, n=3, logprobs=1)
    assert [c.index for c in many.choices] == [0, 1, 2] and len({c.text for c in many.choices}) == 3, many
    log = many.choices[0].logprobs
    assert "".join(log.tokens) == many.choices[0].text and len(log.text_offset) == 6, log
    text = many.choices[0].text
    second = text.index(" ", 1)
    cut = client.completions.create(**ask, stop=[text[second:second + 4]])
    assert cut.choices[0].text == text[:second] and cut.choices[0].finish_reason == "stop", cut
    echo = client.completions.create(**ask, echo=True, stream=True)
    assert "".join(c.choices[0].text for c in echo) == "Hello" + text
    prompts = [call(url, "/tokenize", prompt=p)["tokens"] for p in ("Hello", "Hi")]
    ids = client.completions.create(**{**ask, "prompt": prompts})
    assert ids.choices[0].text == text and ids.usage.prompt_tokens == sum(map(len, prompts)), ids
    one = prompts[0][-1]
    bias = client.completions.create(**ask, logit_bias={str(one): 100}, temperature=0)
    assert bias.choices[0].text == call(url, "/detokenize", tokens=[one] * 6)["prompt"], bias


def refused(kind, call, **ask):
    try:
        call(**ask)
    except kind as error:
        return error
    raise AssertionError(f"not refused: {ask}")


def check_errors(client, url):
    create = client.chat.completions.create
    error = refused(openai.NotFoundError, create, model="none", messages=HELLO)
    assert error.code == "model_not_found" and error.param == "model", error
    error = refused(openai.BadRequestError, create, model=MODEL, messages=HELLO, temperature=-1)
    assert error.param == "temperature" and "temperature" in str(error), error
    error = refused(openai.BadRequestError, create, model=MODEL, messages=HELLO, max_tokens=1000000)
    assert error.code == "context_length_exceeded", error
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    refused(openai.BadRequestError, create, model=MODEL, messages=image)
    stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
    refused(openai.AuthenticationError, stranger.models.list)


def check_full(client):
    refused(openai.RateLimitError, client.chat.completions.create, model=MODEL, messages=HELLO, n=65, max_tokens=2000,
            extra_body=PLAIN)


def check_litellm(url, text):
    import litellm

    ask = dict(model=f"openai/{MODEL}", api_base=url, api_key=TOKEN, messages=HELLO, max_tokens=8, seed=5,
               extra_body=PLAIN)
    assert litellm.completion(**ask).choices[0].message.content == text
    parts = [c.choices[0].delta.content or "" for c in litellm.completion(**ask, stream=True)]
    assert "".join(parts) == text, parts


def check_langchain(url, text):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=url, api_key=TOKEN, max_tokens=8, seed=5, extra_body=PLAIN)
    answer = model.invoke("Hello")
    assert answer.content == text and answer.usage_metadata["output_tokens"] == 8, answer
    assert "".join(c.content for c in model.stream("Hello")) == text


def check_openai(url):
    client = openai.OpenAI(base_url=url, api_key=TOKEN, max_retries=0)
    assert client.models.list().data[0].id == MODEL and client.models.retrieve(MODEL).id == MODEL
    text = check_chat(client)
    check_completions(client, url)
    check_errors(client, url)
    return client, text


def at_words(program):
    server = subprocess.Popen([program, "1000", "64", TOKEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        client, text = check_openai(url)
        check_full(client)
        check_litellm(url, text)
        check_langchain(url, text)
    finally:
        server.stdin.close()
        code = server.wait(60)
    assert code == 0, code
    print("the clients of openai, litellm and langchain-openai are answered")


def at_model(program, model):
    global MODEL
    MODEL = os.path.basename(model)
    with tempfile.TemporaryDirectory() as folder:
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="ascii") as f:
            f.write(TOKEN + "\n")
        env = {**os.environ, "XDG_RUNTIME_DIR": folder, "GPUWIRE_NIC": "addr=127.0.0.1"}
        server = subprocess.Popen([program, "generate", "--exec", "cpu", "--port", "0", "--token-file", token, model],
                                  stdout=subprocess.PIPE, text=True, env=env)
        try:
            port = next(line.split("HTTP on port ")[1] for line in server.stdout if "HTTP on port " in line)
            check_openai(f"http://127.0.0.1:{int(port)}/v1")
        finally:
            server.terminate()
            code = server.wait(60)
    assert code == 0, code
    print(f"OpenAI's client is answered by {MODEL}")


(at_words if len(sys.argv) == 2 else at_model)(*sys.argv[1:])
