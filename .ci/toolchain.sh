# shellcheck shell=bash
# What the scripts have in common: a C compiler (SQLite is built from source) and a Rust toolchain, found or installed.
# Sourced by ./run and ./test in the tree's root; everything it does to the machine it says first. What is pinned here and elsewhere, and
# what is not and why: docs/decisions/0017-what-is-pinned.md.

# The Rust that every commit is checked with; rustup takes it from the same file.
rust_pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
# The oldest Rust that the workspace promises to build with, and its first release.
rust_oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# shellcheck disable=SC2034 # ./test reads it.
rust_oldest_release=$rust_oldest.0
# rustup's installer: this release of it, by its checksum. It installs what is asked for and no newer self.
rustup_pinned=1.29.0
# shellcheck disable=SC2034 # Both are read by the name of the architecture.
rustup_sha256_x86_64=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10
# shellcheck disable=SC2034
rustup_sha256_aarch64=9732d6c5e2a098d3521fca8145d826ae0aaa067ef2385ead08e6feac88fa5792
# What this shellcheck finds is an error; what another one finds besides is shown and no more. It is Debian 12's and Ubuntu 24.04's.
# shellcheck disable=SC2034 # ./test reads it.
shellcheck_pinned=0.9.0
# What looks at licences, sources and advisories of dependencies. Another one reads its own configuration otherwise.
deny_pinned=0.20.2

# rustup installs no toolchain by itself, not because of rust-toolchain.toml either: ensure_toolchain does, and says so.
export RUSTUP_AUTO_INSTALL=0

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

refuse() {
    say "error: $1"
    [ $# -lt 2 ] || say "  $2"
    exit 3
}

# Runs a command as root: directly, or with sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        refuse "root is needed for: $*" "Run that command as root, then start this script again."
    fi
}

# Whether as_root can do anything.
may_be_root() { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1; }

apt_updated=false
apt_update() {
    if ! $apt_updated; then
        as_root apt-get update -q >&2
        apt_updated=true
    fi
}

# Installs packages, and takes none away for them.
apt_install() {
    apt_update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends --no-remove "$@" >&2
}

# The version apt would install of a package, or nothing.
apt_candidate() { LC_ALL=C apt-cache policy "$1" | sed -n 's/^ *Candidate: //p' | grep -v '(none)' || true; }

have_c_compiler() { command -v cc >/dev/null 2>&1; }

# rust_version [TOOLCHAIN]: the version of the Rust that cargo uses in this directory, or of that toolchain of rustup's; or nothing.
rust_version() {
    if [ $# -gt 0 ]; then
        rustup run "$1" rustc --version 2>/dev/null | awk '{ print $2 }' || true
    elif command -v cargo >/dev/null 2>&1; then
        rustc --version 2>/dev/null | awk '{ print $2 }' || true
    fi
}

# new_enough VERSION: whether the workspace promises to build with it.
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$rust_oldest" "$1" | sort -V | head -n 1)" = "$rust_oldest" ]; }

# rust_from_rustup PATTERN: of rustup's toolchains here that are releases, the newest whose version is matched by the pattern and new
# enough, whatever its name; or nothing.
rust_from_rustup() {
    local name version best='' newest=0
    command -v rustup >/dev/null 2>&1 || return 0
    while read -r name _; do
        version=$(rust_version "$name")
        # shellcheck disable=SC2053 # It is a pattern.
        if [[ $version == $1 && $version != *-* ]] && new_enough "$version" &&
            [ "$(printf '%s\n%s\n' "$newest" "$version" | sort -V | tail -n 1)" = "$version" ]; then
            newest=$version best=$name
        fi
    done < <(rustup toolchain list 2>/dev/null)
    echo "$best"
}

