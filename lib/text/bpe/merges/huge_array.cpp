// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/huge_array.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace lm::text::detail {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) {
    return (bytes + huge_page - 1) / huge_page * huge_page;
}

}  // namespace

// Aligns the array to huge pages. The ends of an unaligned array would be on small pages.
void* map_zeroed(std::size_t bytes) {
    const std::size_t wanted = rounded(bytes);
    void* mapped = ::mmap(nullptr, wanted + huge_page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char* const begin = static_cast<char*>(mapped);
    char* const aligned = begin + (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page);
    ::munmap(begin, static_cast<std::size_t>(aligned - begin));
    const std::size_t excess = huge_page - static_cast<std::size_t>(aligned - begin);
    if (excess > 0) ::munmap(aligned + wanted, excess);
    ::madvise(aligned, wanted, MADV_HUGEPAGE);  // only advice, so a failure is harmless
    return aligned;
}

void unmap(void* address, std::size_t bytes) noexcept {
    ::munmap(address, rounded(bytes));
}

}  // namespace lm::text::detail
