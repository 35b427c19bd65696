"""Many clients at once: equal answers, clean ends, bounded memory."""

import concurrent.futures
import json
import socket
import time

import httpx

from conftest import MODEL, Server


def ask(server, prompt: str, tokens: int) -> str:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    text = ""
    with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=300) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                text += json.loads(line[6:])["choices"][0]["text"]
    return text


def open_stream(server, tokens: int) -> socket.socket:
    """A raw connection that asked for a long stream and has read nothing."""
    host, port = server.url.removeprefix("http://").split(":")
    body = '{"model":"%s","prompt":"Tell me","max_tokens":%d,"ignore_eos":true,"stream":true}' % (MODEL, tokens)
    connection = socket.create_connection((host, int(port)))
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def test_64_streams_equal_single_requests(server):
    jobs = [("word " * (1 + 37 * (i % 11)) + str(i), 4 + (i * 7) % 29) for i in range(64)]
    alone = [ask(server, *job) for job in jobs]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(lambda job: ask(server, *job), jobs))
    assert together == alone
    server.wait_idle(2)


def test_200_disconnects_leave_nothing(server):
    connections = [open_stream(server, 3000) for _ in range(200)]
    time.sleep(0.5)
    for connection in connections:
        connection.close()
    server.wait_idle(2)
    assert ask(server, "still there", 4)


def test_slow_readers_do_not_stall_others(server):
    slow = [open_stream(server, 2000) for _ in range(8)]
    start = time.monotonic()
    ask(server, "fast", 8)
    assert time.monotonic() - start < 20
    for connection in slow:
        connection.close()
    server.wait_idle(2)


def test_sigterm_under_load_drains(checkpoint, tmp_path):
    server = Server(checkpoint, tmp_path / "log", "--drain-timeout", "30")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(ask, server, f"job {i}", 60) for i in range(8)]
        time.sleep(0.3)
        assert server.terminate() == 0
        assert all(job.result() for job in jobs)


def test_second_signal_ends_at_once(checkpoint, tmp_path):
    server = Server(checkpoint, tmp_path / "log", "--drain-timeout", "60")
    connection = open_stream(server, 4000)
    time.sleep(0.3)
    server.process.terminate()
    time.sleep(0.3)
    start = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - start < 10
    connection.close()


def test_queue_limit_is_503_with_retry_after(checkpoint, tmp_path):
    server = Server(checkpoint, tmp_path / "log", "--max-running-requests", "1", "--max-queued-requests", "1")
    busy = [open_stream(server, 4000) for _ in range(2)]
    time.sleep(0.3)
    answer = httpx.post(server.url + "/v1/completions", json={"model": MODEL, "prompt": "x", "max_tokens": 2})
    assert answer.status_code == 503 and answer.headers["retry-after"]
    for connection in busy:
        connection.close()
    server.wait_idle(2)
    assert server.terminate() == 0


def test_start_and_memory(checkpoint, tmp_path):
    server = Server(checkpoint, tmp_path / "log")
    assert server.seconds_to_ready < 1.0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: ask(server, f"memory {i}", 16), range(48)))
    memory = server.info()["memory"]
    assert server.rss_peak() <= sum(memory.values()) + 150_000_000
    assert server.terminate() == 0


def test_api_key(checkpoint, tmp_path):
    server = Server(checkpoint, tmp_path / "log", "--api-key", "secret")
    assert httpx.get(server.url + "/v1/models").status_code == 401
    assert httpx.get(server.url + "/v1/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert httpx.get(server.url + "/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert httpx.get(server.url + "/health").status_code == 200
    assert server.terminate() == 0
