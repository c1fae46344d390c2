setup() {
    mkdir -p tree/src tree/part/src
    cat >tree/Cargo.toml <<'END'
[package]
name = "tree"
version = "0.1.0"
edition = "2021"
[dependencies]
part = { path = "part" }
[workspace]
members = ["part"]
[profile.release]
codegen-units = 4
END
    printf '[package]\nname = "part"\nversion = "0.1.0"\nedition = "2021"\n' >tree/part/Cargo.toml
    for n in $(seq 1 12); do
        cat <<END
pub mod m$n {
    use std::collections::{BTreeMap, HashMap};
    #[derive(Debug, Clone, PartialEq, PartialOrd, Default)]
    pub struct Item { pub id: u64, pub name: String, pub tags: Vec<String>, pub inner: Option<Box<Item>> }
    pub trait Weigh { fn weigh(&self) -> u64; }
    impl Weigh for Item { fn weigh(&self) -> u64 { self.id * $n + self.inner.as_ref().map_or(0, |i| i.weigh()) } }
    impl<T: Weigh> Weigh for Vec<T> { fn weigh(&self) -> u64 { self.iter().map(Weigh::weigh).sum() } }
    pub fn work(n: u64) -> u64 {
        let mut map: BTreeMap<String, Vec<Item>> = BTreeMap::new();
        for id in 0..n {
            let inner = (id % 3 == 0).then(|| Box::new(Item { id, ..Item::default() }));
            map.entry(format!("k{}", id % 17)).or_default().push(Item { id, name: format!("{id:?}"), tags: vec![], inner });
        }
        let index: HashMap<&str, u64> = map.iter().map(|(k, v)| (k.as_str(), v.weigh())).collect();
        index.values().sum::<u64>() + format!("{:?}", map).len() as u64
    }
}
END
    done >tree/part/src/lib.rs
    {
        echo 'fn main() { let mut sum = 0;'
        for n in $(seq 1 12); do echo "sum += part::m$n::work(200);"; done
        echo 'println!("{sum}"); }'
    } >tree/src/main.rs
}
run() {
    cp -r "$HERE/tree" tree
    export CARGO_HOME=$PWD/home RUSTC=/usr/bin/rustc
    cd tree
    under /usr/bin/cargo build --release --offline --quiet --jobs 2
    ./target/release/tree
    under /usr/bin/cargo test --offline --quiet --jobs 2 2>&1 | grep -E '^test result' | sed -E 's/; finished.*//'
    under /usr/bin/rustc --edition 2021 --crate-type lib --emit=metadata --remap-path-prefix "$PWD=." -o lib.rmeta part/src/lib.rs
    sha256sum <lib.rmeta | digest
}
