# Installs what is needed to build cvo, and builds it. To be sourced after prerequisites.sh.

# install_rust: a C compiler (for the cryptography) and, if there is no cargo, Rust by rustup into ~/.cargo. About a minute.
install_rust() {
    local packages=()
    # Where rustup installs it, in case the shell has not read its profile since.
    [ ! -d "$HOME/.cargo/bin" ] || PATH=$PATH:$HOME/.cargo/bin
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    command -v cargo >/dev/null || command -v curl >/dev/null || packages+=(curl ca-certificates)
    [ ${#packages[@]} = 0 ] || { say "Installing ${packages[*]}."; apt_install "${packages[@]}"; }
    command -v cargo >/dev/null || {
        say "Installing Rust with rustup into ~/.cargo: once, about a minute."
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path >/dev/null 2>&1 ||
            lacking "rustup could not install Rust: install 1.95 or newer (https://rustup.rs)"
        PATH=$PATH:$HOME/.cargo/bin
    }
    local have
    have=$(rustc -V | awk '{print $2}')
    [ "$(printf '1.95\n%s\n' "$have" | sort -V | head -1)" = 1.95 ] ||
        lacking "Rust is $have, 1.95 or newer is needed: rustup update stable"
}

# target_dir: prints cargo's target directory as an absolute path.
target_dir() {
    local target=${CARGO_TARGET_DIR:-target}
    [[ $target == /* ]] || target=$CVO_ROOT/$target
    printf '%s\n' "$target"
}

# programs_dir [PROFILE]: prints the folder of the built programs.
programs_dir() {
    local profile=${1:-dev}
    printf '%s/%s/%s\n' "$(target_dir)" "$(rustc -vV | awk '/^host:/ {print $2}')" "${profile/#dev/debug}"
}

# cargo_build ARGUMENT...: builds in the project's folder; the caller handles failures.
cargo_build() {
    build_in_project() { cd "$CVO_ROOT" && cargo build --quiet --locked "$@"; }
    watched build_in_project "$@"
}

# build_programs [PROFILE]: builds cvo and lab, by default with the profile of tests. 5 to 15 minutes at first on 2 cores. Sets
# PROGRAMS to their folder.
build_programs() {
    local started=$SECONDS profile=${1:-dev}
    say "Building cvo and lab (profile $profile): 5 to 15 minutes at first on 2 cores, seconds when nothing changed."
    cargo_build --profile "$profile" --workspace --bins || failed "cargo build failed, see above"
    PROGRAMS=$(programs_dir "$profile")
    say "  built after $((SECONDS - started)) s"
}

# sweep_clusters: removes clusters whose owner was killed. There are none before the lab was built.
sweep_clusters() {
    local lab
    lab=$(programs_dir)/lab
    [ ! -x "$lab" ] || "$lab" cluster sweep || say "error: clusters of killed tests could not be removed, see above"
}
