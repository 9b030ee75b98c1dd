# Runs a Postgres server that ends with its owner, however the owner ends.
#
#   sh watchdog.sh CLUSTER DOOMED DOOMED POSTGRES ARGS...   (standard input: a pipe the owner holds)
#
# The shell becomes the server, so the owner's child is the postmaster itself. A helper, detached
# so that the postmaster never reaps a child it does not know, waits for the pipe's end of file:
# the kernel closes the owner's side whatever kills the owner. It then asks the server for a fast
# shutdown and removes the two DOOMED (directories; empty for none).
#
# The helper signals only a process whose id is in the cluster's own postmaster.pid: an id that
# went to another program in the meantime is left alone.

cluster=$1
doomed=$2
doomed_too=$3
shift 3
exec 3<&0

( (
    read -r _ <&3
    tries=0
    while kill -0 $$ 2>/dev/null && [ "$tries" -lt 600 ]; do
        if read -r pid <"$cluster/postmaster.pid" && [ "$pid" -eq $$ ]; then
            kill -INT $$
        fi 2>/dev/null
        tries=$((tries + 1))
        sleep 0.1
    done
    [ -z "$doomed" ] || rm -rf "$doomed"
    [ -z "$doomed_too" ] || rm -rf "$doomed_too"
) & )

exec "$@" </dev/null 3<&-
