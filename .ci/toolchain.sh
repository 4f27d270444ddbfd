# shellcheck shell=bash
# What the scripts have in common: a C compiler (SQLite is built from source) and a Rust toolchain, found or installed.
# Sourced by ./run and ./test; everything it does to the machine it says first.

# The oldest Rust that the workspace promises to build with; the same number stands in Cargo.toml.
rust_oldest=1.85

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

apt_updated=false
apt_install() {
    if ! $apt_updated; then
        as_root apt-get update -q >&2
        apt_updated=true
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

# The version apt would install of a package, or nothing.
apt_candidate() {
    if ! $apt_updated; then
        as_root apt-get update -q >&2
        apt_updated=true
    fi
    LC_ALL=C apt-cache policy "$1" | sed -n 's/^ *Candidate: //p' | grep -v '(none)' || true
}

have_c_compiler() { command -v cc >/dev/null 2>&1; }

# Succeeds when `rustc` and `cargo` are there and new enough.
have_rust() {
    command -v cargo >/dev/null 2>&1 || return 1
    local version oldest
    version=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    [ -n "$version" ] || return 1
    oldest=$(printf '%s\n%s\n' "$rust_oldest" "$version" | sort -V | head -n 1)
    [ "$oldest" = "$rust_oldest" ]
}

# What to do by hand where there is no apt.
refuse_other_system() {
    local advice="Install a C compiler and Rust $rust_oldest or newer (https://rustup.rs), then start this script again."
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

install_rust() {
    local candidate
    candidate=$(apt_candidate cargo)
    if [ -n "$candidate" ] && dpkg --compare-versions "$candidate" ge "$rust_oldest"; then
        say "installing cargo and rustc ($candidate) with apt-get"
        apt_install cargo rustc
    elif [ -n "$(apt_candidate rustup)" ]; then
        say "installing rustup with apt-get, and with it the stable Rust toolchain into ~/.rustup"
        apt_install rustup
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2
        rustup default stable >&2
    else
        say "this system's cargo (${candidate:-none}) is older than $rust_oldest:"
        say "installing the stable Rust toolchain with the official installer (rustup) into ~/.cargo and ~/.rustup"
        command -v curl >/dev/null 2>&1 || apt_install curl ca-certificates
        local installer
        installer=$(mktemp)
        curl --proto '=https' --tlsv1.2 -fsS -o "$installer" https://static.rust-lang.org/rustup/rustup-init.sh
        sh "$installer" -y --quiet --no-modify-path --profile minimal --component rustfmt --component clippy >&2
        rm -f "$installer"
    fi
}

# Leaves `cc`, `cargo` and `rustc` on the PATH, or ends the script with what to do.
ensure_toolchain() {
    # rustup's own place, which a shell that was open while it was installed does not know yet.
    if [ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    if ! have_c_compiler; then
        command -v apt-get >/dev/null 2>&1 || refuse_other_system "there is no C compiler (cc)"
        say "there is no C compiler: installing build-essential with apt-get"
        apt_install build-essential
    fi
    if ! have_rust; then
        command -v apt-get >/dev/null 2>&1 || refuse_other_system "there is no Rust $rust_oldest or newer"
        install_rust
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
        hash -r
        have_rust || refuse "Rust $rust_oldest or newer is still not on the PATH after installing it" \
            "Look at the messages above; https://rustup.rs says how to install it by hand."
    fi
    # Some file systems and machines without certificates fail here first, with a message that hides the reason.
    if [ ! -e /etc/ssl/certs/ca-certificates.crt ] && command -v apt-get >/dev/null 2>&1; then
        say "installing ca-certificates with apt-get (cargo fetches the dependencies over https)"
        apt_install ca-certificates
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
    [ "${#missing[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        refuse "for building PostgreSQL this is missing: ${missing[*]}" "Install it; the names are Debian's."
    say "installing with apt-get what PostgreSQL is built with: ${missing[*]}"
    apt_install "${missing[@]}"
}

# Whether header files can be included, one after the other.
have_header() { printf '#include <%s>\n' "$@" | cc -fsyntax-only -x c - >/dev/null 2>&1; }

# rustfmt and clippy, which only ./test needs.
ensure_lint_tools() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    fi
    if command -v rustup >/dev/null 2>&1; then
        say "adding rustfmt and clippy with rustup"
        rustup component add rustfmt clippy >&2
    elif command -v apt-get >/dev/null 2>&1; then
        say "installing rustfmt and rust-clippy with apt-get"
        apt_install rustfmt rust-clippy
    else
        refuse "rustfmt or clippy is missing" "Install both for your Rust toolchain, then start this script again."
    fi
}
