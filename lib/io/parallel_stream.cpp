// SPDX-License-Identifier: Apache-2.0
#include "io/parallel_stream.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.hpp"
#include "io/file.hpp"
#include "io/stream_units.hpp"

namespace lm::io {
namespace {

// Blocks in a ring, made by threads and taken in order by the one who reads.
struct Block {
    enum class Kind { content, end, serial };

    Kind kind = Kind::content;
    bool full = false;
    std::exception_ptr error;
    i64 begin = 0, end = 0;  // in the file
    std::vector<std::byte> compressed;
    std::unique_ptr<std::byte[]> content;
    size_t capacity = 0, size = 0;
    i64 verified = 0;  // of the stream's content (InputStream::verified_bytes), once this is read

    void reserve(size_t bytes) {
        if (bytes <= capacity) return;
        content = std::make_unique_for_overwrite<std::byte[]>(bytes);
        capacity = bytes;
    }
};

class RingStream : public InputStream {
  public:
    explicit RingStream(int n_blocks) : ring_(static_cast<size_t>(n_blocks)) {}

    i64 compressed_bytes_read() const override { return consumed_; }
    i64 verified_bytes() const override { return verified_; }

    i64 read(std::span<std::byte> out) override {
        size_t filled = 0;
        while (filled < out.size()) {
            if (serial_) {
                filled += static_cast<size_t>(serial_->read(out.subspan(filled)));
                consumed_ = serial_->compressed_bytes_read();
                verified_ = n_read_ + serial_->verified_bytes();
                break;
            }
            Block& block = wait_full();
            if (block.error) std::rethrow_exception(block.error);
            if (block.kind == Block::Kind::serial) {
                serial_ = go_on_at(block.begin);
                continue;
            }
            const size_t n = std::min(out.size() - filled, block.size - taken_);
            std::memcpy(out.data() + filled, block.content.get() + taken_, n);
            filled += n;
            taken_ += n;
            n_read_ += static_cast<i64>(n);
            consumed_ = block.end;
            verified_ = std::min(n_read_, block.verified);
            if (block.kind == Block::Kind::end) break;
            if (taken_ == block.size) empty(block);  // of size 0, too
        }
        return static_cast<i64>(filled);
    }

  protected:
    // Fills in a block, after any that came before; whether the file may go on behind it. One
    // thread at a time is in here.
    virtual bool cut(Block& block) = 0;
    // What else there is to do, by many threads.
    virtual void complete(Block&) {}
    virtual std::unique_ptr<InputStream> go_on_at(i64 begin) = 0;

    // By the constructor and destructor of the class that overrides the functions above.
    void start(int n_threads) {
        try {
            for (int i = 0; i < n_threads; ++i)
                threads_.push_back(start_thread([this] { work(); }));
        } catch (...) {
            stop();
            throw;
        }
    }
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

  private:
    Block& block_of(i64 ticket) { return ring_[static_cast<size_t>(ticket) % ring_.size()]; }

    Block& wait_full() {
        Block& block = block_of(emptied_);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return block.full; });
        return block;
    }

    void empty(Block& block) {
        {
            const std::lock_guard lock(mutex_);
            block.full = false;
            ++emptied_;
            taken_ = 0;
        }
        changed_.notify_all();
    }

    // nullptr: there is nothing more to do.
    Block* next_block() {
        const std::lock_guard cutting(cut_mutex_);
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] {
                return stopped_ || ended_ || next_ < emptied_ + static_cast<i64>(ring_.size());
            });
            if (stopped_ || ended_) return nullptr;
        }
        Block& block = block_of(next_);
        block.kind = Block::Kind::content;
        block.size = 0;
        bool more = false;
        try {
            more = cut(block);
        } catch (...) {
            block.error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        ++next_;
        ended_ = !more;
        return &block;
    }

    void work() {
        while (Block* block = next_block()) {
            try {
                if (!block->error && block->kind == Block::Kind::content) complete(*block);
            } catch (...) {
                block->error = std::current_exception();
            }
            {
                const std::lock_guard lock(mutex_);
                block->full = true;
            }
            changed_.notify_all();
        }
    }

    std::vector<Block> ring_;
    std::mutex cut_mutex_, mutex_;
    std::condition_variable changed_;
    i64 next_ = 0, emptied_ = 0;
    bool stopped_ = false, ended_ = false;
    size_t taken_ = 0;  // of the block that is read
    std::atomic<i64> consumed_ = 0;
    i64 n_read_ = 0, verified_ = 0;  // n_read_: from blocks
    std::unique_ptr<InputStream> serial_;
    std::vector<std::thread> threads_;
};