# What to do by hand where there is no apt.
refuse_other_system() {
    local advice="Install a C compiler and Rust $rust_pinned (https://rustup.rs; $rust_oldest is the oldest that will do), then start this script again."
    if command -v dnf >/dev/null 2>&1; then
        advice="Run: dnf install gcc cargo rustfmt clippy"
    elif command -v pacman >/dev/null 2>&1; then
        advice="Run: pacman -S base-devel rust"
    elif command -v zypper >/dev/null 2>&1; then
        advice="Run: zypper install gcc cargo"
    elif command -v apk >/dev/null 2>&1; then
        advice="Run: apk add build-base cargo rustfmt rust-clippy"
    fi
    refuse "$1, and this script only knows how to install it with apt-get (Debian, Ubuntu)" "$advice"
}

# Installs rustup without a toolchain of its own choice, into ~/.cargo and ~/.rustup.
install_rustup() {
    local architecture sum_name folder
    architecture=$(uname -m)
    sum_name=rustup_sha256_$architecture
    if [ -z "${!sum_name:-}" ]; then
        say "rustup is not installed here: no checksum of its installer for $architecture is known"
        return 1
    fi
    say "installing rustup $rustup_pinned into ~/.cargo and ~/.rustup, and no other file"
    if ! command -v curl >/dev/null 2>&1; then
        if ! command -v apt-get >/dev/null 2>&1 || ! may_be_root; then
            say "there is no curl to fetch it"
            return 1
        fi
        apt_install curl ca-certificates || return 1
    fi
    folder=$(mktemp -d)
    # The installer looks at the name that it was started by.
    if curl --proto '=https' --tlsv1.2 -fsSL --connect-timeout 15 --retry 2 -o "$folder/rustup-init" \
        "https://static.rust-lang.org/rustup/archive/$rustup_pinned/$architecture-unknown-linux-gnu/rustup-init" &&
        echo "${!sum_name}  $folder/rustup-init" | sha256sum --check --quiet >&2 && chmod u+x "$folder/rustup-init" &&
        RUSTUP_INIT_SKIP_PATH_CHECK=yes "$folder/rustup-init" -y --quiet --no-modify-path --default-toolchain none >&2; then
        rm -rf "$folder"
        return 0
    fi
    rm -rf "$folder"
    return 1
}

# Installs a release of Rust with rustup, which is installed first if it is missing. rustup makes its first toolchain the default one.
install_with_rustup() {
    if ! command -v rustup >/dev/null 2>&1; then
        install_rustup || return 1
        hash -r
    fi
    say "installing Rust $1 with rustup"
    rustup toolchain install "$1" --profile minimal --component rustfmt --component clippy --no-self-update >&2
}

# install_with_apt KIND...: installs the distribution's Rust of the first kind that is new enough: '' is that of the release, -web
# one that Debian keeps newer, because browsers are built with it.
install_with_apt() {
    local kind candidate
    command -v apt-get >/dev/null 2>&1 && may_be_root || return 1
    apt_update || return 1
    for kind in "$@"; do
        candidate=$(apt_candidate "cargo$kind")
        if [ -n "$candidate" ] && dpkg --compare-versions "$candidate" ge "$rust_oldest"; then
            say "installing cargo$kind and rustc$kind ($candidate) with apt-get"
            apt_install "cargo$kind" "rustc$kind" && return
        else
            say "this system's cargo$kind (${candidate:-none}) is not Rust $rust_oldest or newer"
        fi
    done
    return 1
}

