#!/bin/sh
# An MCP server that violates the protocol; the name of each tool says how. The server records in the
# folder $1 the messages that it receives (file `received`) and its processes (file `started`).
folder=$1
echo $$ >>"$folder/started"

respond() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { respond '"result":{"content":[{"type":"text","text":"'"$1"'"}]}'; }
tool() { printf '{"name":"%s","inputSchema":%s}' "$1" "${2:-{\"type\":\"object\"\}}"; }
receive() { IFS= read -r message && printf '%s\n' "$message" >>"$folder/received"; }

# A schema whose check doubles its work at each of 40 levels.
doubling() {
    printf '{"type":"object","$ref":"#/$defs/0","$defs":{'
    step=0
    while [ $step -lt 40 ]; do
        next='{"$ref":"#/$defs/'$((step + 1))'"}'
        printf '"%s":{"allOf":[%s,%s]},' $step "$next" "$next"
        step=$((step + 1))
    done
    printf '"40":{"required":["nothing"]}}}'
}

list() {
    if [ -e "$folder/endless" ]; then
        # The same page without end.
        respond '"result":{"tools":['"$(tool echo)"'],"nextCursor":"more"}'
        return
    fi
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[' "$id"
    tool echo
    for name in twice unknown_id noise garbage incomplete stderr requests null_id unknown_type \
        empty null number empty_error both deep deeper; do
        printf , && tool $name
    done
    for name in first second; do
        printf ',{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}' $name
    done
    if [ -e "$folder/hostile_schemas" ]; then
        printf , && tool doubling "$(doubling)"
        printf , && tool web '{"type":"object","$ref":"'"$(cat "$folder/hostile_schemas")"'"}'
        printf , && tool file '{"type":"object","$ref":"file:///etc/passwd"}'
        printf , && tool meta '{"$schema":"'"$(cat "$folder/hostile_schemas")"'","type":"object"}'
        printf , && tool regex '{"type":"object","properties":{"a":{"pattern":"(((a{0,99}){0,99}){0,99}){0,99}"}}}'
        printf , && tool list '{"type":"object","properties":[]}'
        printf , && tool ''
        printf , && tool "$(head -c 300 /dev/zero | tr '\0' x)"
        printf , && tool 'a\u0000b\u001b[2J'
        printf , && tool 'rtl\u202e'
    fi
    printf ']}}\n'
}

call() {
    case $1 in
    *'"name":"echo"'*) text 'You said hello.' ;;
    *'"name":"twice"'*) text One. && text Two. ;;
    *'"name":"unknown_id"'*)
        requested=$id
        id=424242 && text 'For no request.'
        id='"a text"' && text 'For no request.'
        id=$requested && text Valid.
        ;;
    *'"name":"noise"'*)
        printf 'garbage\n\n[]\n{}\n"text"\n17\n{"jsonrpc":"2.0"}\n\000\377\n{"jsonrpc":"2.0","id":[],"result":{}}\n'
        text Valid.
        ;;
    *'"name":"garbage"'*) yes garbage ;;
    *'"name":"incomplete"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[' "$id" ;;
    *'"name":"stderr"'*)
        head -c 30000000 /dev/zero | tr '\0' x >&2
        yes noise | head -n 300000 >&2
        text Valid.
        ;;
    *'"name":"requests"'*)
        for method in sampling/createMessage roots/list elicitation/create secrets/read; do
            printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":{"messages":[],"maxTokens":1,"message":"?","requestedSchema":{"type":"object","properties":{}}}}\n' "$method" "$method"
            receive
        done
        text 'Requested.'
        ;;
    *'"name":"null_id"'*)
        printf '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}\n'
        text Valid.
        ;;
    *'"name":"unknown_type"'*) respond '"result":{"content":[{"type":"hologram","data":"x"},{"type":"text","text":"More."}]}' ;;
    *'"name":"empty"'*) respond '"result":{}' ;;
    *'"name":"null"'*) respond '"result":null' ;;
    *'"name":"number"'*) respond '"result":5' ;;
    *'"name":"empty_error"'*) respond '"result":{"isError":true,"content":[]}' ;;
    *'"name":"both"'*) respond '"result":{"content":[]},"error":{"code":1,"message":"both"}' ;;
    *'"name":"deep"'*) nested 50 ;;
    *'"name":"deeper"'*) nested 100000 ;;
    *'"name":"first"'*) first=$id && answer_in_reverse ;;
    *'"name":"second"'*) second=$id && answer_in_reverse ;;
    esac
}

# Answers the second tool before the first one, once both are called, in either order.
answer_in_reverse() {
    [ -n "${first:-}" ] && [ -n "${second:-}" ] || return 0
    id=$second && text Second.
    id=$first && text First.
}

nested() {
    printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"a":' "$id"
    yes '[' | head -n "$1" | tr -d '\n'
    yes ']' | head -n "$1" | tr -d '\n'
    printf '}}}\n'
}

version=2025-06-18
[ -e "$folder/old_version" ] && version=1999-01-01
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$folder/received"
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        respond '"result":{"protocolVersion":"'$version'","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}'
        ;;
    *'"method":"tools/list"'*) list ;;
    *'"method":"tools/call"'*) call "$line" ;;
    *'"method":"ping"'*) respond '"result":{}' ;;
    esac
done