class AheadStream final : public RingStream {
  public:
    explicit AheadStream(std::unique_ptr<InputStream> inner)
        : RingStream(3), inner_(std::move(inner)) {
        start(1);
    }
    ~AheadStream() override { stop(); }
    int descriptor() const override { return inner_->descriptor(); }

  private:
    static constexpr size_t block_bytes = size_t{1} << 20;

    bool cut(Block& block) override {
        block.reserve(block_bytes);
        block.size = static_cast<size_t>(inner_->read({block.content.get(), block_bytes}));
        block.end = inner_->compressed_bytes_read();
        block.verified = inner_->verified_bytes();
        if (block.size == 0) block.kind = Block::Kind::end;
        return block.size > 0;
    }
    std::unique_ptr<InputStream> go_on_at(i64) override { return nullptr; }

    std::unique_ptr<InputStream> inner_;
};

class UnitStream final : public RingStream {
  public:
    UnitStream(const std::string& path, Compression compression, int threads,
               std::function<std::unique_ptr<InputStream>(i64)> serial)
        : RingStream(threads + 1),
          file_(open_plain_stream(path, 0)),
          compression_(compression),
          decoder_(std::move(serial)) {
        start(threads);
    }
    ~UnitStream() override { stop(); }
    int descriptor() const override { return file_->descriptor(); }

  private:
    static constexpr size_t read_bytes = size_t{1} << 20;
    static constexpr size_t enough_compressed = size_t{256} << 10;  // for one block
    static constexpr size_t enough_content = size_t{4} << 20;

    bool cut(Block& block) override {
        size_t size = 0, most_bytes = 0;
        block.begin = begin_;
        while (size < enough_compressed && most_bytes < enough_content) {
            const CompressedUnit unit = find(size);
            if (unit.found != CompressedUnit::Found::whole) break;
            size += unit.n_compressed;
            most_bytes += unit.most_bytes;
        }
        block.verified = std::numeric_limits<i64>::max();  // units are decompressed whole
        if (size == 0) {
            block.end = begin_;
            block.kind = waiting_.empty() ? Block::Kind::end : Block::Kind::serial;
            return false;
        }
        block.compressed.assign(waiting_.begin(), waiting_.begin() + static_cast<i64>(size));
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<i64>(size));
        begin_ += static_cast<i64>(size);
        block.end = begin_;
        block.reserve(most_bytes);
        return true;
    }

    // The unit `at` bytes behind the beginning of what waits; more of the file is read for it.
    CompressedUnit find(size_t at) {
        for (;;) {
            const auto rest = std::span<const std::byte>(waiting_).subspan(at);
            const CompressedUnit unit = rest.empty() ? CompressedUnit{CompressedUnit::Found::cut}
                                                     : find_unit(compression_, rest);
            if (unit.found != CompressedUnit::Found::cut || ended_) return unit;
            const size_t before = waiting_.size();
            waiting_.resize(before + read_bytes);
            const auto room = std::span(waiting_).subspan(before);
            const auto got = static_cast<size_t>(file_->read(room));
            waiting_.resize(before + got);
            ended_ = got < room.size();
        }
    }

    void complete(Block& block) override {
        const i64 n =
            decompress_units(compression_, block.compressed, {block.content.get(), block.capacity});
        block.size = n < 0 ? 0 : static_cast<size_t>(n);
        if (n < 0) block.kind = Block::Kind::serial;
    }

    std::unique_ptr<InputStream> go_on_at(i64 begin) override {
        stop();
        return decoder_(begin);
    }

    std::unique_ptr<InputStream> file_;
    Compression compression_;
    std::function<std::unique_ptr<InputStream>(i64)> decoder_;
    std::vector<std::byte> waiting_;  // read and not cut yet
    i64 begin_ = 0;                   // of that in the file
    bool ended_ = false;
};

}  // namespace

std::unique_ptr<InputStream> read_ahead(std::unique_ptr<InputStream> inner) {
    return std::make_unique<AheadStream>(std::move(inner));
}

std::unique_ptr<InputStream> open_units(const std::string& path, Compression compression,
                                        int threads,
                                        std::function<std::unique_ptr<InputStream>(i64)> serial) {
    return std::make_unique<UnitStream>(path, compression, threads, std::move(serial));
}

}  // namespace lm::io
