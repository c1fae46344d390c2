// A program that replaces the four basic operators alone, and puts a header in front of each block.
// All other operators have to call these four.
#include "must.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

using std::align_val_t;
using std::nothrow;

namespace {

constexpr std::uint64_t LIVE = 0x4c495645, FREED = 0x46524545;

struct alignas(16) Header {
    std::uint64_t state;
    void *base;
};

std::size_t live, made;
bool short_of_memory;

struct Refused : std::bad_alloc {};

void *make(std::size_t size, std::size_t align) {
    if (short_of_memory) throw Refused();
    char *base = static_cast<char *>(std::malloc(size + align + sizeof(Header)));
    if (!base) throw std::bad_alloc();
    auto at = (reinterpret_cast<std::uintptr_t>(base) + sizeof(Header) + align - 1) & ~(align - 1);
    reinterpret_cast<Header *>(at)[-1] = {LIVE, base};
    live++, made++;
    return reinterpret_cast<void *>(at);
}

void unmake(void *block) {
    if (!block) return;
    Header *header = static_cast<Header *>(block) - 1;
    MUST(header->state == LIVE);
    header->state = FREED;
    live--;
    std::free(header->base);
}

struct Forty {
    long words[5];
    ~Forty() { words[0] = 0; }
};

struct alignas(64) Wide {
    char bytes[64];
    ~Wide() { bytes[0] = 0; }
};

// The block that `allocate` makes, which has to be one with a header.
template <class F> void *one(F allocate) {
    std::size_t before = made;
    void *block = allocate();
    MUST(block && made == before + 1);
    std::memset(block, 0x5a, 100);
    return block;
}

// Frees one by `release`.
template <class F> void freed(F release) {
    std::size_t before = live;
    release();
    MUST(live == before - 1);
}

} // namespace

void *operator new(std::size_t size) { return make(size, 16); }
void *operator new(std::size_t size, align_val_t align) { return make(size, std::size_t(align)); }
void operator delete(void *block) noexcept { unmake(block); }
void operator delete(void *block, align_val_t) noexcept { unmake(block); }

int main() {
    const align_val_t wide{64};
    const std::size_t n = 100;
    // Each pair of forms. A new expression of these types would call some of them only.
    void *p = one([&] { return ::operator new(n); });
    freed([&] { ::operator delete(p, n); });
    p = one([&] { return ::operator new(n, nothrow); });
    freed([&] { ::operator delete(p, nothrow); });
    p = one([&] { return ::operator new[](n); });
    freed([&] { ::operator delete[](p); });
    p = one([&] { return ::operator new[](n, nothrow); });
    freed([&] { ::operator delete[](p, n); });
    p = one([&] { return ::operator new[](n); });
    freed([&] { ::operator delete[](p, nothrow); });
    p = one([&] { return ::operator new(n, wide, nothrow); });
    MUST(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    freed([&] { ::operator delete(p, n, wide); });
    p = one([&] { return ::operator new[](n, wide); });
    MUST(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    freed([&] { ::operator delete[](p, wide); });
    p = one([&] { return ::operator new[](n, wide, nothrow); });
    MUST(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    freed([&] { ::operator delete[](p, n, wide); });
    p = one([&] { return ::operator new(n, wide); });
    freed([&] { ::operator delete(p, wide, nothrow); });
    p = one([&] { return ::operator new[](n, wide); });
    freed([&] { ::operator delete[](p, wide, nothrow); });
    delete new Forty;
    delete[] new Forty[100];
    delete new Wide;
    delete[] new Wide[10];
    std::vector<long>(1000);

    // What the operators throw ends in the forms with nothrow, and leaves the others.
    short_of_memory = true;
    MUST(!::operator new(n, nothrow) && !::operator new[](n, nothrow));
    MUST(!::operator new(n, wide, nothrow) && !::operator new[](n, wide, nothrow));
    int caught = 0;
    try {
        p = ::operator new[](n);
    } catch (const Refused &) {
        caught++;
    }
    try {
        p = ::operator new[](n, wide);
    } catch (const Refused &) {
        caught++;
    }
    MUST(caught == 2 && live == 0);
    std::puts("done");
}
