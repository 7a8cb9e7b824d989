# Runs checks one after the other and counts what came of them. To be sourced after prerequisites.sh and rust.sh.
# An interrupt ends the check that runs, and the script.
#
# Every check is either one test of its own (format, clippy) or a run of `cargo test`, whose "test result:" lines are
# added up. A run that ends badly without a failed test, or well without any result, counts as one failure: a count of
# nothing must not pass, unless it is said that there may be none.

PASSED=0 FAILED=0 SKIPPED=0
CHECKS=$(mktemp -d "${TMPDIR:-/tmp}/cvo-checks.XXXXXX")
at_exit rm -rf "$CHECKS"
# What failed, for the end of the run.
BAD=()

# begin TITLE: says what comes, and starts its clock.
begin() {
    BEGUN=$SECONDS TITLE=$1
    printf '\n== %s\n' "$TITLE"
}

# ended: says how long it took.
ended() { printf -- '-- %s: %s, %d s\n' "$TITLE" "$1" $((SECONDS - BEGUN)); }

# check TITLE COMMAND...: one test, passed if the command succeeds.
check() {
    begin "$1"
    shift
    if watched "$@"; then
        PASSED=$((PASSED + 1))
        ended ok
    else
        FAILED=$((FAILED + 1))
        BAD+=("$TITLE")
        ended FAILED
    fi
}

# tests [--or-none] TITLE MINUTES COMMAND...: a run of cargo test, ended after so long. Tests that print "skipped:" count as skipped,
# and so do those that are ignored. The command must run with --show-output, or with --nocapture on one thread, so that it
# is seen which test said so.
tests() {
    local none=''
    [ "$1" != --or-none ] || { none=1; shift; }
    local title=$1 minutes=$2 status=0 log=$CHECKS/log pipe=$CHECKS/pipe reader passed failed ignored skipped
    shift 2
    begin "$title"
    # `timeout` apart from what reads its output: it ends its whole group.
    rm -f "$pipe" && mkfifo "$pipe"
    tee "$log" <"$pipe" | without_successes &
    reader=$!
    watched into "$pipe" timeout --kill-after=30 "${minutes}m" "$@" || status=$?
    wait "$reader" || true
    [ "$status" != 124 ] || printf 'ended after %d minutes\n' "$minutes"
    read -r passed failed ignored skipped < <(awk '
        /^test result: / { passed += $4; failed += $6; ignored += $8; test = "" }
        /^---- .* stdout ----$/ || /^test .* \.\.\. / { test = $2 }
        /^(test .* \.\.\. )?skipped: / { said[test] }
        END { for (test in said) skipped++; print passed + 0, failed + 0, ignored + 0, skipped + 0 }' "$log")
    # A test that failed is counted there, whatever it skipped before.
    [ "$skipped" -le "$passed" ] || skipped=$passed
    if [ "$failed" = 0 ] && [ "$status" = 0 ] && [ $((passed + ignored)) = 0 ] && [ -z "$none" ]; then
        echo "error: there were no such tests"
        failed=1
    fi
    [ "$failed" != 0 ] || { [ "$status" = 0 ] && grep -q '^test result: ' "$log"; } || failed=1
    PASSED=$((PASSED + passed - skipped))
    FAILED=$((FAILED + failed))
    SKIPPED=$((SKIPPED + skipped + ignored))
    if [ "$failed" = 0 ]; then
        ended "$((passed - skipped)) passed, $((skipped + ignored)) skipped"
    else
        BAD+=("$title")
        ended "$failed FAILED, $passed passed"
    fi
}

# into FILE COMMAND...: becomes the command. Redirecting `watched` would redirect what the script does when it ends there.
into() {
    local file=$1
    shift
    exec "$@" >"$file" 2>&1
}

# Of tests that passed, only what they skipped is worth reading.
without_successes() {
    awk '
        /^successes:$/ { quiet = 1 }
        /^failures:$/ || /^test result: / { quiet = 0 }
        /^---- .* stdout ----$/ { test = $2 }
        quiet && /^skipped: / { print "skipped: " test ": " substr($0, 10) }
        !quiet { print; fflush() }'
}

# verdict: the last line, and the exit code.
verdict() {
    local line="$PASSED passed, $FAILED failed"
    [ "$SKIPPED" = 0 ] || line+=", $SKIPPED skipped"
    printf '\nTook %d min %d s.' $((SECONDS / 60)) $((SECONDS % 60))
    [ ${#BAD[@]} = 0 ] || printf ' Not well: %s.' "$(IFS=,; echo "${BAD[*]}")"
    printf '\n%s\n' "$line"
    [ "$FAILED" = 0 ]
}

# install_rust_components: what a minimal Rust lacks.
install_rust_components() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    command -v rustup >/dev/null || lacking "cargo fmt or cargo clippy is missing: install rustfmt and clippy of your Rust"
    say "Installing rustfmt and clippy with rustup: once, some seconds."
    rustup component add rustfmt clippy >/dev/null 2>&1 || lacking "rustup could not install rustfmt and clippy"
}

# choose_target_dir: a fresh clone and CI share what was compiled before; a working copy with a target/ keeps to its own.
choose_target_dir() {
    [ -z "${CARGO_TARGET_DIR:-}" ] || return 0
    [ -n "${CI:-}" ] || [ ! -d "$CVO_ROOT/target" ] || return 0
    export CARGO_TARGET_DIR=$CVO_CACHE/target
    # Each clone is a package of its own to cargo: what is incremental for one is only ballast for the next.
    export CARGO_INCREMENTAL=0
    mkdir -p "$CARGO_TARGET_DIR"
    # Our own programs of earlier clones, a hundred megabytes each, would pile up. Dependencies stay.
    find "$CARGO_TARGET_DIR" -path '*/deps/*' -type f -mtime +1 \
        \( -name 'cvo-*' -o -name 'libcvo-*' -o -name 'lab-*' -o -name 'e2e-*' -o -name 'libe2e-*' \) -delete 2>/dev/null || true
}

# test_environment: what tests find in the cache.
test_environment() {
    [ -n "${CVO_TEST_REGISTRY:-}" ] || export CVO_TEST_REGISTRY=$(node_tools_dir)/bin/docker-registry
    export CARGO_TERM_COLOR=never
}
