#!/bin/sh
# Installs what C programs need of a finished `cargo build --release`: scash.h, scash_comm.h, libscash.so, libscash.a, scash.pc, and the
# command scash. Usage:
#
#     scash/capi/install.sh [--prefix DIR] [--libdir DIR] [--from DIR]
#
# --prefix  where to (default /usr/local); below it include, lib, lib/pkgconfig and bin
# --libdir  where libraries go, if not to lib below the prefix
# --from    where cargo put what it built (default: target/release of this checkout)
#
# DESTDIR, if set, is put before all paths that are written to, and into none that is written down (for packagers).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
libdir=
from=$here/../../target/release

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail "$1 needs a value; there are --prefix DIR, --libdir DIR, --from DIR"
    case $1 in
    --prefix) prefix=$2 ;;
    --libdir) libdir=$2 ;;
    --from) from=$2 ;;
    *) fail "there is no option $1; there are --prefix DIR, --libdir DIR, --from DIR" ;;
    esac
    shift 2
done
libdir=${libdir:-$prefix/lib}
for dir in "$prefix" "$libdir"; do
    case $dir in
    *'|'* | *'&'* | *\\*) fail "$dir: a path with |, & or \\ cannot be written into scash.pc" ;;
    /*) ;;
    *) fail "$dir: give an absolute path" ;;
    esac
done
for file in libscash.so libscash.a scash; do
    [ -f "$from/$file" ] || fail "$from/$file is not there: run 'cargo build --release' first, or say --from DIR"
done

# The version is the workspace's.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
[ -n "$version" ] || fail "Cargo.toml has no version"

to=${DESTDIR:-}
mkdir -p "$to$prefix/include" "$to$prefix/bin" "$to$libdir/pkgconfig"
install -m 644 "$here/include/scash.h" "$here/include/scash_comm.h" "$to$prefix/include/"
install -m 755 "$from/scash" "$to$prefix/bin/scash"
install -m 755 "$from/libscash.so" "$to$libdir/libscash.so"
install -m 644 "$from/libscash.a" "$to$libdir/libscash.a"
sed -e '/^#/d' \
    -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@INCLUDEDIR@|$prefix/include|" -e "s|@VERSION@|$version|" \
    "$here/scash.pc.in" >"$to$libdir/pkgconfig/scash.pc"
chmod 644 "$to$libdir/pkgconfig/scash.pc"
