# shellcheck shell=bash
# Linux booted in QEMU, in memory alone: what the scripts that do so have in common. Sourced by them; nothing of this machine is written
# to but the target folder. In the order in which they are called:
#   guest_options "$@"            --fetch, --kvm, --keep FOLDER, --help (usage, which the script has)
#   guest_find PROGRAM... -- MODULE...   QEMU, a busybox, the programs, and a kernel that has the modules, fetched if asked for
#   guest_begin INIT              the guest's file system, with busybox and its only program
#   guest_program FILE [NAME]     a program with its libraries
#   guest_module NAME             a module, and those that it needs before it
#   guest_boot SECONDS            boots it; `passed` or `failed`
# What a script may set before guest_find: guest_suite, the suite of Debian that a kernel is fetched from (this system's own otherwise), and
# guest_packages, an array that says for a program which package has it ([fio]=fio).

[ -n "${root:-}" ] || { echo "root is not set" >&2; exit 2; }
guest_target=${CARGO_TARGET_DIR:-$root/target}
guest_fetched=$guest_target/guest
guest_work=$(mktemp -d)
trap 'rm -rf "$guest_work"' EXIT
guest_suite=''
declare -A guest_packages=()
# Where each program is that was found.
declare -A guest_programs=()

skip() {
    printf 'skipped: %s\n' "$1"
    exit 77
}

guest_options() {
    guest_fetch=false
    guest_accelerator=tcg
    guest_keep=''
    while [ $# -gt 0 ]; do
        case "$1" in
            --fetch) guest_fetch=true ;;
            --kvm) guest_accelerator=kvm ;;
            --keep)
                guest_keep=${2:?--keep needs a folder}
                shift
                ;;
            -h | --help)
                usage
                exit 0
                ;;
            *)
                printf "%s: '%s' is no option\n" "$0" "$1" >&2
                usage >&2
                exit 2
                ;;
        esac
        shift
    done
    [ "$(uname -m)" = x86_64 ] || skip "the guest is one of x86_64, and this machine is of $(uname -m)"
}

# module_file FOLDER NAME: the file of a kernel's module, which may be compressed; names are written with - or _.
module_file() { find "$1/kernel" \( -name "${2//-/_}.ko*" -o -name "${2//_/-}.ko*" \) 2>/dev/null | head -n 1; }

# Of the system's own; what is fetched lies below $guest_fetched, as it would below /.
guest_look() {
    guest_libraries=$guest_fetched/usr/lib/x86_64-linux-gnu:$guest_fetched/lib/x86_64-linux-gnu
    guest_qemu=$(command -v qemu-system-x86_64 || true)
    guest_qemu_libraries=''
    if [ -z "$guest_qemu" ] && [ -x "$guest_fetched/usr/bin/qemu-system-x86_64" ]; then
        guest_qemu=$guest_fetched/usr/bin/qemu-system-x86_64
        guest_qemu_libraries=$guest_libraries
    fi
    guest_busybox=''
    local candidate modules name
    for candidate in "$(command -v busybox || true)" "$guest_fetched/bin/busybox" "$guest_fetched/usr/bin/busybox"; do
        # One with libraries would have to bring them along.
        if [ -x "$candidate" ] && ! ldd "$candidate" >/dev/null 2>&1; then
            guest_busybox=$candidate
        fi
    done
    for name in "${guest_wanted[@]}"; do
        guest_programs[$name]=''
        for candidate in "$(PATH=$PATH:/usr/sbin:/sbin command -v "$name" || true)" "$guest_fetched"/{,usr/}{bin,sbin}/"$name"; do
            if [ -x "$candidate" ] && [ -z "${guest_programs[$name]}" ]; then
                guest_programs[$name]=$candidate
            fi
        done
    done
    guest_kernel=''
    for candidate in /boot/vmlinuz-* "$guest_fetched"/boot/vmlinuz-*; do
        for modules in "${candidate%/boot/*}"/{,usr/}lib/modules/"${candidate##*/vmlinuz-}"; do
            if [ -n "$guest_kernel" ] || [ ! -r "$candidate" ]; then
                continue
            fi
            for name in "${guest_wanted_modules[@]}"; do
                [ -n "$(module_file "$modules" "$name")" ] || continue 2
            done
            guest_kernel=$candidate
            guest_modules=$modules
        done
    done
}

