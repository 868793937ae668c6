#!/usr/bin/env bash
# Builds bin/release/basaltmq_VERSION_ARCH.deb with dpkg-deb alone. Arguments:
# architectures (that of this machine).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/package/common.sh

# manual NAME SECTION TITLE: a page made of what the program says of itself.
manual() {
	printf '.TH %s %s "%s" "%s"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "${1^^}" "$2" "$(date -d "@$SOURCE_DATE_EPOCH" +%F)" "BasaltMQ" "$1" "$3"
	sed 's/\\/\\\\/g; s/-/\\-/g; s/^\./\\\&./; s/^'"'"'/\\\&'"'"'/'
	printf '.fi\n.SH SEE ALSO\n.BR basaltmq (8),\n.BR basaltmqctl (8),\n.BR basaltmqperf (1)\n.PP\n/usr/share/doc/basaltmq has the documentation.\n'
}

package() {
	local arch=$1 here root version
	version=$(debian_version)
	build "$arch"
	here=$(go env GOHOSTARCH)
	[ "$here" = "$arch" ] || build "$here" # what the programs say of themselves
	root=$OUT/deb-$arch
	rm -rf "$root"
	mkdir -p "$root"/{DEBIAN,etc/basaltmq,usr/bin,usr/lib/systemd/system,usr/share/bash-completion/completions,usr/share/zsh/vendor-completions,usr/share/fish/vendor_completions.d,usr/share/man/man1,usr/share/man/man8,usr/share/doc/basaltmq/examples}
	cp "$OUT/$arch"/basaltmq{,ctl,perf} "$root/usr/bin/"
	cp extras/systemd/* "$root/usr/lib/systemd/system/"
	# All keys, none set: defaults of later versions count.
	"$OUT/$here/basaltmq" --print-default-config | sed 's/^\([a-z_]* = \)/#\1/' >"$root/etc/basaltmq/basaltmq.toml"
	"$OUT/$here/basaltmqctl" completion bash >"$root/usr/share/bash-completion/completions/basaltmqctl"
	"$OUT/$here/basaltmqctl" completion zsh >"$root/usr/share/zsh/vendor-completions/_basaltmqctl"
	"$OUT/$here/basaltmqctl" completion fish >"$root/usr/share/fish/vendor_completions.d/basaltmqctl.fish"
	"$OUT/$here/basaltmq" --help | manual basaltmq 8 "message broker" | gzip -9n >"$root/usr/share/man/man8/basaltmq.8.gz"
	"$OUT/$here/basaltmqctl" --help | manual basaltmqctl 8 "administer the BasaltMQ broker" | gzip -9n >"$root/usr/share/man/man8/basaltmqctl.8.gz"
	"$OUT/$here/basaltmqperf" --help | manual basaltmqperf 1 "measure a message broker" | gzip -9n >"$root/usr/share/man/man1/basaltmqperf.1.gz"
	cp README.md "$root/usr/share/doc/basaltmq/"
	cp -r docs "$root/usr/share/doc/basaltmq/docs"
	gzip -9n <CHANGELOG.md >"$root/usr/share/doc/basaltmq/changelog.gz"
	{ echo "BasaltMQ, https://github.com/basaltmq/basaltmq"; echo; cat LICENSE; } >"$root/usr/share/doc/basaltmq/copyright"
	cp -r extras/. "$root/usr/share/doc/basaltmq/examples/"
	cp scripts/package/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
	echo /etc/basaltmq/basaltmq.toml >"$root/DEBIAN/conffiles"
	cat >"$root/DEBIAN/control" <<-CONTROL
		Package: basaltmq
		Version: $version
		Architecture: $arch
		Maintainer: BasaltMQ maintainers <maintainers@basaltmq.example>
		Installed-Size: $(du -sk --apparent-size "$root/usr" "$root/etc" | awk '{n += $1} END {print n}')
		Depends: passwd
		Section: net
		Priority: optional
		Homepage: https://github.com/basaltmq/basaltmq
		Description: message broker for AMQP 0-9-1 clients
		 A broker for small machines: memory does not grow with the backlog, and what
		 was confirmed is on stable storage. It has RabbitMQ's management API, and
		 tools to administer and to measure it.
	CONTROL
	chmod -R u=rwX,go=rX "$root"
	chmod 0755 "$root"/DEBIAN/{postinst,prerm,postrm} "$root"/usr/bin/*
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" "$OUT/basaltmq_${version}_$arch.deb" >&2
	rm -rf "$root"
	echo "$OUT/basaltmq_${version}_$arch.deb"
}

for arch in "${@:-$(go env GOHOSTARCH)}"; do
	package "$arch"
done
