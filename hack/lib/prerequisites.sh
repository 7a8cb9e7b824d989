# Installs what a test cluster needs. To be sourced: `. hack/lib/prerequisites.sh`; needs bash with `set -euo pipefail`.
#
# Everything goes into one cache folder, in directories named after the content of what they were made from, so that
# a fresh clone finds what an older one built, and a changed pin builds anew. e2e/src/harness/toolbox.rs computes the
# same names. Nothing is started, and nothing outside the cache folder is changed, save for missing shared libraries
# and programs that a script asks for, which apt installs.

CVO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Absolute, as the caller's folder is left soon.
CVO_CACHE=$(realpath -m -- "${CVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cvo}")
# Real releases and what belongs to them, where there are any.
if [ -z "${CVO_SHARED_DATA:-}" ] && [ -d "$CVO_ROOT/../shared/data" ]; then CVO_SHARED_DATA=$CVO_ROOT/../shared/data; fi
[ -z "${CVO_SHARED_DATA:-}" ] || { CVO_SHARED_DATA=$(realpath -m -- "$CVO_SHARED_DATA") && export CVO_SHARED_DATA; }

# Exit codes of all scripts here: 1 it failed, 64 wrong usage, 69 the machine lacks something.
say() { printf '%s\n' "$*" >&2; }
lacking() { say "error: $*"; exit 69; }
failed() { say "error: $*"; exit 1; }
. "$CVO_ROOT/hack/lib/interrupt.sh"

content_key() { cat "$@" | sha256sum | cut -c1-12; }

