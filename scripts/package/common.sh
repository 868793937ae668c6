# Sourced by the scripts of this directory, in the repository's root.

export LC_ALL=C TZ=UTC0
# All times in packages are the commit's, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
OUT=${OUT:-bin/release}

# build ARCH: static programs into $OUT/ARCH.
build() {
	mkdir -p "$OUT/$1"
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false -tags uring \
		-ldflags "-checklinkname=0 -s -w -buildid= -X main.version=$VERSION -X github.com/basaltmq/basaltmq/perf/scenario.Version=$VERSION" \
		-o "$OUT/$1/" ./cmd/...
}

# debian_version: a version must begin with a digit, and sort.
debian_version() {
	case $VERSION in
	v[0-9]*) echo "${VERSION#v}" | sed 's/-\([0-9]*\)-g/+git\1./; s/-/./g' ;;
	*) echo "0~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(echo "$VERSION" | tr -c 'a-zA-Z0-9\n' .)" ;;
	esac
}
