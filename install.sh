#!/bin/sh
# Builds hakmem and installs it: ./install.sh [PREFIX], by default /usr/local. DESTDIR is put in
# front of all paths. The command goes to bin, the libraries to lib, the headers to include, and
# what finds them to lib/pkgconfig and lib/cmake; completions for bash, zsh and fish, and pages for
# man, to share. LIBDIR names another folder for what linkers take, such as lib/x86_64-linux-gnu.
# Preloads are in lib/hakmem, whatever it is.
set -eu

prefix=${1:-/usr/local}
case $prefix in
-* | '') echo "usage: ./install.sh [PREFIX]" >&2; exit 2 ;;
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
lib=${LIBDIR:-lib}
cd "$(dirname "$0")"

cargo build --release --locked -p hakmem-ffi -p hakmem-cli
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
# A build of its own: the feature makes another core.
cargo build --release --locked -p hakmem-ffi --features hardened --target-dir "$target/hardened"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

to=${DESTDIR:-}$prefix
install -d "$to/bin" "$to/$lib/pkgconfig" "$to/$lib/cmake/hakmem" "$to/include" "$to/lib/hakmem"
install "$target/release/hakmem" "$to/bin/hakmem"
# Programs ask for the name with the number of the interface (build.rs), linkers for the plain one.
install -m 755 "$target/release/libhakmem.so" "$to/$lib/libhakmem.so.$version"
ln -sf "libhakmem.so.$version" "$to/$lib/libhakmem.so.0"
ln -sf libhakmem.so.0 "$to/$lib/libhakmem.so"
install -m 644 "$target/release/libhakmem.a" "$to/$lib/libhakmem.a"
# Not where ldconfig looks: both builds have the same number. No soft link, so that the folder can
# be copied alone.
ln -f "$to/$lib/libhakmem.so.$version" "$to/lib/hakmem/libhakmem.so"
install -m 755 "$target/hardened/release/libhakmem.so" "$to/lib/hakmem/libhakmem-hardened.so"
for header in hakmem.h hakmem.hpp; do
    install -m 644 "crates/hakmem-ffi/include/$header" "$to/include/$header"
done

# Writes a file with the prefix and the version filled in.
fill() {
    escaped=$(printf '%s' "$prefix" | sed 's/[\\&|]/\\&/g')
    sed "s|@PREFIX@|$escaped|; s|@LIBDIR@|$lib|g; s|@VERSION@|$version|" "packaging/$1.in" >"$to/$2/$1"
    chmod 644 "$to/$2/$1"
}
fill hakmem.pc "$lib/pkgconfig"
fill hakmem-config.cmake "$lib/cmake/hakmem"
fill hakmem-config-version.cmake "$lib/cmake/hakmem"

# Writes a file with completions for a shell.
complete() {
    install -d "$to/share/$2"
    "$to/bin/hakmem" generate completions "$1" >"$to/share/$2/$3"
    chmod 644 "$to/share/$2/$3"
}
complete bash bash-completion/completions hakmem
complete zsh zsh/site-functions _hakmem
complete fish fish/vendor_completions.d hakmem.fish
install -d "$to/share/man/man1"
"$to/bin/hakmem" generate man "$to/share/man/man1"
chmod 644 "$to/share/man/man1/"hakmem*.1
echo "hakmem $version is in $to"
