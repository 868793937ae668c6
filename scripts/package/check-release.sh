#!/usr/bin/env bash
# Is a release reproducible? Builds it here and from a clone in another directory,
# and compares the bytes. Uncommitted changes are not in the clone: commit first.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/package/common.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/elsewhere/basaltmq"
export VERSION SOURCE_DATE_EPOCH
OUT=$work/here scripts/package/release.sh >/dev/null
(cd "$work/elsewhere/basaltmq" && OUT=$work/there scripts/package/release.sh >/dev/null)
cmp "$work/here/SHA256SUMS" "$work/there/SHA256SUMS"
for archive in "$work"/here/*.tar.gz; do
	tar -C "$work" -xzf "$archive"
done
for program in "$work"/basaltmq-*/basaltmq{,ctl,perf}; do
	# Linked without C: static, whatever the architecture.
	if ! go version -m "$program" | grep -q CGO_ENABLED=0; then
		echo "$program is not static" >&2
		exit 1
	fi
done
echo "the release is the same from another directory:"
cat "$work/here/SHA256SUMS"
