// SPDX-License-Identifier: Apache-2.0
#include "io/parallel_stream.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.hpp"
#include "io/compression.hpp"
#include "io/file.hpp"

namespace lm::io {
namespace {

// One block of the ring of RingStream.
struct Block {
    enum class Kind {
        content,
        end,    // the file has ended
        serial  // no valid unit starts at `begin`, so a serial decoder continues there
    };

    Kind kind = Kind::content;
    bool full = false;
    std::exception_ptr error;
    i64 begin = 0, end = 0;  // offsets in the file
    std::vector<std::byte> compressed;
    std::unique_ptr<std::byte[]> content;
    size_t capacity = 0, size = 0;
    i64 verified = 0;  // InputStream::verified_bytes() after this block was read

    void reserve(size_t bytes) {
        if (bytes <= capacity) return;
        content = std::make_unique_for_overwrite<std::byte[]>(bytes);
        capacity = bytes;
    }
};

// A stream whose content is produced by threads in a ring of blocks, in the order of the file:
//
//     n_filled_ <= n_emptied_ + ring size     block i is in ring_[i % size]
//
// fill() reads the next part of the file, one thread at a time (fill_mutex_), so that parts get
// consecutive block numbers. process() decompresses the part, several parts at once in different
// threads; then the block is marked `full`. The reader waits until block n_emptied_ is full, so
// that content arrives in order whichever thread is faster. When the reader has copied the block,
// the block becomes free. The threads wait while the ring is full, which bounds the memory. An
// exception is stored in its block and rethrown when the reader reaches that block.
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
            // The block stays full. The exception discards the bytes that this call has copied, so
            // the stream must not be read again.
            if (block.error) std::rethrow_exception(block.error);
            if (block.kind == Block::Kind::serial) {
                serial_ = continue_at(block.begin);
                continue;
            }
            const size_t n = std::min(out.size() - filled, block.size - copied_);
            std::copy_n(block.content.get() + copied_, n, out.data() + filled);  // n may be 0
            filled += n;
            copied_ += n;
            n_read_ += static_cast<i64>(n);
            consumed_ = block.end;
            verified_ = std::min(n_read_, block.verified);
            if (block.kind == Block::Kind::end) break;
            if (copied_ == block.size) empty(block);  // also a block of size 0
        }
        return static_cast<i64>(filled);
    }

  protected:
    // Fills the block with the next part of the file. Returns whether more parts may follow. One
    // thread at a time calls it, in the order of the file.
    virtual bool fill(Block& block) = 0;
    // Completes a block that fill() has filled. Several threads may call it at once.
    virtual void process(Block&) {}
    // Returns the serial decoder that continues at offset `begin` of the file (Kind::serial).
    virtual std::unique_ptr<InputStream> continue_at(i64 begin) = 0;

    // start() starts the threads, stop() joins them. The threads call the virtual functions, so
    // each derived class calls start() at the end of its constructor and stop() in its destructor.
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
    Block& block_of(i64 number) { return ring_[static_cast<size_t>(number) % ring_.size()]; }

    Block& wait_full() {
        Block& block = block_of(n_emptied_);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return block.full; });
        return block;
    }

    void empty(Block& block) {
        {
            const std::lock_guard lock(mutex_);
            block.full = false;
            ++n_emptied_;
            copied_ = 0;
        }
        changed_.notify_all();
    }

    // Waits for a free block and fills it. Returns nullptr at the end of the file or after stop().
    Block* next_block() {
        const std::lock_guard filling(fill_mutex_);
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] {
                return stopped_ || ended_ ||
                       n_filled_ < n_emptied_ + static_cast<i64>(ring_.size());
            });
            if (stopped_ || ended_) return nullptr;
        }
        Block& block = block_of(n_filled_);
        block.kind = Block::Kind::content;
        block.size = 0;
        bool more = false;
        try {
            more = fill(block);
        } catch (...) {
            block.error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        ++n_filled_;
        ended_ = !more;
        return &block;
    }

    void work() {
        while (Block* block = next_block()) {
            try {
                if (!block->error && block->kind == Block::Kind::content) process(*block);
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
    std::mutex fill_mutex_;  // held around fill(); locked before mutex_
    std::mutex mutex_;       // guards n_filled_, n_emptied_, stopped_, ended_ and Block::full
    std::condition_variable changed_;
    i64 n_filled_ = 0, n_emptied_ = 0;
    bool stopped_ = false, ended_ = false;
    size_t copied_ = 0;  // bytes of block n_emptied_ that the reader has copied
    std::atomic<i64> consumed_ = 0;
    i64 n_read_ = 0;  // content bytes copied from blocks; reads from serial_ do not count
    i64 verified_ = 0;
    std::unique_ptr<InputStream> serial_;
    std::vector<std::thread> threads_;
};

// Reads `inner` in one thread, up to two blocks ahead of the reader.
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

    bool fill(Block& block) override {
        block.reserve(block_bytes);
        block.size = static_cast<size_t>(inner_->read({block.content.get(), block_bytes}));
        block.end = inner_->compressed_bytes_read();
        block.verified = inner_->verified_bytes();
        if (block.size == 0) block.kind = Block::Kind::end;
        return block.size > 0;
    }
    std::unique_ptr<InputStream> continue_at(i64) override { return nullptr; }

    std::unique_ptr<InputStream> inner_;
};

// Decompresses the units (compression.hpp) of a file with several threads, up to the first offset
// without a complete unit.
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
    // A block is complete when its units reach one of these sizes.
    static constexpr size_t enough_compressed = size_t{256} << 10;
    static constexpr size_t enough_content = size_t{4} << 20;

    bool fill(Block& block) override {
        size_t size = 0, max_content = 0;
        block.begin = begin_;
        while (size < enough_compressed && max_content < enough_content) {
            const CompressedUnit unit = find(size);
            if (unit.found != CompressedUnit::Found::whole) break;
            size += unit.n_compressed;
            max_content += unit.max_content;
        }
        block.verified = std::numeric_limits<i64>::max();  // whole units are verified
        if (size == 0) {
            block.end = begin_;
            block.kind = waiting_.empty() ? Block::Kind::end : Block::Kind::serial;
            return false;
        }
        block.compressed.assign(waiting_.begin(), waiting_.begin() + static_cast<i64>(size));
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<i64>(size));
        begin_ += static_cast<i64>(size);
        block.end = begin_;
        block.reserve(max_content);
        return true;
    }

    // Returns the unit at offset `at` of waiting_. Reads more of the file until the unit is
    // complete.
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

    void process(Block& block) override {
        const i64 n =
            decompress_units(compression_, block.compressed, {block.content.get(), block.capacity});
        block.size = n < 0 ? 0 : static_cast<size_t>(n);
        if (n < 0) block.kind = Block::Kind::serial;
    }

    std::unique_ptr<InputStream> continue_at(i64 begin) override {
        stop();
        return decoder_(begin);
    }

    std::unique_ptr<InputStream> file_;
    Compression compression_;
    std::function<std::unique_ptr<InputStream>(i64)> decoder_;
    std::vector<std::byte> waiting_;  // bytes that were read and are not in a block yet
    i64 begin_ = 0;                   // offset of the first of these bytes in the file
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
