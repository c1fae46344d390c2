// A program that replaces two operators that no other one ends in, by malloc and free.
#include <cstdio>
#include <cstdlib>
#include <new>

void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return std::malloc(size); }

void operator delete[](void *block, std::size_t) noexcept { std::free(block); }

int main() {
    ::operator delete(::operator new(40, std::nothrow));
    ::operator delete[](::operator new[](40), 40);
    std::puts("done");
}