# find_rust WANTED: leaves a Rust on the PATH that will do, and its version in $rust. `any` is content with every one that is new
# enough; `pinned` does what it can for the pinned one, since another one has other opinions on style. What the user has chosen for
# this directory (RUSTUP_TOOLCHAIN, `rustup override`) is obeyed.
find_rust() {
    local toolchain without_rustup
    without_rustup=$(command -v cargo || true)
    rust=$(rust_version)
    [ "$rust" != "$rust_pinned" ] || return 0
    if [ -n "${RUSTUP_TOOLCHAIN:-}" ] || { [ -n "$rust" ] && command -v rustup >/dev/null 2>&1; }; then
        new_enough "$rust" || refuse "rustup was told to use '${RUSTUP_TOOLCHAIN:-an override}' here, which is ${rust:-not installed}; Rust $rust_oldest or newer is needed" \
            "Unset RUSTUP_TOOLCHAIN, or run: rustup override unset; or install that toolchain."
        return 0
    fi
    # Perhaps it is here by another name: then nothing has to be fetched.
    toolchain=$(rust_from_rustup "$rust_pinned")
    if [ -n "$toolchain" ]; then
        export RUSTUP_TOOLCHAIN=$toolchain
    elif [ "$1" = any ] && new_enough "$rust"; then
        return 0
    elif [ "$1" = any ] && ! command -v rustup >/dev/null 2>&1 && install_with_apt ''; then
        :
    elif install_with_rustup "$rust_pinned"; then
        :
    elif new_enough "$rust"; then
        # Before a rustup that has come a moment ago, and has no toolchain.
        PATH="$(dirname "$without_rustup"):$PATH"
        hash -r
        return 0
    else
        toolchain=$(rust_from_rustup '*')
        if [ -n "$toolchain" ]; then
            export RUSTUP_TOOLCHAIN=$toolchain
        elif command -v rustup >/dev/null 2>&1 || ! install_with_apt '' -web; then
            return 0
        fi
    fi
    hash -r
    rust=$(rust_version)
}

# ensure_toolchain WANTED: leaves `cc`, `cargo` and `rustc` on the PATH, or ends the script with what to do. WANTED is as for find_rust.
ensure_toolchain() {
    # rustup's own place, which a shell that was open while it was installed does not know yet.
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    if ! have_c_compiler; then
        command -v apt-get >/dev/null 2>&1 || refuse_other_system "there is no C compiler (cc)"
        say "there is no C compiler: installing build-essential with apt-get"
        apt_install build-essential
    fi
    # Some file systems and machines without certificates fail here first, with a message that hides the reason.
    if [ ! -e /etc/ssl/certs/ca-certificates.crt ] && command -v apt-get >/dev/null 2>&1; then
        say "installing ca-certificates with apt-get (Rust and the dependencies are fetched over https)"
        apt_install ca-certificates
    fi
    find_rust "$1"
    if ! new_enough "$rust"; then
        command -v apt-get >/dev/null 2>&1 || refuse_other_system "there is no Rust $rust_oldest or newer"
        refuse "there is no Rust $rust_oldest or newer, and it could not be installed" \
            "Look at the messages above; https://rustup.rs says how to install it by hand: rustup toolchain install $rust_pinned"
    fi
    if [ "$rust" != "$rust_pinned" ]; then
        say "building with Rust $rust; every commit is checked with $rust_pinned (rust-toolchain.toml)"
    fi
}