# Downloads packages with all that they depend on, and unpacks these below $guest_fetched.
guest_fetch_all() {
    local packages=() archive image name
    command -v apt-get dpkg-deb >/dev/null 2>&1 ||
        skip "--fetch knows only apt-get; install qemu-system-x86_64, a static busybox, ${guest_wanted[*]:-nothing else} and a kernel with the modules ${guest_wanted_modules[*]}"
    mkdir -p "$guest_fetched/archives/partial"
    [ -n "$guest_qemu" ] || packages+=(qemu-system-x86)
    [ -n "$guest_busybox" ] || packages+=(busybox-static)
    for name in "${guest_wanted[@]}"; do
        [ -n "${guest_programs[$name]}" ] || packages+=("${guest_packages[$name]:-$name}")
    done
    if [ -z "$guest_kernel" ] && { [ -z "$guest_suite" ] || ! guest_fetch_kernel; }; then
        image=linux-image-amd64
        apt-cache show $image >/dev/null 2>&1 || image=linux-image-generic
        packages+=("$image")
    fi
    if [ "${#packages[@]}" -gt 0 ]; then
        printf 'fetching with apt-get: %s\n' "${packages[*]}"
        # Nothing is installed, so nobody's lock is needed.
        apt-get -q -o Debug::NoLocking=true -o Dir::Cache::archives="$guest_fetched/archives" install --yes --download-only \
            --no-install-recommends "${packages[@]}" >"$guest_work/fetched" 2>&1 || {
            tail -n 5 "$guest_work/fetched"
            skip "apt-get cannot fetch ${packages[*]}; try apt-get update"
        }
    fi
    for archive in "$guest_fetched"/archives/*.deb; do
        [ ! -e "$archive" ] || dpkg-deb --extract "$archive" "$guest_fetched"
        rm -f "$archive"
    done
}

# The kernel of another suite than this system's, by itself: what it depends on makes it boot from a disk. Its list of packages is kept
# apart from the system's.
guest_fetch_kernel() {
    local apt=$guest_work/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg options image
    [ -r "$keyring" ] || return 1
    mkdir -p "$apt"/{lists,archives}/partial
    printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' "$keyring" "$guest_suite" >"$apt/sources.list"
    options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apt/lists"
        -o "Dir::Cache=$apt" -o Debug::NoLocking=true -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update >"$guest_work/updated" 2>&1 || { tail -n 5 "$guest_work/updated"; return 1; }
    image=$(apt-cache "${options[@]}" depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
    [ -n "$image" ] || return 1
    printf 'fetching with apt-get from %s: %s\n' "$guest_suite" "$image"
    (cd "$guest_fetched/archives" && apt-get "${options[@]}" download "$image" >"$guest_work/updated" 2>&1) ||
        { tail -n 5 "$guest_work/updated"; return 1; }
}

guest_find() {
    local name more='; with --fetch it is fetched, and not installed'
    guest_wanted=()
    while [ "$1" != -- ]; do
        guest_wanted+=("$1")
        shift
    done
    shift
    guest_wanted_modules=("$@")
    guest_look
    if $guest_fetch; then
        guest_fetch_all
        guest_look
    fi
    [ -n "$guest_qemu" ] || skip "qemu-system-x86_64 is missing$more"
    [ -n "$guest_busybox" ] || skip "a busybox without libraries (busybox-static) is missing$more"
    for name in "${guest_wanted[@]}"; do
        [ -n "${guest_programs[$name]}" ] || skip "the program $name is missing$more"
    done
    [ -n "$guest_kernel" ] || skip "a kernel in /boot with the modules ${guest_wanted_modules[*]} is missing$more"
    if [ "$guest_accelerator" = kvm ] && [ ! -w /dev/kvm ]; then
        skip "/dev/kvm is missing, or not for this user; leave out --kvm"
    fi
}

guest_begin() {
    guest=$guest_work/guest
    mkdir -p "$guest"/{bin,dev,etc,mnt,proc,sys,tmp,modules,programs}
    cp "$guest_busybox" "$guest/bin/busybox"
    cp "$root/.ci/guest-checks" "$guest/checks"
    cp "$1" "$guest/init"
    guest_number=0
}

guest_program() {
    local name=${2:-$(basename "$1")} library
    # What is only for debuggers makes them ten times as large.
    strip -o "$guest/programs/$name" "$1" 2>/dev/null || cp "$1" "$guest/programs/$name"
    LD_LIBRARY_PATH=$guest_libraries ldd "$1" |
        sed -n 's|.* \(/[^ ]*\) (0x.*|\1|p; s|^[[:space:]]*\(/[^ ]*\) (0x.*|\1|p' | while read -r library; do
        # Where it was fetched to is no place in the guest.
        mkdir -p "$guest$(dirname "${library#"$guest_fetched"}")"
        cp -L "$library" "$guest${library#"$guest_fetched"}"
    done
}

# guest_module NAME: what is no module is part of the kernel.
guest_module() {
    local file needed name=${1//-/_} plain
    file=$(module_file "$guest_modules" "$1")
    if [ -z "$file" ] || compgen -G "$guest/modules/*-$name.ko" >/dev/null; then
        return 0
    fi
    plain=$guest_work/$name.ko
    case "$file" in
        *.xz) xz -dc "$file" >"$plain" ;;
        *.zst) zstd -qdc "$file" >"$plain" ;;
        *.gz) gzip -dc "$file" >"$plain" ;;
        *) cp "$file" "$plain" ;;
    esac
    for needed in $(tr '\0' '\n' <"$plain" | sed -n 's/^depends=//p' | tr ',' ' '); do
        guest_module "$needed"
    done
    guest_number=$((guest_number + 1))
    mv "$plain" "$guest/modules/$(printf %02d "$guest_number")-$name.ko"
}

guest_boot() {
    local size data=() status=0
    (cd "$guest" && find . | "$guest_busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$guest_work/initramfs"
    size=$(du -m "$guest_work/initramfs" | cut -f 1)
    printf 'the guest: %s, %s, a file system of %s MB\n' \
        "$(LD_LIBRARY_PATH=$guest_qemu_libraries "$guest_qemu" --version | head -n 1)" "${guest_kernel##*/}" "$size"
    if [ -n "$guest_qemu_libraries" ]; then
        data=(-L "$guest_fetched/usr/share/qemu" -L "$guest_fetched/usr/share/seabios" -L "$guest_fetched/usr/lib/ipxe/qemu")
    fi
    LD_LIBRARY_PATH=$guest_qemu_libraries timeout --kill-after 10 "$1" "$guest_qemu" "${data[@]}" \
        -M q35 -accel "$guest_accelerator" -cpu Nehalem -smp 2 -m 2048 -nodefaults -display none -no-reboot -serial stdio \
        -kernel "$guest_kernel" -initrd "$guest_work/initramfs" -append 'console=ttyS0 quiet panic=-1 rdinit=/init' \
        </dev/null 2>"$guest_work/qemu" | tee "$guest_work/printed" || status=$?
    if [ -n "$guest_keep" ]; then
        mkdir -p "$guest_keep"
        cp "$guest_kernel" "$guest_work/initramfs" "$guest_work/printed" "$guest_keep"
    fi
    if tr -d '\r' <"$guest_work/printed" | grep -q '^guest: all of it is as it has to be$'; then
        echo passed
    else
        [ "$status" -ne 124 ] || echo "the guest was stopped after $1 seconds"
        tail -n 5 "$guest_work/qemu"
        echo failed
        exit 1
    fi
}
