setup() {
    mkdir -p source
    for n in 1 2 3; do
        { printf "#define main main_%d\n#define depth depth_%d\n" "$n" "$n"; cat "$IN/containers.cc"; } >"source/part$n.cc"
    done
    cat >source/main.cc <<'END'
int main_1(); int main_2(); int main_3();
int main() { return main_1() + main_2() + main_3(); }
END
    cat >source/Makefile <<'END'
OBJECTS := part1.o part2.o part3.o main.o
program: $(OBJECTS)
	$(CXX) -o $@ $^
%.o: %.cc
	$(CXX) -std=c++17 $(FLAGS) -c -o $@ $<
END
}
run() {
    cp -r "$HERE/source" gcc
    cp -r "$HERE/source" clang
    under make -s -j2 -C gcc CXX=g++ FLAGS=-O1
    under make -s -j2 -C clang CXX=clang++ FLAGS=-O1
    # Without addresses of the folder in them, what is made is the same every time.
    for which in gcc clang; do
        (cd "$which" && sha256sum part?.o main.o) | digest
        "$which/program" | digest
    done
}
