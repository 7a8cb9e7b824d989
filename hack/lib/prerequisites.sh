# Installs what test clusters need. To be sourced: `. hack/lib/prerequisites.sh`; needs bash with `set -euo pipefail`.
#
# Everything goes into one cache folder, in directories whose names contain a hash of what they were made from, so that a
# new clone finds what an older one built, and a changed version is built again. e2e/src/harness/toolbox.rs computes the
# same names. Nothing is started, and nothing outside the cache folder is changed, except that apt installs missing shared
# libraries and programs.

# Physical: to cargo a folder that links here would be another package, which it would compile again.
CVO_ROOT=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Absolute, because the scripts change the directory.
CVO_CACHE=$(realpath -m -- "${CVO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cvo}")
# The folder of real releases, if there is one.
if [ -z "${CVO_SHARED_DATA:-}" ] && [ -d "$CVO_ROOT/../shared/data" ]; then CVO_SHARED_DATA=$CVO_ROOT/../shared/data; fi
[ -z "${CVO_SHARED_DATA:-}" ] || { CVO_SHARED_DATA=$(realpath -m -- "$CVO_SHARED_DATA") && export CVO_SHARED_DATA; }

# Exit codes of all scripts here: 1 it failed, 64 wrong usage, 69 the machine lacks something.
say() { printf '%s\n' "$*" >&2; }
lacking() { say "error: $*"; exit 69; }
failed() { say "error: $*"; exit 1; }
. "$CVO_ROOT/hack/lib/interrupt.sh"

content_key() { cat "$@" | sha256sum | cut -c1-12; }

# go_tools_dir [MODULE]: the folder of the Go tools of e2e/tools (etcd, kube-*, kubelet, kubectl, kwok), or of another module.
go_tools_dir() {
    local module=$CVO_ROOT/${1:-e2e/tools}
    printf '%s/tools-%s\n' "$CVO_CACHE" "$(content_key "$module/go.mod" "$module/go.sum")"
}

# Folder of containerd, runc, the CNI plugins and the registry.
node_tools_dir() { printf '%s/node-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/hack/lib/node-packages.txt)"; }

# Folder of servers that clusters use: Prometheus with promtool, and a proxy.
service_tools_dir() { printf '%s/services-%s\n' "$CVO_CACHE" "$(content_key "$CVO_ROOT"/hack/lib/service-packages.txt)"; }

# require_linux: test clusters run kubelet and containerd, which are Linux programs.
require_linux() {
    [ "$(uname -s)" = Linux ] || lacking "a test cluster needs Linux, this is $(uname -s)"
}

# require_root [ALTERNATIVE]: a node mounts file systems and makes cgroups and bridges.
require_root() {
    [ "$(id -u)" = 0 ] || lacking "a cluster with a node needs root (it mounts file systems and makes cgroups and bridges): run it with sudo${1:+, or $1}"
}

# require_disk GIB [DIR]: requires so much free space, by default where clusters are.
require_disk() {
    local want=$1 dir=${2:-${TMPDIR:-/tmp}} free
    free=$(df -Pk "$dir" | awk 'NR==2 {print int($4 / 1048576)}')
    [ "$free" -ge "$want" ] || lacking "$dir has $free GiB free, $want GiB are needed: free some, or set TMPDIR to another disk"
}

# install_go_tools [MODULE]: builds the pinned Go tools of e2e/tools once, or of another module. Those with Kubernetes take 5 to 15
# minutes on 2 cores, 0.5 GB kept (and 2 GB of Go's own cache).
install_go_tools() {
    local module=${1:-e2e/tools} dir tmp version ldflags duration started name package
    dir=$(go_tools_dir "$module")
    [ -d "$dir" ] && return
    command -v go >/dev/null || lacking "the cluster tools are built from source: install Go 1.26 or newer (https://go.dev/dl)"
    mkdir -p "$CVO_CACHE" && require_disk 5 "$CVO_CACHE"
    version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$CVO_ROOT/$module/go.mod")
    ldflags="-s -w" duration="1 minute"
    if [ -n "$version" ]; then
        # Without these the API server reports v0.0.0, which misleads clients that depend on the version.
        ldflags+=" -X k8s.io/component-base/version.gitVersion=$version"
        ldflags+=" -X k8s.io/component-base/version.gitMajor=$(cut -d. -f1 <<<"${version#v}")"
        ldflags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
        duration="5 to 15 minutes"
    fi
    say "Building the programs of $module${version:+, with Kubernetes $version}, into $dir: once, $duration on 2 cores."
    build_folder tools && tmp=$BUILD_FOLDER
    while read -r name package; do
        started=$SECONDS
        watched build_go_tool "$module" "$ldflags" "$tmp/$name" "$package" </dev/null ||
            failed "building $name ($package) failed, see above"
        say "  $name: $((SECONDS - started)) s"
    done < <(go_tools "$module")
    keep "$tmp" "$dir"
}

# build_go_tool MODULE LDFLAGS PROGRAM PACKAGE
build_go_tool() {
    cd "$CVO_ROOT/$1" && CGO_ENABLED=0 go build -trimpath -ldflags "$2" -o "$3" "$4"
}

# go_tools MODULE: name and package of each tool, read from the `tool` directives of its go.mod.
go_tools() {
    awk '/^tool \(/ {on = 1; next} /^\)/ {on = 0} on {print $1}' "$CVO_ROOT/$1/go.mod" | while read -r package; do
        case $package in
            # The last element of etcd's package path is the module's major version.
            go.etcd.io/etcd/server/v3) printf 'etcd %s\n' "$package" ;;
            *) printf '%s %s\n' "${package##*/}" "$package" ;;
        esac
    done
}

