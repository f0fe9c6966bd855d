# SPDX-License-Identifier: Apache-2.0
"""The clouds of mock_imds.py, as a process of a test."""

import json
import os
import sys
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests"))
from faults.process import Process, wait_for

MOCK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mock_imds.py")


class Cloud(Process):
    def __init__(self, *args):
        super().__init__(MOCK, *args)
        self.url = self.until("^http")

    def order(self, text):
        """It has happened when this returns."""
        self.tell(text)
        self.until("")

    def seen(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + "/mock/seen", timeout=self.limit_s) as answer:
            return json.load(answer)

    def until_asked(self, times):
        """It has answered that many questions more."""
        since = self.seen()["asked"]
        wait_for(f"{times} questions more", lambda: self.seen()["asked"] >= since + times)

    def env(self, **more):
        return {"SPOTNIK_IMDS_ENDPOINT": self.url, "SPOTNIK_NOTICE_INTERVAL": "100ms", **more}
