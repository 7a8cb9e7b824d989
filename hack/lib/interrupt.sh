# Cleans up when a script ends early. To be sourced; needs bash with `set -euo pipefail`.
#
# A long command runs in a separate process group (`watched`): bash handles a signal at once only while it waits for a
# command in the background, and nothing that the command started may outlive the script.

# Quoted commands to run when the script ends.
AT_EXIT=()
# Process id of the watched command, which is also the id of its group; the exit code after a signal.
WATCHED='' STOPPED=''

trap leave EXIT
trap 'interrupted INT 130' INT
trap 'interrupted TERM 143' TERM
# The terminal was closed.
trap 'interrupted TERM 129' HUP

# at_exit COMMAND...: runs it when the script ends, except by `exec` or SIGKILL; the last one first.
at_exit() { AT_EXIT+=("$(printf '%q ' "$@")"); }

leave() {
    local i
    for ((i = ${#AT_EXIT[@]} - 1; i >= 0; i--)); do eval "${AT_EXIT[i]}" || true; done
}

# interrupted SIGNAL CODE: forwards the first signal, so that the watched command can clean up; the second one kills it.
interrupted() {
    [ -n "$WATCHED" ] || exit "$2"
    [ -z "$STOPPED" ] || set -- KILL "$2"
    STOPPED=$2
    kill -s "$1" -- "-$WATCHED" 2>/dev/null || true
}

# watched COMMAND...: runs it and returns its status. After a signal it ends the script instead.
watched() {
    local status=0
    [ -z "$STOPPED" ] || exit "$STOPPED"
    # Gives the command a process group.
    set -m
    "$@" &
    WATCHED=$!
    set +m
    # `wait` may return because of a signal, before the command has ended.
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

# end_group ID: kills what a command left running. These are not children of the script, so it cannot wait for them.
end_group() {
    local _
    for _ in {1..100}; do
        kill -KILL -- "-$1" 2>/dev/null && group_runs "$1" || return 0
        sleep 0.05
    done
    say "error: process group $1 does not end"
}

# group_runs ID: whether the group has a process that is not a zombie. Zombies may stay where process 1 is not an init.
group_runs() {
    { cat /proc/[0-9]*/stat 2>/dev/null || true; } |
        awk -v group="$1" '{ sub(/^.*\) /, "") } $3 == group && $1 !~ /[ZX]/ { runs = 1 } END { exit !runs }'
}
