use crate::check;
use crate::proto::id_stack::IdStack;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

struct Heap {
    link: AtomicU64,
    inside: UnsafeCell<usize>,
}

// Numbers start at 1.
fn link(heaps: &[Heap], id: u64) -> &AtomicU64 {
    &heaps[id as usize - 1].link
}

fn adopt(pool: &IdStack, heaps: &[Heap]) -> Option<u64> {
    pool.pop(|id| link(heaps, id)).inspect(|&id| {
        heaps[id as usize - 1]
            .inside
            .with_mut(|n| unsafe { *n += 1 });
    })
}

/// Two threads adopt two heaps and give them back. No two threads have one heap, no heap is lost,
/// and each adopter sees what the last one wrote.
#[test]
fn a_heap_is_adopted_by_one_thread() {
    check(
        || {
            let pool = Arc::new(IdStack::new());
            let heap = || Heap {
                link: AtomicU64::new(0),
                inside: UnsafeCell::new(0),
            };
            let heaps: Arc<Vec<Heap>> = Arc::new((0..2).map(|_| heap()).collect());
            pool.push(1, link(&heaps, 1));
            pool.push(2, link(&heaps, 2));
            let other = {
                let (pool, heaps) = (pool.clone(), heaps.clone());
                thread::spawn(move || {
                    // Pops both and pushes the first again. That makes a stack without tags fail.
                    let first = adopt(&pool, &heaps);
                    let second = adopt(&pool, &heaps);
                    if let Some(id) = first {
                        pool.push(id, link(&heaps, id));
                    }
                    second
                })
            };
            // Pushes its first one again too, so that each thread pops what the other pushed.
            let first = adopt(&pool, &heaps);
            if let Some(id) = first {
                pool.push(id, link(&heaps, id));
            }
            let mine = adopt(&pool, &heaps);
            let theirs = other.join().unwrap();
            let left = std::iter::from_fn(|| pool.pop(|id| link(&heaps, id)));
            let mut all: Vec<_> = left.take(3).chain(mine).chain(theirs).collect();
            all.sort_unstable();
            assert_eq!(all, [1, 2], "every heap is somewhere, once");
        },
        &["PoolHasNoTag", "PoolPushesRelaxed", "PoolPopsRelaxed"],
    );
}
