#!/bin/sh
# Installs what C programs need of a finished `cargo build --release`: scash.h, scash_groups.h, scash_shared.h,
# scash_spawn.h, scash_comm.h, libscash.so, libscash.a, scash.pc, and the command scash; for programs with shared
# static variables scash_shared.ld and scash-shared.pc; and, in include/scash/compat, the headers with which
# programs for other systems are compiled: jia.h, Tmk.h and parmacs.h. Usage:
#
#     scash/capi/install.sh [--prefix DIR] [--libdir DIR] [--from DIR] [--no-strip]
#
# --prefix    where to (default /usr/local); below it include, lib, lib/pkgconfig and bin
# --libdir    where libraries go, if not to lib below the prefix
# --from      where cargo put what it built (default: target/release of this checkout)
# --no-strip  keep symbols and debugging information, which `strip` (or what STRIP names) takes away otherwise
#
# A DIR may be relative to where the caller stands. DESTDIR, if set, is put before all paths that are written
# to, and into none that is written down (for packagers).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
libdir=
from=$here/../../target/release
strip=${STRIP:-strip}
options="--prefix DIR, --libdir DIR, --from DIR, --no-strip"

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

# The directory, from the root.
absolute() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s\n' "${PWD%/}/${1#./}" ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --libdir | --from) [ -n "${2:-}" ] || fail "$1 needs a value; there are $options" ;;
    --no-strip) strip= && shift && continue ;;
    *) fail "there is no option $1; there are $options" ;;
    esac
    case $1 in
    --prefix) prefix=$(absolute "$2") ;;
    --libdir) libdir=$(absolute "$2") ;;
    --from) from=$2 ;;
    esac
    shift 2
done
libdir=${libdir:-$prefix/lib}
for dir in "$prefix" "$libdir"; do
    case $dir in
    *'|'* | *'&'* | *\\*) fail "$dir: a path with |, & or \\ cannot be written into scash.pc" ;;
    esac
done
for file in libscash.so libscash.a scash; do
    [ -f "$from/$file" ] || fail "$from/$file is not there: run 'cargo build --release' first, or say --from DIR"
done

# The version is the workspace's.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
[ -n "$version" ] || fail "Cargo.toml has no version"

to=${DESTDIR:-}
mkdir -p "$to$prefix/include/scash/compat" "$to$prefix/bin" "$to$libdir/pkgconfig"
install -m 644 "$here"/include/scash*.h "$to$prefix/include/"
install -m 644 "$here"/include/compat/*.h "$to$prefix/include/scash/compat/"
install -m 755 "$from/scash" "$to$prefix/bin/scash"
install -m 755 "$from/libscash.so" "$to$libdir/libscash.so"
install -m 644 "$from/libscash.a" "$to$libdir/libscash.a"
install -m 644 "$here/scash_shared.ld" "$to$libdir/scash_shared.ld"

# Takes from a file what programs do not need of it. Option of strip, file.
without() {
    "$strip" "$1" "$2" || echo "install.sh: note: $2 was not stripped" >&2
}
if [ -n "$strip" ] && ! command -v "$strip" >/dev/null 2>&1; then
    echo "install.sh: note: there is no $strip here, so debugging information is installed, too" >&2
elif [ -n "$strip" ]; then
    without --strip-all "$to$prefix/bin/scash"
    without --strip-unneeded "$to$libdir/libscash.so"
    without --strip-debug "$to$libdir/libscash.a"
fi
for package in scash scash-shared; do
    sed -e '/^#/d' \
        -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@INCLUDEDIR@|$prefix/include|" -e "s|@VERSION@|$version|" \
        "$here/$package.pc.in" >"$to$libdir/pkgconfig/$package.pc"
    chmod 644 "$to$libdir/pkgconfig/$package.pc"
done
