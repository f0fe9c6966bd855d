# SPDX-License-Identifier: Apache-2.0
"""Chromium, driven through the pipe of its DevTools: no package is needed for it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any, Optional


def find() -> Optional[str]:
    """The browser's program, if there is one."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One tab."""

    def __init__(self, program: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="spotnik-chromium-")
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]

        def hand_over() -> None:  # the browser reads 3 and writes 4
            low = os.dup2(to_browser, 10), os.dup2(from_browser, 11)
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
                                        preexec_fn=hand_over, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.session = b"", 0, ""
        self.console: list[str] = []
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.write)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _note(self, message: dict[str, Any]) -> None:
        """Keep what the console says of errors."""
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description") or details["text"])
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.console.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.console.append(json.dumps(params["args"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            got = os.read(self.read, 1 << 16)
            if not got:
                raise AssertionError("the browser has ended")
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", answer))
        return answer["result"].get("value")

    def until(self, script: str, limit_s: float = 30) -> Any:
        """Ask the page until the answer is true."""
        end, last = time.monotonic() + limit_s, None
        while time.monotonic() < end:
            try:
                last = self.run(script)
            except AssertionError as error:  # the page is being left
                last = error
            else:
                if last:
                    return last
            time.sleep(0.1)
        raise AssertionError(f"never true in the page: {script}; last: {last}")

    def look(self, width: int, height: int, scheme: str, mobile: bool = False) -> None:
        """The size of the window, and dark or light."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: str) -> None:
        """All of the page, also what one has to scroll to."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
