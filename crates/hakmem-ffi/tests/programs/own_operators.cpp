// A program that replaces two of the operators by malloc and free, as the standard allows. The C++
// library's other operators call these two.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

void *operator new(std::size_t size) {
    if (void *block = std::malloc(size)) return block;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept { std::free(block); }

struct Forty {
    long words[5];
};

int main() {
    // A delete with a size.
    delete new Forty;
    std::vector<long> numbers;
    for (long i = 0; i < 10000; i++) numbers.push_back(-i);
    std::stable_sort(numbers.begin(), numbers.end());
    ::operator delete(::operator new(40, std::nothrow));
    ::operator delete(::operator new[](40));
    delete[] new Forty[100];
    std::puts(numbers.front() == -9999 ? "done" : "unsorted");
}
