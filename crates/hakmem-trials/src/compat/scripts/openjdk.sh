setup() {
    mkdir -p source/many
    for n in $(seq 1 120); do
        cat >"source/many/Class$n.java" <<END
package many;
import java.util.*;
import java.util.function.*;
import java.util.stream.*;
public class Class$n<T extends Comparable<T>> {
    record Pair<A, B>(A first, B second) {}
    enum Kind { ONE, TWO, THREE }
    private final Map<String, List<Pair<T, Integer>>> map = new TreeMap<>();
    public int add(List<T> items) {
        for (int i = 0; i < items.size(); i++) {
            map.computeIfAbsent("key" + i % $n, k -> new ArrayList<>()).add(new Pair<>(items.get(i), i * $n));
        }
        return map.values().stream().flatMap(List::stream).collect(Collectors.summingInt(Pair::second));
    }
    public String name(Kind kind) {
        return switch (kind) { case ONE -> "one $n"; case TWO -> "two"; case THREE -> map.keySet().stream().sorted(Comparator.reverseOrder()).collect(Collectors.joining(",")); };
    }
}
END
    done
    {
        echo 'package many; import java.util.*; public class Main { public static void main(String[] a) throws Exception {'
        echo 'List<String> items = new ArrayList<>(); for (int i = 0; i < 2000; i++) items.add("item" + i * 7919 % 2003);'
        echo 'long[] sum = new long[4]; Thread[] threads = new Thread[4];'
        echo 'for (int t = 0; t < 4; t++) { final int me = t; threads[t] = new Thread(() -> { for (int r = 0; r < 20; r++) { switch (me) {'
        for t in 0 1 2 3; do
            echo "case $t:"
            for n in $(seq $((t * 30 + 1)) $((t * 30 + 30))); do
                echo "{ var c = new Class$n<String>(); sum[$t] += c.add(items) + c.name(Class$n.Kind.THREE).length(); }"
            done
            echo 'break;'
        done
        echo '} java.nio.ByteBuffer.allocateDirect(1 << 16).putInt(r); } }); threads[t].start(); }'
        echo 'for (Thread t : threads) t.join(); System.out.println(Arrays.toString(sum)); } }'
    } >source/many/Main.java
}
run() {
    under javac -d classes "$HERE"/source/many/*.java
    (cd classes && find . -name '*.class' | sort | xargs sha256sum) | digest
    under java -cp classes many.Main
}
