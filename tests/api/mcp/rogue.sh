#!/bin/sh
# A tool server that keeps to no rule of the protocol, in the way that the name of each tool says. It
# notes in the folder $1 what it hears.
folder=$1
echo $$ >>"$folder/started"

told() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { told '"result":{"content":[{"type":"text","text":"'"$1"'"}]}'; }
tool() { printf '{"name":"%s","inputSchema":%s}' "$1" "${2:-{\"type\":\"object\"\}}"; }
listen() { IFS= read -r heard && printf '%s\n' "$heard" >>"$folder/heard"; }

# What doubles at each of 40 steps.
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
        # The same page again and again.
        told '"result":{"tools":['"$(tool echo)"'],"nextCursor":"more"}'
        return
    fi
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[' "$id"
    tool echo
    for name in twice unknown noise babble half whisper asks nobody typeless hollow null number \
        blank both deep deeper; do
        printf , && tool $name
    done
    for name in first second; do
        printf ',{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}' $name
    done
    if [ -e "$folder/wild" ]; then
        printf , && tool doubling "$(doubling)"
        printf , && tool web '{"type":"object","$ref":"'"$(cat "$folder/wild")"'"}'
        printf , && tool file '{"type":"object","$ref":"file:///etc/passwd"}'
        printf , && tool meta '{"$schema":"'"$(cat "$folder/wild")"'","type":"object"}'
        printf , && tool regex '{"type":"object","properties":{"a":{"pattern":"(((a{0,99}){0,99}){0,99}){0,99}"}}}'
        printf , && tool listless '{"type":"object","properties":[]}'
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
    *'"name":"unknown"'*)
        asked=$id
        id=424242 && text 'For nobody.'
        id='"a text"' && text 'For nobody.'
        id=$asked && text Well.
        ;;
    *'"name":"noise"'*)
        printf 'garbage\n\n[]\n{}\n"text"\n17\n{"jsonrpc":"2.0"}\n\000\377\n{"jsonrpc":"2.0","id":[],"result":{}}\n'
        text Well.
        ;;
    *'"name":"babble"'*) yes garbage ;;
    *'"name":"half"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[' "$id" ;;
    *'"name":"whisper"'*)
        head -c 30000000 /dev/zero | tr '\0' x >&2
        yes whisper | head -n 300000 >&2
        text Well.
        ;;
    *'"name":"asks"'*)
        for method in sampling/createMessage roots/list elicitation/create secrets/read; do
            printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":{"messages":[],"maxTokens":1,"message":"?","requestedSchema":{"type":"object","properties":{}}}}\n' "$method" "$method"
            listen
        done
        text 'I asked.'
        ;;
    *'"name":"nobody"'*)
        printf '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"who?"}}\n'
        text Well.
        ;;
    *'"name":"typeless"'*) told '"result":{"content":[{"type":"hologram","data":"x"},{"type":"text","text":"More."}]}' ;;
    *'"name":"hollow"'*) told '"result":{}' ;;
    *'"name":"null"'*) told '"result":null' ;;
    *'"name":"number"'*) told '"result":5' ;;
    *'"name":"blank"'*) told '"result":{"isError":true,"content":[]}' ;;
    *'"name":"both"'*) told '"result":{"content":[]},"error":{"code":1,"message":"both"}' ;;
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
[ -e "$folder/old" ] && version=1999-01-01
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$folder/heard"
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        told '"result":{"protocolVersion":"'$version'","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}'
        ;;
    *'"method":"tools/list"'*) list ;;
    *'"method":"tools/call"'*) call "$line" ;;
    *'"method":"ping"'*) told '"result":{}' ;;
    esac
done
