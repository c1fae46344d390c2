//! Real programs, with and without hakmem: the same output, and hakmem served them. A program that
//! is not installed is named on stderr.

use crate::common;

#[path = "smoke/redis.rs"]
mod redis;

use common::{Language, Link, compile, find_program, preload, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `script` by bash in a fresh directory without and then with hakmem, and compares what it
/// prints and the file `artifact`, if it makes one.
fn same_with_hakmem(needs: &[&str], script: &str) {
    if !needs
        .iter()
        .chain(&["bash"])
        .all(|program| find_program(program).is_some())
    {
        return;
    }
    let once = |hakmem: bool| {
        // One path for both runs: some programs put it into what they write.
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&directory)
            .env("LC_ALL", "C");
        command
            .env("HOME", directory.path())
            .env("HERE", directory.path());
        let reports = hakmem.then(|| preload(&mut command));
        let output = run(&mut command);
        if let Some(reports) = reports {
            reports.assert_served();
        }
        (output.stdout, artifact(directory.path()))
    };
    let (plain, with) = (once(false), once(true));
    assert!(!plain.0.is_empty(), "the script printed nothing to compare");
    assert_eq!(
        String::from_utf8_lossy(&plain.0),
        String::from_utf8_lossy(&with.0)
    );
    assert!(plain.1 == with.1, "the artifacts differ");
}

fn artifact(directory: &Path) -> Option<Vec<u8>> {
    fs::read(directory.join("artifact")).ok()
}

/// What the tests preload is the build that is tested: the hardened one tells the request as a
/// block's usable size.
#[test]
fn the_library_is_the_build_that_is_tested() {
    let program = compile(Language::C, "usable.c", Link::Plain);
    let mut command = Command::new(program);
    let reports = preload(&mut command);
    let output = run(&mut command);
    reports.assert_served();
    let expected = if cfg!(feature = "hardened") {
        "100"
    } else {
        "112"
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
}

#[test]
fn python() {
    same_with_hakmem(
        &["python3"],
        r#"cat > work.py <<'END'
import ctypes, hashlib, json, multiprocessing, threading

def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

def work(n):
    data = {str(i): [i * j for j in range(n % 50)] + ["x" * (i % 300)] for i in range(500)}
    return digest(json.loads(json.dumps(data)))

def main():
    print(work(49))
    results = [None] * 8
    def task(i):
        results[i] = work(i)
    threads = [threading.Thread(target=task, args=(i,)) for i in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(digest(results))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(digest(pool.map(work, range(16))))
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(n) for n in range(1, 1000)]
    for p in blocks: ctypes.memset(p, 1, 1) if p else None
    for p in blocks: libc.free(p)
    buffer = ctypes.create_string_buffer(b"text", 1 << 20)
    print(buffer.value, len(buffer.raw))

main()
END
python3 work.py"#,
    );
}

#[test]
fn compiler() {
    same_with_hakmem(
        &["g++"],
        r#"cat > program.cpp <<'END'
#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>
template <int N> struct Fib { static const long value = Fib<N - 1>::value + Fib<N - 2>::value; };
template <> struct Fib<0> { static const long value = 0; };
template <> struct Fib<1> { static const long value = 1; };
int main() {
    std::map<std::string, std::vector<long>> all;
    for (int i = 0; i < 5000; i++) all["key" + std::to_string(i % 97)].push_back(i * Fib<40>::value);
    long sum = 0;
    for (auto &entry : all) sum += std::accumulate(entry.second.begin(), entry.second.end(), 0L);
    std::cout << sum << '\n';
}
END
g++ -std=c++17 -O1 -c -o artifact program.cpp
g++ -o program artifact
./program"#,
    );
}

#[test]
fn sort() {
    same_with_hakmem(
        &["sort", "awk"],
        r#"awk 'BEGIN { x = 1; for (i = 0; i < 200000; i++) { x = (x * 16807) % 2147483647; print x, i } }' > numbers
sort --parallel=2 -S 8M -k1,1n numbers > artifact
sort -u -r numbers | sed -n 1,1000p | cksum
cksum < artifact"#,
    );
}

#[test]
fn git() {
    same_with_hakmem(
        &["git"],
        r#"export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'
git init -q -b main one
cd one
for i in 1 2 3 4 5; do
    for j in $(seq 40); do seq $((i * j)) $((i * j + 200)) > file$j; done
    git add .
    git commit -q -m "commit $i"
done
git gc -q
git fsck --strict
cd ..
git clone -q one two
cd two
git log --format='%H %s'
git diff HEAD~2 | cksum"#,
    );
}

#[test]
fn perl() {
    same_with_hakmem(
        &["perl"],
        r#"perl -e '
my %count; my $text = join " ", map { "word" . ($_ * 7919 % 1009) } 1 .. 100000;
$count{$_}++ for split / /, $text;
my @rows = map { [ $_, $count{$_}, "x" x ($count{$_} * 3) ] } sort keys %count;
(my $changed = $text) =~ s/(\w+)9/<$1>/g;
printf "%d %d %d\n", scalar(@rows), length($changed), unpack("%32C*", join("", map { join ",", @$_ } @rows));'"#,
    );
}

#[test]
fn shell_script() {
    same_with_hakmem(
        &["tr"],
        r#"declare -A seen
for i in $(seq 3000); do seen[$((i * 7919 % 1009))]+="$i,"; done
total=0
for key in "${!seen[@]}"; do text=${seen[$key]}; total=$((total + ${#text})); done
echo "${#seen[@]} $total"
for i in 1 2 3 4 5; do (echo "sub shell $i" | tr a-z A-Z); done
read -r first < <(seq 5 9); echo "$first"
# Bash does not wait for seq by itself, and seq may still be writing its report.
wait $!"#,
    );
}

#[test]
fn tar_and_gzip() {
    same_with_hakmem(
        &["tar", "gzip"],
        r#"mkdir tree
for i in $(seq 200); do seq $((i * 50)) > tree/file$i; done
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - tree | gzip -n -9 > artifact
mkdir back
gzip -dc artifact | tar -xf - -C back
diff -r tree back/tree && echo same
cksum < artifact"#,
    );
}
