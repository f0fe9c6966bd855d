#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a command under SPOTNIK_TLS=cert: its members show a certificate for 127.0.0.1, which an authority signed that is
# made for this run.
#     certified.sh COMMAND...
set -eu
dir=$(mktemp -d /tmp/spotnik-certified-XXXXXX)
trap 'rm -rf "$dir"' EXIT

# make ARGUMENT...: a key, and what it is for
make() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "$@" 2>"$dir/why" && return
    cat "$dir/why" >&2
    exit 1
}

make -x509 -days 2 -subj /CN=authority -keyout "$dir/ca.key" -out "$dir/ca.crt"
make -subj /CN=member -addext subjectAltName=IP:127.0.0.1 -keyout "$dir/tls.key" -out "$dir/tls.csr"
openssl x509 -req -in "$dir/tls.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -copy_extensions copyall -days 2 \
    -out "$dir/tls.crt" 2>/dev/null
SPOTNIK_TLS=cert:$dir "$@"
