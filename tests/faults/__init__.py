# SPDX-License-Identifier: Apache-2.0
"""What tests of whole jobs share: hosts, processes, jobs. A script finds it by `sys.path.append(TESTS)`, where TESTS
is the folder `tests`; it needs no package beside Python's own."""
