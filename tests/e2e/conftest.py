"""Starts the real binary on a synthetic checkpoint; every test talks to it over HTTP."""

import os
import pathlib
import signal
import subprocess
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PERIGEE_BINARY", str(ROOT / "build" / "release" / "perigee"))
MODEL = "tiny"


class Server:
    """One `perigee serve` process on a free port; `flags` come after the defaults."""

    def __init__(self, checkpoint: pathlib.Path, log: pathlib.Path, *flags: str):
        self.log = log
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            [BINARY, "serve", "--model-path", str(checkpoint), "--served-model-name", MODEL, "--port", "0", *flags],
            stderr=log.open("w"),
        )
        self.url = self._wait_ready()
        self.seconds_to_ready = time.monotonic() - self.start

    def _wait_ready(self) -> str:
        while time.monotonic() - self.start < 60:
            for line in self.log.read_text().splitlines():
                if " ready after " in line:
                    return line.split(": ", 1)[1].split(" serves ")[0]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        raise AssertionError("not ready in 60 s: " + self.log.read_text())

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120)

    def info(self) -> dict:
        return httpx.get(self.url + "/server_info").json()

    def state(self) -> dict:
        return self.info()["state"]

    def rss_peak(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")

    def wait_idle(self, seconds: float) -> None:
        """All requests gone and all memory free within `seconds`."""
        end = time.monotonic() + seconds
        while True:
            state = self.state()
            if state["running"] == state["queued"] == 0:
                assert state["pages_free"] == state["pages_total"] and state["slots_free"] == state["slots_total"], state
                return
            assert time.monotonic() < end, state
            time.sleep(0.02)

    def terminate(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([BINARY, "synth", str(folder), "--preset", "tiny", "--seed", "1"], check=True)
    return folder


@pytest.fixture(scope="session")
def server(checkpoint, tmp_path_factory):
    instance = Server(checkpoint, tmp_path_factory.mktemp("log") / "server.log", "--check-interval", "1", "--context-length", "4096")
    yield instance
    assert instance.state()["invariant_violations"] == 0
    assert instance.terminate() == 0, instance.log.read_text()


@pytest.fixture()
def client(server) -> openai.OpenAI:
    return server.client()
