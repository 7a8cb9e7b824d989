# Installs what is needed to build cvo, and builds it. To be sourced after prerequisites.sh.

# The Rust that the project is built and tested with. Another version makes other bytes of the same source.
RUST_VERSION=1.95.0

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
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain "$RUST_VERSION" --no-modify-path >/dev/null 2>&1 ||
            lacking "rustup could not install Rust: install $RUST_VERSION (https://rustup.rs)"
        PATH=$PATH:$HOME/.cargo/bin
    }
    local have
    have=$(rustc -V | awk '{print $2}')
    [ "$have" = "$RUST_VERSION" ] && return
    if command -v rustup >/dev/null; then
        grep -q "^$RUST_VERSION-" <<<"$(rustup toolchain list)" || {
            say "Installing Rust $RUST_VERSION with rustup, beside $have: once, about a minute."
            rustup toolchain install "$RUST_VERSION" --profile minimal >/dev/null 2>&1 ||
                lacking "rustup could not install Rust $RUST_VERSION"
        }
        export RUSTUP_TOOLCHAIN=$RUST_VERSION
        return
    fi
    [ "$(printf '%s\n%s\n' "$RUST_VERSION" "$have" | sort -V | sed -n 1p)" = "$RUST_VERSION" ] ||
        lacking "Rust is $have, $RUST_VERSION or newer is needed: https://rustup.rs"
    say "Rust is $have instead of $RUST_VERSION: a release build of it has other bytes."
}

# install_rust_tool NAME VERSION: builds a program from crates.io into the cache and sets RUST_TOOL to it. A few minutes, once.
install_rust_tool() {
    local dir=$CVO_CACHE/$1-$2 started=$SECONDS tmp
    RUST_TOOL=$dir/bin/$1
    [ -x "$RUST_TOOL" ] && return
    say "Building $1 $2 into $dir: once, 2 to 5 minutes on 2 cores."
    mkdir -p "$CVO_CACHE" && require_disk 3 "$CVO_CACHE"
    build_folder "$1" && tmp=$BUILD_FOLDER
    # Not in the project, whose .cargo/config.toml is for cvo alone.
    build_rust_tool() {
        cd "$tmp" && CARGO_TARGET_DIR=$tmp/target cargo install --quiet --locked --debug --no-track --root "$tmp" "$1@$2" >&2
    }
    watched build_rust_tool "$1" "$2" || failed "building $1 failed, see above"
    rm -rf "$tmp/target"
    keep "$tmp" "$dir"
    say "  built after $((SECONDS - started)) s"
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
    build_in_project() {
        cd "$CVO_ROOT"
        [[ " $* " != *" --profile release "* ]] || hide_paths
        cargo build --quiet --locked "$@"
    }
    watched build_in_project "$@"
}

# hide_paths: makes the programs that are compiled from here on the same wherever source, registry and target folder are: their
# paths would be in messages of panics and of assertions in C.
hide_paths() {
    local cargo=${CARGO_HOME:-$HOME/.cargo} pair rust=() c=()
    # Of several that match the last one counts, and the target folder may be one in the source folder.
    for pair in "$CVO_ROOT=/source" "$cargo=/cargo" "$(target_dir)=/target"; do
        # C compilers are given their flags in one variable, which is split at spaces.
        [[ $pair != *[[:space:]]* ]] || { say "warning: ${pair%%=*} will be in the program: use a path without spaces"; continue; }
        rust+=("--remap-path-prefix=$pair") c+=("-ffile-prefix-map=$pair")
    done
    # They replace those of .cargo/config.toml.
    rust+=(-C target-feature=+crt-static)
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf '%s' "${rust[*]}")
    export CARGO_ENCODED_RUSTFLAGS CFLAGS="${CFLAGS:-} ${c[*]}"
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
