#!/bin/sh
# Installs Toolkeep {{version}} for the current user, without root.
#
#   sh install.sh              into ~/.local/bin
#
#   TOOLKEEP_INSTALL_DIR=DIR   another folder for the program
#   TOOLKEEP_BASE_URL=URL      a mirror that has the archive of this version
#
# The checksum of the archive is in this script, so the mirror need not be trusted.
set -eu

version={{version}}
base_url=${TOOLKEEP_BASE_URL:-https://github.com/toolkeep/toolkeep/releases/download/v$version}
install_dir=${TOOLKEEP_INSTALL_DIR:-${HOME:?}/.local/bin}

fail() {
    printf 'error: %s\n  help: %s\n' "$1" "$2" >&2
    exit 1
}

select_archive() {
    system=$(uname -s)
    machine=$(uname -m)
    [ "$system" = Linux ] ||
        fail "there is no program for $system" \
            "run Toolkeep in a Linux virtual machine or container, or build it: see docs/guide/install.md"
    case $machine in
        x86_64 | amd64) arch=x86_64 sha256={{sha256_x86_64}} ;;
        aarch64 | arm64) arch=aarch64 sha256={{sha256_aarch64}} ;;
        *) arch=$machine sha256=none ;;
    esac
    [ "$sha256" != none ] ||
        fail "there is no program for $machine in this release" "build it: see docs/guide/install.md"
    folder=toolkeep-$version-linux-$arch
}

# Downloads $1 to $2. Plain HTTP is for mirrors on this machine.
download() {
    case $1 in
        https://* | http://127.0.0.1[:/]* | http://localhost[:/]* | file://*) ;;
        *) fail "$1 is not HTTPS" "set TOOLKEEP_BASE_URL to an https:// address" ;;
    esac
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --retry 3 --output "$2" "$1" ||
            fail "cannot download $1" "check the address and the network"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --output-document="$2" "$1" ||
            fail "cannot download $1" "check the address and the network"
    else
        fail "neither curl nor wget is installed" "install one of them"
    fi
}

checksum() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
    else
        fail "there is no sha256sum, shasum or openssl" "install one of them; nothing is installed unchecked"
    fi
}

install_program() {
    work=$(mktemp -d)
    staged=
    trap 'rm -rf "$work" "$staged"' EXIT
    trap 'exit 1' HUP INT TERM
    download "$base_url/$folder.tar.gz" "$work/archive"
    found=$(checksum "$work/archive")
    [ "$found" = "$sha256" ] ||
        fail "the archive has checksum $found, not $sha256" \
            "nothing was installed; download this script and the archive again"
    tar -xzf "$work/archive" -C "$work"
    "$work/$folder/toolkeep" --version >/dev/null ||
        fail "the program does not start on this system" "it needs glibc; see docs/guide/install.md"
    mkdir -p "$install_dir"
    # Renamed into place, so that a running program is replaced and never seen half written.
    staged=$install_dir/.toolkeep.$$
    cp "$work/$folder/toolkeep" "$staged"
    chmod 755 "$staged"
    mv -f "$staged" "$install_dir/toolkeep"
    printf 'installed toolkeep %s as %s\n' "$version" "$install_dir/toolkeep"
    case :$PATH: in
        *:"$install_dir":*) ;;
        *) printf 'add it to your path: export PATH="%s:%s"\n' "$install_dir" "\$PATH" ;;
    esac
}

# Everything is a function, so that a script that was cut off while it was downloaded does nothing.
select_archive
install_program
