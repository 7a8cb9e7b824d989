# Installs what building cvo needs. To be sourced after prerequisites.sh.

# install_rust: a C compiler (for the cryptography) and, if there is no cargo, Rust by rustup into ~/.cargo. About a minute.
install_rust() {
    local packages=()
    # Also where rustup put it when the shell has not read its profile since.
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

# build_programs [PROFILE]: cvo and lab, for testing, or in another profile. 15 minutes at first on 2 cores, later what
# changed. Sets PROGRAMS to their folder.
build_programs() {
    local started=$SECONDS profile=${1:-dev} folder target
    folder=${profile/#dev/debug}
    target=$(rustc -vV | awk '/^host:/ {print $2}')
    say "Building cvo and lab (profile $profile): 15 minutes at first on 2 cores, seconds when nothing changed."
    (cd "$CVO_ROOT" && cargo build --quiet --locked --profile "$profile" --bins) || lacking "cargo build failed, see above"
    PROGRAMS=$(cd "$CVO_ROOT" && cd "${CARGO_TARGET_DIR:-target}/$target/$folder" && pwd)
    say "  built after $((SECONDS - started)) s"
}
