setup() {
    mkdir -p pages/man1
    for n in $(seq 1 40); do
        {
            printf '.TH COMPAT%d 1 2020-01-01 pages "A manual"\n.SH NAME\ncompat%d \\- page %d of a manual\n' "$n" "$n" "$n"
            printf '.SH DESCRIPTION\n'
            for i in $(seq 1 120); do
                printf '.TP\n.BI \\-\\-option%d " value"\nThe option \\fBnumber %d\\fP takes a \\fIvalue\\fP, see\n.BR compat%d (1).\n' "$i" "$i" "$((i % 40 + 1))"
            done
            printf '.SH TABLE\n.TS\nallbox;\nl r c.\n'
            for i in $(seq 1 60); do printf 'row %d\t%d\tT{\nsome words in a cell %d\nT}\n' "$i" "$((i * i))" "$i"; done
            printf '.TE\n'
        } | { printf "'\\\\\" t\n"; cat; } >"pages/man1/compat$n.1"
    done
}
run() {
    cp -r "$HERE/pages" pages
    export MANPATH=$PWD/pages MANWIDTH=78 MAN_KEEP_FORMATTING= MANPAGER=cat PAGER=cat
    under mandb --quiet --create --user-db "$PWD/pages" 2>&1 | sed "s|$PWD||g"
    for n in 1 7 23; do under man "compat$n" | digest; done
    under man --local-file pages/man1/compat9.1 | digest
    under man --where compat3 | sed "s|$PWD||"
    under man --apropos 'page 1' | sort
    under whatis compat5 compat6
    under lexgrog pages/man1/*.1 | sed "s|$PWD||" | digest
    under manpath | sed "s|$PWD||"
}
