//! `hakmem`: runs programs on the hakmem allocator.

fn main() {
    hakmem_cli::main()
}
