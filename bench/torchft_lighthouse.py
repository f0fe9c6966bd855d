# SPDX-License-Identifier: Apache-2.0
"""torchft's lighthouse, for any Python that imports torchft: a wheel's `torchft_lighthouse` may be in another folder."""

from torchft._torchft import lighthouse_main

lighthouse_main()  # reads the arguments behind the name of this file
