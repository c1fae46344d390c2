// A program that replaces one operator alone, by malloc. It runs it before the constructors of all
// libraries, too.
#include <cstdio>
#include <cstdlib>
#include <new>

void *operator new(std::size_t size) {
    if (void *block = std::malloc(size)) return block;
    throw std::bad_alloc();
}

static void pair() {
    ::operator delete(::operator new(40), 40);
    ::operator delete[](::operator new[](40));
}

__attribute__((section(".preinit_array"), used)) static void (*const first)() = pair;

int main() {
    pair();
    std::puts("done");
}
