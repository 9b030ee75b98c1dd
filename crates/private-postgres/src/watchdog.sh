# see watchdog.rs
cluster=$1
doomed=$2
doomed_too=$3
shift 3
exec 3<&0

( (
    read -r _ <&3
    asked=
    tries=0
    while kill -0 $$ && [ "$tries" -lt 600 ]; do
        if read -r pid <"$cluster/postmaster.pid"; then
            [ "$pid" -ne $$ ] || { kill -INT $$ && asked=1; }
        elif [ -n "$asked" ]; then
            break
        fi
        tries=$((tries + 1))
        sleep 0.1
    done
    [ -z "$doomed" ] || rm -rf "$doomed"
    [ -z "$doomed_too" ] || rm -rf "$doomed_too"
) >/dev/null 2>&1 & )

exec "$@" </dev/null 3<&-
