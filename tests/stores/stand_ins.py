# SPDX-License-Identifier: Apache-2.0
"""The stand-ins by the scheme of their URLs."""

from __future__ import annotations

import stand_in_azure
import stand_in_google
from stand_in import Handler, StandIn, environment

SERVICES = {
    "s3": (Handler, environment),
    "gs": (stand_in_google.GoogleHandler, stand_in_google.environment),
    "az": (stand_in_azure.AzureHandler, stand_in_azure.environment),
}


def stand_in(scheme: str, address: str = "127.0.0.1", port: int = 0) -> StandIn:
    return StandIn(address, port, *SERVICES[scheme])
