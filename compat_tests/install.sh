#!/bin/sh
# Install the programs that the compatibility suites need beyond Python and that are missing:
#   install.sh kcat           the command line client
#   install.sh kafka          Java and Maven, for Apache Kafka
#   install.sh java           Java, for Spark
#   install.sh go             Go, for the tests of franz-go
#   install.sh node           Node and npm, for the tests of kafkajs
#   install.sh docker         Docker, its Compose, and debootstrap for a base image where none can be pulled
#   install.sh cc             a C compiler, for the load generator of the benchmarks
#   install.sh kerberos       a key distribution center, and what compiles gssapi and lets kcat use tickets
#   install.sh network        tools that create network namespaces and cut them off, for campaigns
# For Debian and its relatives only; elsewhere install the same programs by hand.
set -eu

packages=""
need() { # program package
    command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}

need_file() { # files..., package; the files are a pattern that the shell has expanded
    found="$1"
    while [ "$#" -gt 1 ]; do shift; done
    [ -e "$found" ] || packages="$packages $1"
}

for what in "$@"; do
    case "$what" in
        kcat) need kcat kcat ;;
        go) need go golang-go ;;
        node) need node nodejs; need npm npm ;;
        cc) need cc "gcc libc6-dev" ;;
        java) need java openjdk-17-jre-headless ;;
        docker)
            need docker docker.io
            need dockerd docker.io
            need iptables iptables
            need debootstrap debootstrap
            docker compose version >/dev/null 2>&1 || need docker-compose docker-compose
            ;;
        kerberos)
            need krb5kdc krb5-kdc
            need kadmin.local krb5-admin-server
            need kinit krb5-user
            need krb5-config libkrb5-dev
            need cc "gcc libc6-dev"
            need_file /usr/lib/*/sasl2/libgssapiv2.so libsasl2-modules-gssapi-mit
            need_file /usr/include/python3*/Python.h python3-dev
            ;;
        network) need ip iproute2; need ss iproute2; need iptables iptables ;;
        kafka) need java openjdk-17-jre-headless; need mvn maven ;;
        *) echo "usage: $0 [cc] [docker] [go] [java] [kafka] [kcat] [kerberos] [network] [node]" >&2; exit 2 ;;
    esac
done
[ -n "$packages" ] || exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of package names
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $packages
