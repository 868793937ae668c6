#!/usr/bin/env bash
# Builds what a release has into bin/release: static programs of both
# architectures as archives and packages, and SHA256SUMS. The same commit gives the
# same bytes, with the same version of Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/package/common.sh

rm -rf "$OUT"
mkdir -p "$OUT"
for arch in amd64 arm64; do
	scripts/package/deb.sh "$arch" >/dev/null
	name=basaltmq-$VERSION-linux-$arch
	mkdir "$OUT/$name"
	cp "$OUT/$arch"/basaltmq{,ctl,perf} README.md CHANGELOG.md LICENSE "$OUT/$name/"
	cp -r docs extras "$OUT/$name/"
	chmod -R u=rwX,go=rX "$OUT/$name"
	tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$OUT" -c "$name" |
		gzip -9n >"$OUT/$name.tar.gz"
	rm -rf "${OUT:?}/$name"
done
# What the programs are made of, from their own build information.
go version -m "$OUT/amd64/basaltmq" | awk '$1 == "dep" {print $2, $3, $4}' | sort >"$OUT/basaltmq-$VERSION-modules.txt"
rm -rf "$OUT/amd64" "$OUT/arm64"
(cd "$OUT" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
