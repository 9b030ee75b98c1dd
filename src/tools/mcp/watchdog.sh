# See watchdog.rs.
read -r _
sleep 0.5
kill -TERM "-$1"
sleep 0.5
kill -KILL "-$1"
