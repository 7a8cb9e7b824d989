# Installs what a test cluster needs. To be sourced: `. hack/lib/prerequisites.sh`; needs bash with `set -euo pipefail`.
#
# Everything goes into one cache folder, in directories named after the content of what they were made from, so that
# a fresh clone finds what an older one built, and a changed pin builds anew. e2e/harness/toolbox.rs computes the
# same names. Nothing is started, and nothing outside the cache folder is changed, save for missing shared libraries
# and gnupg, which apt installs.

CVO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CVO_CACHE=${CVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cvo}

# Exit codes of all scripts here: 64 wrong usage, 69 the machine lacks something.
say() { printf '%s\n' "$*" >&2; }
lacking() { say "error: $*"; exit 69; }

content_key() { cat "$@" | sha256sum | cut -c1-12; }

# Where the Go tools (etcd, kube-*, kubelet, kubectl, kwok) are or will be.
go_tools_dir() { printf '%s/tools-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/e2e/tools/go.mod "$CVO_ROOT"/e2e/tools/go.sum)"; }

# Where containerd, runc, the CNI plugins and the registry are or will be.
node_tools_dir() { printf '%s/node-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/hack/lib/node-packages.txt)"; }

# require_linux: test clusters run kubelet and containerd, which are Linux programs.
require_linux() {
    [ "$(uname -s)" = Linux ] || lacking "a test cluster needs Linux, this is $(uname -s)"
}

# require_root: a node mounts file systems, makes cgroups and bridges.
require_root() {
    [ "$(id -u)" = 0 ] || lacking "a cluster with a node needs root (it mounts, and makes cgroups and bridges): run it with sudo, or without --node"
}

# require_disk GIB [DIR]: at least so much free space where clusters and the cache live.
require_disk() {
    local want=$1 dir=${2:-${TMPDIR:-/tmp}} free
    free=$(df -Pk "$dir" | awk 'NR==2 {print int($4 / 1048576)}')
    [ "$free" -ge "$want" ] || lacking "$dir has $free GiB free, $want GiB are needed: free some, or set TMPDIR to a roomier place"
}

# install_go_tools: builds the pinned Go tools once. About 5 minutes on 2 cores, 0.5 GB kept (and 2 GB of Go's own cache).
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
    say "Building etcd, Kubernetes $version and kwok from e2e/tools into $dir: once, about 5 minutes on 2 cores."
    tmp=$(mktemp -d "$CVO_CACHE/.tools.XXXXXX")
    while read -r name package; do
        started=$SECONDS
        (cd "$CVO_ROOT/e2e/tools" && CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "$tmp/$name" "$package") ||
            { rm -rf "$tmp"; lacking "building $name ($package) failed, see above"; }
        say "  $name: $((SECONDS - started)) s"
    done < <(go_tools)
    keep "$tmp" "$dir"
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
        tmp=$(mktemp -d "$CVO_CACHE/.node.XXXXXX")
        unpack_packages "$tmp" || { rm -rf "$tmp"; lacking "fetching or unpacking the Debian packages failed, see above"; }
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

# install_commands: small programs of the host that the cluster or the release tools call.
install_commands() {
    local packages=()
    command -v ip >/dev/null || packages+=(iproute2)
    command -v gpg >/dev/null || packages+=(gnupg)
    [ ${#packages[@]} = 0 ] || { say "Installing ${packages[*]}."; apt_install "${packages[@]}"; }
}

apt_install() {
    [ "$(id -u)" = 0 ] || lacking "please install: $*  (sudo apt-get install $*)"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } ||
        lacking "apt-get could not install: $*"
}

# keep TMP DIR: makes a finished directory visible under its name in one step; another run may have been faster.
keep() {
    chmod 755 "$1"
    mv -T "$1" "$2" 2>/dev/null || { [ -d "$2" ] && rm -rf "$1"; }
}

# install_cluster_tools: all of the above.
install_cluster_tools() {
    require_linux
    install_commands
    install_go_tools
    install_node_tools
}
