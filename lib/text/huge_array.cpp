// SPDX-License-Identifier: Apache-2.0
#include "text/huge_array.hpp"

#include <sys/mman.h>

#include <new>

namespace lm::text::detail {

void* map_zeroed(std::size_t bytes) {
    void* address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    ::madvise(address, bytes, MADV_HUGEPAGE);  // a wish; small pages serve too
    return address;
}

void unmap(void* address, std::size_t bytes) noexcept {
    ::munmap(address, bytes);
}

}  // namespace lm::text::detail
