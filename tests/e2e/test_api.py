"""The API as its users see it: the real openai client, and plain HTTP for what the client cannot say."""

import json

import httpx
import openai
import pytest

from conftest import MODEL

USER = [{"role": "user", "content": "Hello there"}]


def whole_text(stream) -> tuple[str, str, str]:
    """Reasoning, content and finish reason of a stream."""
    reasoning = content = finish = ""
    for chunk in stream:
        for choice in chunk.choices:
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            content += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return reasoning, content, finish


def test_stream_equals_whole(client):
    arguments = dict(model=MODEL, messages=USER, max_tokens=40, temperature=0)
    whole = client.chat.completions.create(**arguments)
    streamed = whole_text(client.chat.completions.create(**arguments, stream=True))
    message = whole.choices[0].message
    assert streamed == (message.reasoning_content or "", message.content, whole.choices[0].finish_reason)
    assert whole.usage.completion_tokens == 40 and whole.choices[0].finish_reason == "length"
    assert message.reasoning_content and message.content == ""


def test_thinking_off_answers_in_content(client):
    answer = client.chat.completions.create(model=MODEL, messages=USER, max_tokens=20, temperature=0, reasoning_effort="none")
    assert answer.choices[0].message.content and answer.choices[0].message.reasoning_content is None


def test_usage_chunk_comes_last(client):
    chunks = list(client.chat.completions.create(model=MODEL, messages=USER, max_tokens=5, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 5
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[0].choices[0].delta.role == "assistant"


def test_seed_fixes_the_text_and_n_gives_different_ones(client):
    arguments = dict(model=MODEL, messages=USER, max_tokens=24, temperature=1.0, seed=7, n=4)
    first = [c.message.reasoning_content for c in client.chat.completions.create(**arguments).choices]
    second = [c.message.reasoning_content for c in client.chat.completions.create(**arguments).choices]
    assert first == second and len(set(first)) == 4
    alone = client.chat.completions.create(**{**arguments, "n": 1}).choices[0].message.reasoning_content
    assert alone == first[0]


def test_logprobs(client):
    answer = client.chat.completions.create(model=MODEL, messages=USER, max_tokens=6, temperature=0, logprobs=True, top_logprobs=3)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == 6
    for entry in entries:
        assert len(entry.top_logprobs) == 3 and entry.token == entry.top_logprobs[0].token
        assert entry.logprob == entry.top_logprobs[0].logprob <= 0
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob
    legacy = client.completions.create(model=MODEL, prompt="Hello", max_tokens=4, temperature=0, logprobs=2)
    assert len(legacy.choices[0].logprobs.tokens) == 4 and len(legacy.choices[0].logprobs.top_logprobs[0]) <= 2


def test_stop_string_cuts_the_text(client):
    text = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=60, temperature=0).choices[0].text
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    answer = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=60, temperature=0, stop=[stop]).choices[0]
    assert answer.text == text[: text.index(stop)] and answer.finish_reason == "stop" and answer.matched_stop == stop
    streamed = "".join(c.choices[0].text for c in client.completions.create(model=MODEL, prompt="Once upon", max_tokens=60, temperature=0, stop=[stop], stream=True))
    assert streamed == answer.text


def test_completions_take_ids_and_lists(server, client):
    ids = httpx.post(server.url + "/tokenize", json={"prompt": "Hello"}).json()["tokens"]
    by_text, by_ids = (client.completions.create(model=MODEL, prompt=p, max_tokens=8, temperature=0).choices[0].text for p in ("Hello", ids))
    assert by_text == by_ids
    many = client.completions.create(model=MODEL, prompt=["Hello", "Goodbye"], max_tokens=8, temperature=0).choices
    assert [c.index for c in many] == [0, 1] and many[0].text == by_text
    assert client.completions.create(model=MODEL, prompt="Hello", max_tokens=8, temperature=0, echo=True).choices[0].text == "Hello" + by_text
    assert httpx.post(server.url + "/detokenize", json={"tokens": ids}).json()["text"] == "Hello"


def test_native_generate(server):
    body = {"text": "Hello", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    whole = httpx.post(server.url + "/generate", json=body, timeout=60).json()
    assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 8} and len(whole["output_ids"]) == 8
    events = [line[6:] for line in httpx.post(server.url + "/generate", json={**body, "stream": True}, timeout=60).text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]" and json.loads(events[-2])["text"] == whole["text"]


def test_penalties_and_bias_act(client):
    arguments = dict(model=MODEL, prompt="a b c", max_tokens=30, temperature=0)
    assert client.completions.create(**arguments, logit_bias={"64": 100}).choices[0].text == "a" * 30
    # Two forced letters: the penalty on the count makes them share the text.
    forced = {"64": 100, "65": 90}
    assert client.completions.create(**arguments, logit_bias=forced).choices[0].text == "a" * 30
    shared = client.completions.create(**arguments, logit_bias=forced, frequency_penalty=2.0).choices[0].text
    assert set(shared) == {"a", "b"}


@pytest.mark.parametrize(
    "change, param",
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**7}, "max_tokens"),
        ({"stop": 5}, "stop"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"stream": "yes"}, "stream"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"regex": "a*"}, "regex"),
    ],
)
def test_bad_fields_are_named(server, change, param):
    answer = httpx.post(server.url + "/v1/chat/completions", json={"model": MODEL, "messages": USER, "max_tokens": 4, **change})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param and answer.json()["error"]["message"]


def test_errors_have_one_shape(server, client):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=USER)
    for method, path, body, status in [
        ("POST", "/v1/chat/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b"\xff\xfe", 400),
        ("GET", "/v1/chat/completions", None, 405),
        ("GET", "/nowhere", None, 404),
        ("POST", "/tokenize", b"{}", 400),
        ("POST", "/generate", b'{"text":"a","input_ids":[1]}', 400),
        ("POST", "/generate", b'{"input_ids":[-1]}', 400),
    ]:
        answer = httpx.request(method, server.url + path, content=body)
        assert answer.status_code == status and answer.json()["error"]["message"], (path, answer.text)


def test_context_overflow_names_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=MODEL, prompt="word " * 20000, max_tokens=4)
    assert "4096" in str(error.value)


def test_information(server, client):
    assert [m.id for m in client.models.list()] == [MODEL] and client.models.retrieve(MODEL).id == MODEL
    assert httpx.get(server.url + "/health").status_code == 200
    assert httpx.get(server.url + "/health_generate", timeout=30).status_code == 200
    metrics = httpx.get(server.url + "/metrics").text
    for name in ("sglang:num_running_reqs", "sglang:token_usage", "sglang:time_to_first_token_seconds_bucket"):
        assert name in metrics
    assert server.info()["precision"]["state"] == "float32"


def test_user_text_never_becomes_control(server, client):
    plain = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "<|end_of_msg|>"}], max_tokens=1)
    # One control token would be one id; the spelled marker is several.
    empty = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": ""}], max_tokens=1)
    assert plain.usage.prompt_tokens - empty.usage.prompt_tokens > 4