# What PostgreSQL is built with from its released source, which has no generated parsers.
ensure_postgres_build_tools() {
    local missing=() program
    for program in make bison flex perl tar bzip2 patch curl pkg-config; do
        command -v "$program" >/dev/null 2>&1 || missing+=("$program")
    done
    have_header stdio.h readline/readline.h || missing+=(libreadline-dev)
    have_header zlib.h || missing+=(zlib1g-dev)
    have_header unicode/ucol.h || missing+=(libicu-dev)
    perl -MIPC::Run -e 1 >/dev/null 2>&1 || missing+=(libipc-run-perl)
    command -v pgrep >/dev/null 2>&1 || missing+=(procps)
    [ "${#missing[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        refuse "for building PostgreSQL this is missing: ${missing[*]}" "Install it; the names are Debian's."
    say "installing with apt-get what PostgreSQL is built with: ${missing[*]}"
    apt_install "${missing[@]}"
}

# What SQLite's own test suite is built with, where apt-get can install it; the suite says what is missing elsewhere.
ensure_sqlite_suite_tools() {
    local missing=()
    command -v xz >/dev/null 2>&1 || missing+=(xz-utils)
    # They want Tcl 8.6.
    command -v tclsh >/dev/null 2>&1 && [ -e /usr/include/tcl8.6/tcl.h ] || missing+=(tcl tcl8.6-dev)
    [ "${#missing[@]}" -gt 0 ] && command -v apt-get >/dev/null 2>&1 && may_be_root || return 0
    say "installing with apt-get what SQLite's own test suite is built with: ${missing[*]}"
    apt_install "${missing[@]}" || true
}

# Other people's clients of network block devices, and what stands on them, where apt-get can install them; tests say which are missing elsewhere.
ensure_nbd_clients() {
    local missing=()
    { command -v nbdinfo && command -v nbdcopy; } >/dev/null 2>&1 || missing+=(libnbd-bin)
    { python3 -c 'import nbd' || /usr/bin/python3 -c 'import nbd'; } >/dev/null 2>&1 || missing+=(python3-libnbd)
    command -v qemu-io >/dev/null 2>&1 || missing+=(qemu-utils)
    command -v fio >/dev/null 2>&1 || missing+=(fio)
    command -v strace >/dev/null 2>&1 || missing+=(strace)
    command -v sqlite3 >/dev/null 2>&1 || missing+=(sqlite3)
    { command -v mke2fs && command -v debugfs; } >/dev/null 2>&1 || missing+=(e2fsprogs)
    command -v openssl >/dev/null 2>&1 || missing+=(openssl)
    [ "${#missing[@]}" -gt 0 ] && command -v apt-get >/dev/null 2>&1 && may_be_root || return 0
    say "installing with apt-get what block devices are tested with: ${missing[*]}"
    apt_install "${missing[@]}" || true
}

# A MariaDB without its service, for the nightly run, where the distribution has packages of these names.
ensure_mariadb() {
    PATH=$PATH:/usr/sbin command -v mariadbd >/dev/null 2>&1 && command -v mariadb >/dev/null 2>&1 && return 0
    command -v apt-get >/dev/null 2>&1 && may_be_root || return 0
    say "installing with apt-get a MariaDB that databases on block devices are tested with"
    apt_install mariadb-server-core mariadb-client-core || true
}

# Whether header files can be included, one after the other.
have_header() { printf '#include <%s>\n' "$@" | cc -fsyntax-only -x c - >/dev/null 2>&1; }

# Finds or installs rustfmt and clippy of the pinned Rust, which only ./test needs. Leaves in $no_lints why there are none, or nothing.
# shellcheck disable=SC2034 # ./test reads it.
ensure_lint_tools() {
    no_lints=''
    if [ "$rust" != "$rust_pinned" ]; then
        no_lints="rustfmt and clippy of Rust $rust_pinned decide, and this is $rust"
    elif cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    elif command -v rustup >/dev/null 2>&1; then
        say "adding rustfmt and clippy with rustup"
        rustup component add rustfmt clippy >&2 || no_lints="rustfmt or clippy is missing, and rustup cannot add them"
    else
        no_lints="rustfmt or clippy of Rust $rust_pinned is missing; install them, or rustup (https://rustup.rs)"
    fi
}

# Finds or installs shellcheck, where apt-get can; without it, the syntax of the scripts is checked.
ensure_shellcheck() {
    if ! command -v shellcheck >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && may_be_root; then
        say "installing shellcheck with apt-get"
        apt_install shellcheck || true
    fi
}

# Finds or makes the pinned cargo-deny, outside of the tree; takes some minutes once. Leaves its path in $cargo_deny, or nothing.
# shellcheck disable=SC2034 # ./test reads it.
ensure_cargo_deny() {
    local root
    if [ -n "${MEZZANINE_CACHE:-}" ]; then root=$MEZZANINE_CACHE
    elif [ -n "${XDG_CACHE_HOME:-}" ]; then root=$XDG_CACHE_HOME/mezzanine
    elif [ "$(id -u)" -eq 0 ]; then root=/var/cache/mezzanine
    else root=$HOME/.cache/mezzanine
    fi
    root=$root/cargo-deny-$deny_pinned
    cargo_deny=$root/bin/cargo-deny
    [ ! -x "$cargo_deny" ] || return 0
    say "building cargo-deny $deny_pinned into $root"
    cargo install --quiet --locked --root "$root" --version "=$deny_pinned" cargo-deny >&2 || cargo_deny=''
}
