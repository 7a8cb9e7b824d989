# Runs checks one after the other and counts their results. To be sourced after prerequisites.sh and rust.sh.
# An interrupt ends the running check and the script.
#
# Every check is either a single test (format, clippy) or a run of `cargo test`, whose "test result:" lines are added up. A
# run that fails without a failed test, or succeeds without any result, counts as one failure: zero tests must not pass.

PASSED=0 FAILED=0 SKIPPED=0
CHECKS=$(mktemp -d "${TMPDIR:-/tmp}/cvo-checks.XXXXXX")
at_exit rm -rf "$CHECKS"
# Titles of the checks that failed, and tests that passed only when they were run once more.
BAD=() UNSTEADY=()

# begin TITLE: prints the title and starts the clock.
begin() {
    BEGUN=$SECONDS TITLE=$1
    printf '\n== %s\n' "$TITLE"
}

# ended RESULT: prints the result and the time it took.
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

# tests [--once-more] TITLE MINUTES COMMAND...: a run of cargo test with a time limit. Tests that print "skipped:"
# and ignored tests count as skipped. The command must run with --show-output, or with --nocapture on one thread, so that the
# output shows which test printed it. With --once-more at most four tests that failed are run once more: see there.
tests() {
    local repeat=''
    [ "$1" != --once-more ] || { repeat=1; shift; }
    local title=$1 minutes=$2 status=0 log=$CHECKS/log passed failed ignored skipped
    shift 2
    begin "$title"
    run_tests "$minutes" "$@" || status=$?
    read -r passed failed ignored skipped < <(awk '
        /^test result: / { passed += $4; failed += $6; ignored += $8; test = "" }
        /^---- .* stdout ----$/ || /^test .* \.\.\. / { test = $2 }
        /^(test .* \.\.\. )?skipped: / { said[test] }
        END { for (test in said) skipped++; print passed + 0, failed + 0, ignored + 0, skipped + 0 }' "$log")
    # A failed test counts as failed, even if it skipped something.
    [ "$skipped" -le "$passed" ] || skipped=$passed
    if [ "$failed" = 0 ] && [ "$status" = 0 ] && [ $((passed + ignored)) = 0 ]; then
        echo "error: there were no such tests"
        failed=1
    fi
    [ "$failed" != 0 ] || { [ "$status" = 0 ] && grep -q '^test result: ' "$log"; } || failed=1
    PASSED=$((PASSED + passed - skipped))
    FAILED=$((FAILED + failed))
    SKIPPED=$((SKIPPED + skipped + ignored))
    slowest
    [ "$failed" = 0 ] || why_failed
    if [ -n "$repeat" ] && once_more "$failed" "$minutes" "$@"; then
        PASSED=$((PASSED + failed)) FAILED=$((FAILED - failed)) passed=$((passed + failed)) failed=0
    fi
    if [ "$failed" = 0 ]; then
        ended "$((passed - skipped)) passed, $((skipped + ignored)) skipped"
    else
        BAD+=("$title")
        ended "$failed FAILED, $passed passed"
    fi
}

# run_tests MINUTES COMMAND...: the run itself, with its output in $CHECKS/log.
run_tests() {
    local minutes=$1 status=0 pipe=$CHECKS/pipe reader
    shift
    # `timeout` ends its whole process group, which must not contain the reader of its output.
    rm -f "$pipe" && mkfifo "$pipe"
    tee "$CHECKS/log" <"$pipe" | without_successes &
    reader=$!
    watched into "$pipe" timeout --kill-after=30 "${minutes}m" "$@" || status=$?
    wait "$reader" || true
    [ "$status" != 124 ] || printf 'ended after %d minutes\n' "$minutes"
    return "$status"
}

# once_more FAILED MINUTES COMMAND...: runs the tests of the last run that failed once more, one at a time; succeeds if all of them
# pass then. End-to-end tests share a small machine with two others and have limits of time. They are named at the end, since
# each of them has something to be found out, and more than four of a hundred are no accident.
once_more() {
    local failed=$1 minutes=$2 names
    shift 2
    mapfile -t names < <(sed -n -E 's/^test ([^ ]+) \.\.\. FAILED.*/\1/p' "$CHECKS/log")
    [ "$failed" -ge 1 ] && [ "$failed" -le 4 ] && [ "${#names[@]}" = "$failed" ] || return 1
    echo "Once more, one at a time: ${names[*]}"
    RUST_TEST_THREADS=1 run_tests "$minutes" "$@" --exact "${names[@]}" || return 1
    grep -q "^test result: ok\. $failed passed" "$CHECKS/log" || return 1
    UNSTEADY+=("${names[@]}")
}

# slowest: prints the ten tests of the last run that took longest, where it was run with TEST_TIMES.
slowest() {
    local list
    list=$(sed -n -E 's/^test ([^ ]+) \.\.\. .*<([0-9]+)\.[0-9]+s>$/\2 s  \1/p' "$CHECKS/log" | sort -rn | sed -n 1,10p)
    [ -z "$list" ] || printf 'The longest:\n%s\n' "$list"
}

# why_failed: says again of each test of the last run that failed why it did and what it printed last, so that who reads the
# end of a long log does not have to look for it. What follows a panic is long, and its end says more than its middle.
why_failed() {
    awk '
        function tell() {
            for (i = 1; i <= lines; i++) {
                if (i <= 6 || i > lines - 20) print "   " after[i]
                else if (i == 7) print "   […]"
            }
            lines = 0
        }
        /^---- .* stdout ----$/ { tell(); test = $2; said = 0; quiet = 0; next }
        /^successes:$/ { tell(); quiet = 1 }
        /^failures:$/ { tell(); test = ""; quiet = 0; next }
        quiet || !test { next }
        /^stack backtrace:$/ || /^note: / { tell(); test = ""; next }
        / panicked at / { tell(); print "-- why " test " failed:"; for (i = said > 8 ? said - 8 : 0; i < said; i++) print "   " last[i]; printing = test }
        printing == test { after[++lines] = substr($0, 1, 400); next }
        { last[said++] = substr($0, 1, 300) }
        END { tell() }' "$CHECKS/log"
}

# allow_test_times: sets TEST_TIMES to arguments by which test programs print the seconds of each test. Stable Rust does that
# only if it is told that it may; only the test programs are, because in cargo's own environment it would compile everything anew.
allow_test_times() {
    local host
    host=$(rustc -vV | awk '/^host:/ {print toupper($2)}')
    export "CARGO_TARGET_${host//-/_}_RUNNER=env RUSTC_BOOTSTRAP=1"
    TEST_TIMES=(-Z unstable-options --report-time)
}

# into FILE COMMAND...: replaces itself by the command with its output in FILE. A redirection of `watched` would also redirect
# the output of commands that run when the script ends.
into() {
    local file=$1
    shift
    exec "$@" >"$file" 2>&1
}

# Drops the output of tests that passed, except what they skipped.
without_successes() {
    awk '
        /^successes:$/ { quiet = 1 }
        /^failures:$/ || /^test result: / { quiet = 0 }
        /^---- .* stdout ----$/ { test = $2 }
        quiet && /^skipped: / { print "skipped: " test ": " substr($0, 10) }
        !quiet { print; fflush() }'
}

# verdict: prints the last line; the status is the exit code.
verdict() {
    local line="$PASSED passed, $FAILED failed"
    [ "$SKIPPED" = 0 ] || line+=", $SKIPPED skipped"
    printf '\nTook %d min %d s.' $((SECONDS / 60)) $((SECONDS % 60))
    [ ${#BAD[@]} = 0 ] || printf ' Failed: %s.' "$(IFS=,; echo "${BAD[*]}")"
    [ ${#UNSTEADY[@]} = 0 ] || printf ' Unsteady, passed only once more: %s.' "${UNSTEADY[*]}"
    printf '\n%s\n' "$line"
    [ "$FAILED" = 0 ]
}

# install_rust_components: installs what a minimal Rust lacks.
install_rust_components() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    command -v rustup >/dev/null || lacking "cargo fmt or cargo clippy is missing: install rustfmt and clippy of your Rust"
    say "Installing rustfmt and clippy with rustup: once, some seconds."
    rustup component add rustfmt clippy >/dev/null 2>&1 || lacking "rustup could not install rustfmt and clippy"
}

# choose_target_dir: new clones and CI share one target directory; a working copy that has a target/ uses its own.
choose_target_dir() {
    [ -z "${CARGO_TARGET_DIR:-}" ] || return 0
    [ -n "${CI:-}" ] || [ ! -d "$CVO_ROOT/target" ] || return 0
    export CARGO_TARGET_DIR=$CVO_CACHE/target
    # To cargo each clone is a different package, so incremental data of one clone is useless for the others.
    export CARGO_INCREMENTAL=0
    mkdir -p "$CARGO_TARGET_DIR"
    # Removes programs of earlier clones, a hundred megabytes each, and keeps the dependencies.
    find "$CARGO_TARGET_DIR" -path '*/deps/*' -type f -mtime +1 \
        \( -name 'cvo-*' -o -name 'libcvo-*' -o -name 'lab-*' -o -name 'e2e-*' -o -name 'libe2e-*' \) -delete 2>/dev/null || true
}

# test_environment: sets variables for what tests find in the cache.
test_environment() {
    [ -n "${CVO_TEST_REGISTRY:-}" ] || export CVO_TEST_REGISTRY=$(node_tools_dir)/bin/docker-registry
    export CARGO_TERM_COLOR=never
}
