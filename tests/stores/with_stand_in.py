# SPDX-License-Identifier: Apache-2.0
"""Run a program against a stand-in: with_stand_in.py SCHEME PROGRAM [ARGUMENT...]

The program reads the scheme from STORE_SCHEME, and the path of a service account's key from STORE_ACCOUNT_KEY.
"""

import os
import subprocess
import sys
import tempfile

from stand_in_google import GoogleHandler, account_make
from stand_ins import stand_in

if __name__ == "__main__":
    scheme, *command = sys.argv[1:]
    server = stand_in(scheme)
    with tempfile.TemporaryDirectory() as folder:
        own = {"STORE_SCHEME": scheme}
        if scheme == "gs":
            GoogleHandler.modulus = account_make(folder)
            own["STORE_ACCOUNT_KEY"] = os.path.join(folder, "account.pem")
        code = subprocess.run(command, env={**os.environ, **server.environment, **own}, check=False).returncode
    server.close()
    sys.exit(code)
