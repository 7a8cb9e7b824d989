# What a script does when it ends early. To be sourced; needs bash with `set -euo pipefail`.
#
# A long command runs in a process group of its own (`watched`): bash hears a signal at once only while it waits for a
# command in the background, and nothing of what the command started may outlive the script.

# Quoted commands, for the end of the script.
AT_EXIT=()
# Process id of what is watched, which is its group's too; the exit code once a signal came.
WATCHED='' STOPPED=''

trap leave EXIT
trap 'interrupted INT 130' INT
trap 'interrupted TERM 143' TERM
# The terminal is gone.
trap 'interrupted TERM 129' HUP

# at_exit COMMAND...: runs it when the script ends, in whichever way but `exec` and SIGKILL; the last one first.
at_exit() { AT_EXIT+=("$(printf '%q ' "$@")"); }

leave() {
    local i
    for ((i = ${#AT_EXIT[@]} - 1; i >= 0; i--)); do eval "${AT_EXIT[i]}" || true; done
}

# interrupted SIGNAL CODE: the first signal is handed on, so that what runs can clean up; the second ends it at once.
interrupted() {
    [ -n "$WATCHED" ] || exit "$2"
    [ -z "$STOPPED" ] || set -- KILL "$2"
    STOPPED=$2
    kill -s "$1" -- "-$WATCHED" 2>/dev/null || true
}

# watched COMMAND...: runs it, and returns as it does. Does not return when a signal came: ends the script.
watched() {
    local status=0
    [ -z "$STOPPED" ] || exit "$STOPPED"
    # Gives it a group of its own.
    set -m
    "$@" &
    WATCHED=$!
    set +m
    # A signal ends `wait` before the command.
    while
        status=0
        wait "$WATCHED" || status=$?
        [ -n "$STOPPED" ] && kill -0 "$WATCHED" 2>/dev/null
    do :; done
    [ "$status" = 0 ] && [ -z "$STOPPED" ] || end_group "$WATCHED"
    [ -z "$STOPPED" ] || exit "$STOPPED"
    WATCHED=''
    return "$status"
}

# end_group ID: ends what a command left behind. These are no children of the script, so there is no event to wait for.
end_group() {
    local _
    for _ in {1..100}; do
        kill -KILL -- "-$1" 2>/dev/null && group_runs "$1" || return 0
        sleep 0.05
    done
    say "error: process group $1 does not end"
}

# group_runs ID: whether it has a process that is no zombie. Those may stay for long where process 1 is no init.
group_runs() {
    { cat /proc/[0-9]*/stat 2>/dev/null || true; } |
        awk -v group="$1" '{ sub(/^.*\) /, "") } $3 == group && $1 !~ /[ZX]/ { runs = 1 } END { exit !runs }'
}
