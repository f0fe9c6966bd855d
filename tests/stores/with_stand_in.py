# SPDX-License-Identifier: Apache-2.0
"""Run a program against the stand-in for S3: with_stand_in.py PROGRAM [ARGUMENT...]"""

import os
import subprocess
import sys

from stand_in import StandIn

if __name__ == "__main__":
    server = StandIn()
    code = subprocess.run(sys.argv[1:], env={**os.environ, **server.environment}, check=False).returncode
    server.close()
    sys.exit(code)