# install_node_tools: unpacks Debian's containerd, runc, CNI plugins and registry. Takes seconds, keeps 200 MB. Installed
# packages would start services and affect the whole machine; unpacked ones are only files.
install_node_tools() {
    local dir tmp missing
    dir=$(node_tools_dir)
    if ! [ -d "$dir" ]; then
        command -v apt-get >/dev/null || lacking "containerd, runc, CNI plugins and the registry come from Debian packages: this machine has no apt-get"
        mkdir -p "$CVO_CACHE" && require_disk 2 "$CVO_CACHE"
        say "Unpacking Debian's $(tr '\n' ' ' <"$CVO_ROOT/hack/lib/node-packages.txt")into $dir: once, some seconds."
        build_folder node && tmp=$BUILD_FOLDER
        unpack_packages "$tmp" || failed "fetching or unpacking the Debian packages failed, see above"
        keep "$tmp" "$dir"
    fi
    missing=$(ldd "$dir"/bin/* 2>/dev/null | awk '/not found/ {print $1}' | sort -u | tr '\n' ' ')
    [ -z "$missing" ] || {
        say "Installing the shared libraries containerd and runc need ($missing)."
        apt_install libseccomp2 libapparmor1 libbtrfs0
    }
}

# install_service_tools: unpacks Debian's Prometheus and tinyproxy in the same way. Keeps 200 MB.
install_service_tools() {
    local dir tmp
    dir=$(service_tools_dir)
    [ -d "$dir" ] && return
    command -v apt-get >/dev/null || lacking "Prometheus and tinyproxy come from Debian packages: this machine has no apt-get"
    mkdir -p "$CVO_CACHE" && require_disk 2 "$CVO_CACHE"
    say "Unpacking Debian's $(tr '\n' ' ' <"$CVO_ROOT/hack/lib/service-packages.txt")into $dir: once, some seconds."
    build_folder services && tmp=$BUILD_FOLDER
    unpack_services "$tmp" || failed "fetching or unpacking the Debian packages failed, see above"
    keep "$tmp" "$dir"
}

# download_packages LIST DIR: the packages in the list, unpacked below DIR/unpacked. Chained by &&, because `set -e` has no
# effect in a function whose status is tested.
download_packages() (
    cd "$2" && mapfile -t packages <"$1" || exit
    download() { apt-get -o APT::Sandbox::User=root download -qq "${packages[@]}"; }
    download 2>/dev/null || { apt-get update -qq && download; } || exit
    for deb in *.deb; do dpkg -x "$deb" unpacked || exit; done
    rm -f ./*.deb
)

# unpack_packages DIR: the programs for nodes into DIR/bin, the CNI plugins into DIR/cni.
unpack_packages() (
    download_packages "$CVO_ROOT/hack/lib/node-packages.txt" "$1" && cd "$1" && mkdir bin cni &&
        cp -a unpacked/usr/bin/{containerd,containerd-shim-runc-v2,ctr,docker-registry} unpacked/usr/sbin/runc bin/ &&
        cp -a unpacked/usr/lib/cni/. cni/ &&
        rm -rf unpacked
)

# unpack_services DIR: the servers into DIR/bin.
unpack_services() (
    download_packages "$CVO_ROOT/hack/lib/service-packages.txt" "$1" && cd "$1" && mkdir bin &&
        cp -a unpacked/usr/bin/{prometheus,promtool,tinyproxy} bin/ &&
        rm -rf unpacked
)

# install_commands NAME...: installs small programs: `ip` makes the network of a node, `gpg` signs releases, `readelf`
# inspects programs, `chromium` looks at the live page, `zstd` unpacks what is collected.
install_commands() {
    local name packages=()
    for name in "$@"; do
        command -v "$name" >/dev/null && continue
        case $name in
            ip) packages+=(iproute2) ;;
            gpg) packages+=(gnupg) ;;
            readelf) packages+=(binutils) ;;
            chromium) packages+=(chromium) ;;
            zstd) packages+=(zstd) ;;
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

# build_folder NAME: makes a folder in the cache to build in, and sets BUILD_FOLDER to it. `keep` makes the result permanent. The
# folder is removed when the script ends before that; folders of killed runs are removed by a later run after a day.
build_folder() {
    find "$CVO_CACHE" -maxdepth 1 -type d -name ".$1.??????" -mmin +1440 -exec rm -rf {} + || true
    BUILD_FOLDER=$(mktemp -d "$CVO_CACHE/.$1.XXXXXX")
    at_exit rm -rf "$BUILD_FOLDER"
}

# keep TMP DIR: renames a finished directory atomically. Another run may have been faster.
keep() {
    chmod 755 "$1"
    mv -T "$1" "$2" 2>/dev/null || { [ -d "$2" ] && rm -rf "$1"; }
}

# install_cluster_tools: installs what clusters with a node and signed releases need.
install_cluster_tools() {
    require_linux
    install_commands ip gpg
    install_go_tools
    install_node_tools
    install_service_tools
}
