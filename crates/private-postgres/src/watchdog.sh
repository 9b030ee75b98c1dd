# see watchdog.rs
cluster=$1
folder_1=$2
folder_2=$3
shift 3
exec 3<&0

( (
    # A line dismisses the watchdog; only the end of the owner is an end of file without one.
    read -r _ <&3 && exit
    requested=
    checks=0
    while kill -0 $$ && [ "$checks" -lt 600 ]; do
        if read -r pid <"$cluster/postmaster.pid"; then
            [ "$pid" -ne $$ ] || { kill -INT $$ && requested=1; }
        elif [ -n "$requested" ]; then
            break
        fi
        checks=$((checks + 1))
        sleep 0.1
    done
    [ -z "$folder_1" ] || rm -rf "$folder_1"
    [ -z "$folder_2" ] || rm -rf "$folder_2"
) >/dev/null 2>&1 & )

exec "$@" </dev/null 3<&-
