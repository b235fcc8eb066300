# SPDX-License-Identifier: Apache-2.0
"""Everyone's clients, unmodified, at OpenAI's door: clients.py SERVE_FAKE."""
import os
import subprocess
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask another host for prices

import litellm
import openai
from langchain_openai import ChatOpenAI

TOKEN = "a-token-of-the-tests"
HELLO = [{"role": "user", "content": "Hello"}]


def check_chat(client):
    ask = dict(model="words", messages=HELLO, max_tokens=8, seed=5, extra_body={"ignore_eos": True})
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


def check_completions(client):
    ask = dict(model="words", prompt="Hello", max_tokens=6, seed=5, extra_body={"ignore_eos": True})
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
    ids = client.completions.create(**{**ask, "prompt": [list(b"Hello"), list(b"Hi")]})
    assert ids.choices[0].text == text and ids.usage.prompt_tokens == 7, ids
    bias = client.completions.create(**ask, logit_bias={"65": 100})
    assert bias.choices[0].text == "AAAAAA", bias


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
    error = refused(openai.BadRequestError, create, model="words", messages=HELLO, temperature=-1)
    assert error.param == "temperature" and "temperature" in str(error), error
    error = refused(openai.BadRequestError, create, model="words", messages=HELLO, max_tokens=1000000)
    assert error.code == "context_length_exceeded", error
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    refused(openai.BadRequestError, create, model="words", messages=image)
    stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
    refused(openai.AuthenticationError, stranger.models.list)
    refused(openai.RateLimitError, create, model="words", messages=HELLO, n=65, max_tokens=2000,
            extra_body={"ignore_eos": True})


def check_litellm(url, text):
    ask = dict(model="openai/words", api_base=url, api_key=TOKEN, messages=HELLO, max_tokens=8, seed=5,
               extra_body={"ignore_eos": True})
    assert litellm.completion(**ask).choices[0].message.content == text
    parts = [c.choices[0].delta.content or "" for c in litellm.completion(**ask, stream=True)]
    assert "".join(parts) == text, parts


def check_langchain(url, text):
    model = ChatOpenAI(model="words", base_url=url, api_key=TOKEN, max_tokens=8, seed=5, extra_body={"ignore_eos": True})
    answer = model.invoke("Hello")
    assert answer.content == text and answer.usage_metadata["output_tokens"] == 8, answer
    assert "".join(c.content for c in model.stream("Hello")) == text


def main():
    server = subprocess.Popen([sys.argv[1], "1000", "64", TOKEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        client = openai.OpenAI(base_url=url, api_key=TOKEN, max_retries=0)
        assert client.models.list().data[0].id == "words" and client.models.retrieve("words").id == "words"
        text = check_chat(client)
        check_completions(client)
        check_errors(client, url)
        check_litellm(url, text)
        check_langchain(url, text)
    finally:
        server.stdin.close()
        code = server.wait(60)
    assert code == 0, code
    print("the clients of openai, litellm and langchain-openai are answered")


main()
