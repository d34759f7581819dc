#!/bin/sh
# Make an authority, and a key store for each host that has none: certificates.sh DIRECTORY HOST...
# The key of the authority stays with root; the nodes run as the user kwire and read only their own files. Remove the
# file of a host and run this again to replace its certificate: the node reads the new file within a minute.
set -eu
umask 077
directory=$1
shift
chmod 755 "$directory"
cd "$directory"
if [ ! -e ca.key ]; then
    openssl req -x509 -newkey rsa:2048 -noenc -days 365 -subj "/CN=Authority of the cluster" -keyout ca.new -out ca.pem
    chmod 644 ca.pem
    mv ca.new ca.key
fi
for host in "$@"; do
    [ ! -e "$host.pem" ] || continue
    openssl req -new -newkey rsa:2048 -noenc -subj "/CN=$host" -addext "subjectAltName=DNS:$host,DNS:localhost,IP:127.0.0.1" \
        -keyout "$host.key" -out "$host.csr"
    openssl x509 -req -in "$host.csr" -CA ca.pem -CAkey ca.key -days 90 -copy_extensions copy -out "$host.crt"
    cat "$host.key" "$host.crt" > "$host.new"
    chown kwire "$host.new"
    mv "$host.new" "$host.pem"
    rm "$host.key" "$host.csr" "$host.crt"
done
