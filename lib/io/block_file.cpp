// SPDX-License-Identifier: Apache-2.0
#include "io/block_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "base/threads.hpp"
#include "io/checked.hpp"

namespace lm::io {
namespace {

constexpr i64 huge_page = i64{2} << 20;
constexpr i64 memory_bytes = block_bytes + huge_page;  // with room to extend a read at both ends
constexpr size_t max_kept = 16;                        // unused blocks that the pool keeps
static_assert(memory_bytes >= block_bytes + 2 * block_alignment);

i64 whole_part(i64 n) {
    return n / block_alignment * block_alignment;
}

bool aligned(const void* memory, i64 offset) {
    return reinterpret_cast<uintptr_t>(memory) % block_alignment == 0 &&
           offset % block_alignment == 0;
}

}  // namespace

struct BlockPool {
    std::mutex mutex;
    std::vector<AlignedBlock::Memory> free;

    static BlockPool& instance() {
        static auto* const pool =
            new BlockPool;  // never destroyed, because threads may end after main()
        return *pool;
    }

    AlignedBlock::Memory acquire() {
        {
            const std::lock_guard lock(mutex);
            if (!free.empty()) {
                AlignedBlock::Memory memory = std::move(free.back());
                free.pop_back();
                return memory;
            }
        }
        auto* const memory = static_cast<std::byte*>(std::aligned_alloc(huge_page, memory_bytes));
        if (memory == nullptr) throw std::bad_alloc();
        ::madvise(memory, memory_bytes, MADV_HUGEPAGE);  // only advice, so errors are ignored
        return AlignedBlock::Memory(memory);
    }

    void release(AlignedBlock::Memory memory) {
        const std::lock_guard lock(mutex);
        if (memory && free.size() < max_kept) free.push_back(std::move(memory));
    }
};

void AlignedBlock::Free::operator()(std::byte* memory) const {
    std::free(memory);
}

AlignedBlock::AlignedBlock() : memory_(BlockPool::instance().acquire()) {}

AlignedBlock::~AlignedBlock() {
    BlockPool::instance().release(std::move(memory_));
}

AlignedBlock& AlignedBlock::operator=(AlignedBlock&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
}

// ---- a file ------------------------------------------------------------------------------------

BlockFile BlockFile::create(const std::string& path, i64 size) {
    Fd fd(checked::create(path, O_RDWR | O_EXCL));
    if (!fd.valid()) run_error(path, "exists already: another process writes this file");
    checked::reserve(fd.get(), path, size);
    Fd direct(checked::open_regular(path, O_WRONLY | O_DIRECT | O_NOFOLLOW));
    return {path, std::move(fd), std::move(direct)};
}

BlockFile BlockFile::create_shared(const std::string& path, i64 size) {
    Fd fd(checked::create(path, O_RDWR));
    checked::reserve(fd.get(), path, size);
    Fd direct(checked::open_regular(path, O_WRONLY | O_DIRECT | O_NOFOLLOW));
    return {path, std::move(fd), std::move(direct)};
}

BlockFile BlockFile::open_write(const std::string& path) {
    Fd fd(checked::open_regular(path, O_WRONLY | O_NOFOLLOW));
    if (!fd.valid()) system_error(path, "open", errno);
    Fd direct(checked::open_regular(path, O_WRONLY | O_DIRECT | O_NOFOLLOW));
    return {path, std::move(fd), std::move(direct)};
}

BlockFile BlockFile::open_read(const std::string& path) {
    Fd fd = io::open_read(path);
    Fd direct(checked::open_regular(path, O_RDONLY | O_DIRECT));
    return {path, std::move(fd), std::move(direct)};
}

void BlockFile::write(std::span<const std::byte> bytes, i64 offset) const {
    if (direct_.valid() && aligned(bytes.data(), offset)) {
        const auto whole =
            bytes.first(static_cast<size_t>(whole_part(static_cast<i64>(bytes.size()))));
        // Some file systems accept O_DIRECT in open() and refuse the write with EINVAL.
        if (!whole.empty() && checked::write_direct(direct_.get(), path_, whole, offset)) {
            bytes = bytes.subspan(whole.size());
            offset += static_cast<i64>(whole.size());
        }
    }
    if (!bytes.empty()) checked::write_at(fd_.get(), path_, bytes, offset);
}

std::span<std::byte> BlockFile::read(AlignedBlock& block, i64 offset, i64 n) const {
    LM_CHECK(0 <= n && n <= block_bytes, "{}: expected at most {} bytes, got {}", path_,
             block_bytes, n);
    // A direct read extends the range to multiples of 4096 at both ends. If the direct read returns
    // less than the range, because the file ends or the file system refuses direct reads, read_at()
    // reads the range, or reports that the file is too short.
    const i64 before = offset - whole_part(offset);
    if (direct_.valid()) {
        const i64 end = round_up(offset + n, block_alignment);
        const i64 got = checked::read_direct(direct_.get(), path_,
                                             block.first(end - offset + before), offset - before);
        if (got >= before + n) return block.first(before + n).subspan(static_cast<size_t>(before));
    }
    const auto wanted = block.first(n);
    checked::read_at(fd_.get(), path_, wanted, offset);
    return wanted;
}

void BlockFile::sync() const {
    checked::fsync(fd_.get(), path_);
}

// ---- several blocks in flight ------------------------------------------------------------------

void for_each_block(i64 n, int n_threads,
                    const std::function<void(i64 i, AlignedBlock& block)>& body) {
    std::atomic<i64> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto stop = [&] {  // for catch blocks: keeps the first exception, ends the threads
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = n;
    };
    const auto work = [&] {
        try {
            AlignedBlock block;
            for (i64 i = next++; i < n; i = next++) body(i, block);
        } catch (...) {
            stop();
        }
    };
    std::vector<std::thread> threads;
    const i64 n_others = std::min<i64>(n, n_threads) - 1;
    try {
        for (i64 i = 0; i < n_others; ++i) threads.push_back(start_thread(work));
    } catch (...) {
        stop();  // a thread could not be started; the started threads are joined below
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
}

// ---- a stream ----------------------------------------------------------------------------------

void BlockStream::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto part =
            bytes.first(std::min(bytes.size(), static_cast<size_t>(block_bytes - used_)));
        std::memcpy(block_.first(block_bytes).data() + used_, part.data(), part.size());
        used_ += static_cast<i64>(part.size());
        bytes = bytes.subspan(part.size());
        if (used_ == block_bytes) submit();
    }
}

void BlockStream::submit() {
    if (pending_.size() >= blocks_in_flight) {
        pending_.front().get();
        pending_.pop_front();
    }
    auto full = std::make_shared<AlignedBlock>();
    std::swap(*full, block_);
    pending_.push_back(std::async(std::launch::async, [file = file_, full, at = at_, n = used_] {
        file->write(full->first(n), at);
    }));
    at_ += used_;
    used_ = 0;
}

void BlockStream::finish() {
    if (used_ > 0) submit();
    while (!pending_.empty()) {
        pending_.front().get();
        pending_.pop_front();
    }
}

}  // namespace lm::io
