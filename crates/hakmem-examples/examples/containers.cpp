// A C++ program whose containers take their memory from hakmem by name.
//
// `hakmem.hpp` has a memory resource for the containers of std::pmr, and an allocator for the
// others. An arena of the standard library can stand in front: it takes large blocks from hakmem
// and gives them back at once. With hakmem installed by `install.sh`, build and run it so:
//
//   c++ -std=c++17 containers.cpp $(pkg-config --cflags --libs hakmem) -o containers
//   ./containers
//
// It prints, whatever operator new the program has:
//
//   1000 words, 999 of them in the map
//   hakmem served at least 1000 blocks
//   lines of 64 bytes: aligned

#include <hakmem.h>
#include <hakmem.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

// A row that is to have a cache line of its own.
struct alignas(64) Line {
    unsigned char bytes[64];
};

static std::uint64_t allocations() {
    struct hakmem_stats now;
    hakmem_stats(&now);
    return now.allocations;
}

// Words in a container of std::pmr: its strings ask the same resource.
static void count_words() {
    std::pmr::monotonic_buffer_resource arena(1 << 16, hakmem::resource());
    std::pmr::map<std::pmr::string, int> seen(&arena);
    std::pmr::vector<std::pmr::string> words(hakmem::resource());
    for (int i = 0; i < 1000; i++)
        words.emplace_back("a word that is too long to lie in the string itself, " + std::to_string(i % 999));
    for (const auto &word : words) seen[word]++;
    std::printf("%zu words, %zu of them in the map\n", words.size(), seen.size());
}

int main() {
    const std::uint64_t before = allocations();
    count_words();
    if (allocations() - before >= 1000) std::puts("hakmem served at least 1000 blocks");

    std::vector<Line, hakmem::allocator<Line>> lines(100);
    const bool aligned = reinterpret_cast<std::uintptr_t>(lines.data()) % 64 == 0;
    std::printf("lines of 64 bytes: %s\n", aligned ? "aligned" : "not aligned");
}
