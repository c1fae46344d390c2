// hakmem for C++17 and later: memory for the containers of std::pmr, and an allocator for the other
// containers of the standard library.
//
//   std::pmr::vector<int> numbers(hakmem::resource());
//   std::vector<int, hakmem::allocator<int>> others;
//
// Both ask hakmem's C functions, so they reach hakmem also in a program that has an operator new of
// its own. The program links to hakmem, as it does for hakmem.h. Both may be used by all threads at
// once.
//
// A block goes back by free_sized or free_aligned_sized with the size and alignment that it was
// asked for. The hardened library checks the size. With HAKMEM_PLAIN_FREE defined it goes back by free:
// for tools that replace malloc and free alone. Sanitizers are such tools, and define it here.

#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAKMEM_PLAIN_FREE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(leak_sanitizer)
#define HAKMEM_PLAIN_FREE 1
#endif
#endif

// Of C23: not every C library's headers have them.
extern "C" void free_sized(void *block, std::size_t size) noexcept;
extern "C" void free_aligned_sized(void *block, std::size_t alignment, std::size_t size) noexcept;

namespace hakmem {

namespace detail {

// What each block has, whatever is asked for.
inline constexpr std::size_t common_alignment = 16;

// A block of at least `bytes` at a multiple of `alignment`, a power of two. Throws std::bad_alloc.
inline void *allocate(std::size_t bytes, std::size_t alignment) {
    void *block = alignment <= common_alignment ? std::malloc(bytes) : ::aligned_alloc(alignment, bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
}

// Takes it back, with the size and the alignment that it was asked for.
inline void deallocate(void *block, std::size_t bytes, std::size_t alignment) noexcept {
#ifdef HAKMEM_PLAIN_FREE
    (void)bytes;
    (void)alignment;
    std::free(block);
#else
    if (alignment <= common_alignment)
        ::free_sized(block, bytes);
    else
        ::free_aligned_sized(block, alignment, bytes);
#endif
}

}  // namespace detail

// A source of memory for std::pmr. All objects of the class are equal: what one allocated, another
// may take back.
class memory_resource final : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return detail::allocate(bytes, alignment);
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        detail::deallocate(block, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other || dynamic_cast<const memory_resource *>(&other) != nullptr;
    }
};

// The one that all can share. It is never destroyed, so objects that outlive `main` may use it.
inline memory_resource *resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const only = ::new (place) memory_resource;
    return only;
}

// An allocator for containers. It has no state: all are equal.
template <typename T>
class allocator {
   public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    constexpr allocator() noexcept = default;
    template <typename U>
    constexpr allocator(const allocator<U> &) noexcept {}

    // Room for `count` of T. Throws std::bad_array_new_length if no block could be so large, and
    // std::bad_alloc if there is no memory.
    [[nodiscard]] T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }

    // Takes back what `allocate` gave for this `count`.
    void deallocate(T *block, std::size_t count) noexcept {
        detail::deallocate(block, count * sizeof(T), alignof(T));
    }

    template <typename U>
    friend constexpr bool operator==(const allocator &, const allocator<U> &) noexcept {
        return true;
    }
    template <typename U>
    friend constexpr bool operator!=(const allocator &, const allocator<U> &) noexcept {
        return false;
    }
};

}  // namespace hakmem

#endif  // HAKMEM_HPP