# Where the Go tools (etcd, kube-*, kubelet, kubectl, kwok) are or will be.
go_tools_dir() { printf '%s/tools-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/e2e/tools/go.mod "$CVO_ROOT"/e2e/tools/go.sum)"; }

# Where containerd, runc, the CNI plugins and the registry are or will be.
node_tools_dir() { printf '%s/node-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/hack/lib/node-packages.txt)"; }

# require_linux: test clusters run kubelet and containerd, which are Linux programs.
require_linux() {
    [ "$(uname -s)" = Linux ] || lacking "a test cluster needs Linux, this is $(uname -s)"
}

# require_root [WAY OUT]: a node mounts file systems, makes cgroups and bridges.
require_root() {
    [ "$(id -u)" = 0 ] || lacking "a cluster with a node needs root (it mounts, and makes cgroups and bridges): run it with sudo${1:+, or $1}"
}

# require_disk GIB [DIR]: at least so much free space where clusters and the cache live.
require_disk() {
    local want=$1 dir=${2:-${TMPDIR:-/tmp}} free
    free=$(df -Pk "$dir" | awk 'NR==2 {print int($4 / 1048576)}')
    [ "$free" -ge "$want" ] || lacking "$dir has $free GiB free, $want GiB are needed: free some, or set TMPDIR to a roomier place"
}

# install_go_tools: builds the pinned Go tools once. 5 to 15 minutes on 2 cores, 0.5 GB kept (and 2 GB of Go's own cache).
install_go_tools() {
    local dir tmp version ldflags started name package
    dir=$(go_tools_dir)
    [ -d "$dir" ] && return
    command -v go >/dev/null || lacking "the cluster tools are built from source: install Go 1.26 or newer (https://go.dev/dl)"
    mkdir -p "$CVO_CACHE" && require_disk 5 "$CVO_CACHE"
    version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$CVO_ROOT/e2e/tools/go.mod")
    # Without these the API server reports v0.0.0, and version-dependent clients misjudge it.
    ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
    ldflags+=" -X k8s.io/component-base/version.gitMajor=$(cut -d. -f1 <<<"${version#v}")"
    ldflags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
    say "Building etcd, Kubernetes $version and kwok from e2e/tools into $dir: once, 5 to 15 minutes on 2 cores."
    workshop tools && tmp=$WORKSHOP
    while read -r name package; do
        started=$SECONDS
        watched build_go_tool "$ldflags" "$tmp/$name" "$package" </dev/null ||
            failed "building $name ($package) failed, see above"
        say "  $name: $((SECONDS - started)) s"
    done < <(go_tools)
    keep "$tmp" "$dir"
}

# build_go_tool LDFLAGS PROGRAM PACKAGE
build_go_tool() {
    cd "$CVO_ROOT/e2e/tools" && CGO_ENABLED=0 go build -trimpath -ldflags "$1" -o "$2" "$3"
}

# go_tools: name and package of each tool, read from the `tool` directives of e2e/tools/go.mod.
go_tools() {
    awk '/^tool \(/ {on = 1; next} /^\)/ {on = 0} on {print $1}' "$CVO_ROOT/e2e/tools/go.mod" | while read -r package; do
        case $package in
            # The last element of etcd's package path is the module's major version.
            go.etcd.io/etcd/server/v3) printf 'etcd %s\n' "$package" ;;
            *) printf '%s %s\n' "${package##*/}" "$package" ;;
        esac
    done
}

# install_node_tools: unpacks Debian's containerd, runc, CNI plugins and registry. Seconds, 200 MB. Installed
# packages would start services and belong to the whole machine; unpacked ones are only files.
install_node_tools() {
    local dir tmp missing
    dir=$(node_tools_dir)
    if ! [ -d "$dir" ]; then
        command -v apt-get >/dev/null || lacking "containerd, runc, CNI plugins and the registry come from Debian packages: this machine has no apt-get"
        mkdir -p "$CVO_CACHE" && require_disk 2 "$CVO_CACHE"
        say "Unpacking Debian's $(tr '\n' ' ' <"$CVO_ROOT/hack/lib/node-packages.txt")into $dir: once, some seconds."
        workshop node && tmp=$WORKSHOP
        unpack_packages "$tmp" || failed "fetching or unpacking the Debian packages failed, see above"
        keep "$tmp" "$dir"
    fi
    missing=$(ldd "$dir"/bin/* 2>/dev/null | awk '/not found/ {print $1}' | sort -u | tr '\n' ' ')
    [ -z "$missing" ] || {
        say "Installing the shared libraries containerd and runc need ($missing)."
        apt_install libseccomp2 libapparmor1 libbtrfs0
    }
}

# unpack_packages DIR: the packages' programs into DIR/bin, the CNI plugins into DIR/cni. Chained by &&, for bash does
# not stop at an error in a function whose outcome is asked for.
unpack_packages() (
    cd "$1" && mapfile -t packages <"$CVO_ROOT/hack/lib/node-packages.txt" || exit
    download() { apt-get -o APT::Sandbox::User=root download -qq "${packages[@]}"; }
    download 2>/dev/null || { apt-get update -qq && download; } || exit
    for deb in *.deb; do dpkg -x "$deb" unpacked || exit; done
    mkdir bin cni &&
        cp -a unpacked/usr/bin/{containerd,containerd-shim-runc-v2,ctr,docker-registry} unpacked/usr/sbin/runc bin/ &&
        cp -a unpacked/usr/lib/cni/. cni/ &&
        rm -rf unpacked ./*.deb
)

# install_commands NAME...: small programs of the host: `ip` makes the network of a node, `gpg` signs releases, `readelf`
# looks into programs.
install_commands() {
    local name packages=()
    for name in "$@"; do
        command -v "$name" >/dev/null && continue
        case $name in
            ip) packages+=(iproute2) ;;
            gpg) packages+=(gnupg) ;;
            readelf) packages+=(binutils) ;;
            *) failed "no package is known for $name" ;;
        esac
    done
    [ ${#packages[@]} = 0 ] || { say "Installing ${packages[*]}."; apt_install "${packages[@]}"; }
}

apt_install() {
    [ "$(id -u)" = 0 ] || lacking "please install: $*  (sudo apt-get install $*)"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } ||
        lacking "apt-get could not install: $*"
}

# workshop NAME: makes a folder in the cache to build in, and sets WORKSHOP to it. What becomes of it goes by `keep`; it is
# removed when the script ends before, and a later run removes those of runs that were killed, a day old.
workshop() {
    find "$CVO_CACHE" -maxdepth 1 -type d -name ".$1.??????" -mmin +1440 -exec rm -rf {} + || true
    WORKSHOP=$(mktemp -d "$CVO_CACHE/.$1.XXXXXX")
    at_exit rm -rf "$WORKSHOP"
}

# keep TMP DIR: makes a finished directory visible under its name in one step; another run may have been faster.
keep() {
    chmod 755 "$1"
    mv -T "$1" "$2" 2>/dev/null || { [ -d "$2" ] && rm -rf "$1"; }
}

# install_cluster_tools: all of the above that clusters with a node and signed releases need.
install_cluster_tools() {
    require_linux
    install_commands ip gpg
    install_go_tools
    install_node_tools
}
