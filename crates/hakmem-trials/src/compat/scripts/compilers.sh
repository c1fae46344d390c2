setup() {
    mkdir -p source
    for n in 1 2; do
        # Two programs that differ, so that no compiler cache could serve the second.
        { echo "static const char *const which = \"part $n\";"; cat "$IN/containers.cc"; echo 'const char *name() { return which; }'; } >"source/part$n.cc"
    done
    cat >source/Makefile <<'END'
all: part1 part2
part%: part%.o
	$(CXX) -o $@ $<
part%.o: part%.cc
	$(CXX) -std=c++17 $(FLAGS) -c -o $@ $<
.PRECIOUS: part%.o
END
}
run() {
    cp -r "$HERE/source" gcc
    cp -r "$HERE/source" clang
    under make -s -j2 -C gcc CXX=g++ FLAGS=-O1
    under make -s -j2 -C clang CXX=clang++ FLAGS=-O1
    for which in gcc clang; do
        (cd "$which" && sha256sum part?.o) | digest
        "$which/part1"
        "$which/part2"
    done
}
