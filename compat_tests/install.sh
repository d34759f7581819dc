#!/bin/sh
# Installs what the compatibility suites need beyond Python: Java and Maven for Apache Kafka, and kcat.
# For Debian and its relatives; elsewhere install the same three by hand. Does nothing when they are there.
set -eu

missing=""
command -v java >/dev/null 2>&1 || missing="$missing openjdk-17-jre-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
command -v kcat >/dev/null 2>&1 || missing="$missing kcat"
[ -n "$missing" ] || exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of package names
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
