run() {
    local text=$IN/text.txt short=$IN/short.txt
    under sort "$text" | digest
    under sort -u -k2,2 -k1,1nr --parallel=2 "$short" | digest
    under sort -R --random-source="$text" "$short" | digest
    under cut -d' ' -f1,3 "$short" | under sort | under uniq -c | under sort -rn | under sed -n 1,20p
    under wc "$text" | sed "s|$IN||" | digest
    under tr -s 'a-m' 'n-z' <"$short" | digest
    under sort "$short" >a
    under shuf --random-source="$text" -n 5000 "$short" | under sort >b
    under comm -12 a b | digest
    under join a b | digest
    under paste -d, a b | digest
    under tac "$short" | digest
    under od -A d -t x1z "$short" | digest
    under base64 "$short" | under base64 -d | digest
    under sha512sum <"$text" | digest
    under split -l 5000 -d "$short" part.
    under cat part.* | digest
    under csplit -s -f piece. "$short" 100 200 '{20}'
    under ls -1 | digest
    under cp -r "$IN/repository" copy
    under ls -1R copy | digest
    under du -s --apparent-size part.00 | cut -f1
    under rm -r copy
    under fmt -w 60 "$short" | digest
    under pr -n -l 50 -h title -D date "$short" | digest
    under nl "$short" | digest
    under expand -t 3 "$short" | digest
    under ptx -w 100 piece.00 | digest
    under factor $(seq 1000000007 2 1000000107) | digest
    under seq 1 0.37 50000 | digest
    echo 'a b b c c d' | under tsort
    under stat -c '%s %A' part.00
    under date -d '2020-02-29 +1 year' +%F
    under env -i A=b env
    under expr 12345678901234567890 \* 98765432109876543210
    under printf '%s %q\n' one 'two three'
    # An empty pattern asks for a block of no bytes.
    under grep -c '' /dev/null || true
    under grep -c '' "$text"
    under grep -E '(ka|ne)+[0-9]{3,}.*(qua|ent)' "$text" | digest
    under grep -P '(?<=mem)or(?!is)\d+' "$text" | digest
    under grep -i -w -o 'ka[a-z]*' "$text" | digest
    head -n 3000 "$short" | cut -d' ' -f1 | grep . | sort -u >patterns
    under grep -F -f patterns "$text" | digest
    under grep -r -l -e qua part.* | digest
}
