// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/megatron_index.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::data {

namespace {

std::vector<i32> shuffled_documents(const SequenceRange& sequences, i64 n_epochs,
                                    NumpyRandom& random) {
    std::vector<i32> documents(static_cast<size_t>(checked_mul(sequences.size(), n_epochs)));
    for (size_t k = 0; k < documents.size(); ++k) {
        documents[k] = static_cast<i32>(sequences.begin + static_cast<i64>(k) % sequences.size());
    }
    random.shuffle(std::span(documents));
    return documents;
}

// Owns the arrays of an index that build() has computed.
struct Arrays {
    std::vector<i32> documents;
    std::vector<i64> position;
    std::vector<i32> offset;
    std::vector<i64> order;
};

// Computes where each window begins. Adjacent windows share one token, so window k begins with
// token k * seq_length of the stream of shuffled documents. Megatron's build_sample_idx walks the
// stream and finds the same places. As in Megatron, window 0 begins at the first document even if
// that document is empty.
void cut_into_samples(const IndexedDataset& dataset, i64 seq_length, ThreadPool& pool,
                      Arrays& index) {
    constexpr i64 grain = 1 << 16;
    const i64 n_documents = static_cast<i64>(index.documents.size());
    const auto length = [&](i64 d) {
        return dataset.length(index.documents[static_cast<size_t>(d)]);
    };
    std::vector<i64> starts(static_cast<size_t>(ceil_div(n_documents, grain)) + 1);
    pool.run_ranges(n_documents, grain, [&](i64 begin, i64 end, int) {
        i64 tokens = 0;
        for (i64 d = begin; d < end; ++d) tokens += length(d);
        starts[static_cast<size_t>(begin / grain) + 1] = tokens;
    });
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    const i64 n = static_cast<i64>(index.position.size());
    pool.run_ranges(n_documents, grain, [&](i64 begin, i64 end, int) {
        i64 at = starts[static_cast<size_t>(begin / grain)];
        i64 sample = ceil_div(at, seq_length);
        for (i64 d = begin; d < end && sample < n; ++d) {
            const i64 next = at + length(d);
            for (; sample * seq_length < next && sample < n; ++sample) {
                index.position[static_cast<size_t>(sample)] = d;
                index.offset[static_cast<size_t>(sample)] =
                    static_cast<i32>(sample * seq_length - at);
            }
            at = next;
        }
    });
    index.position.front() = 0;
    index.offset.front() = 0;
}

void shuffle_samples(const EpochPlan& plan, NumpyRandom& random, std::vector<i64>& order) {
    order.resize(static_cast<size_t>(plan.n_samples));
    std::iota(order.begin(), order.end(), i64{0});
    const std::span<i64> samples(order);
    const size_t first =
        static_cast<size_t>(plan.separate_last ? plan.samples_before_last : plan.n_samples);
    random.shuffle(samples.first(first));
    random.shuffle(samples.subspan(first));
}

}  // namespace

u64 NumpyRandom::interval(u64 max) {
    if (max == 0) return 0;
    const u64 mask = ~u64{0} >> std::countl_zero(max);
    u64 value;
    do {
        value = engine_();
        if (max > 0xFFFFFFFFU) value = (value << 32) | engine_();
        value &= mask;
    } while (value > max);
    return value;
}

EpochPlan plan_epochs(i64 n_tokens, i64 seq_length, i64 n_samples, double last_epoch_threshold) {
    LM_CHECK(n_tokens > seq_length, "expected at least the {} tokens of a sample, got {}",
             seq_length + 1, n_tokens);
    EpochPlan plan;
    plan.n_epochs = std::max<i64>(1, ceil_div(checked_mul(n_samples, seq_length) + 1, n_tokens));
    plan.n_samples = (checked_mul(plan.n_epochs, n_tokens) - 1) / seq_length;
    if (plan.n_epochs == 1) return plan;
    plan.samples_before_last = ((plan.n_epochs - 1) * n_tokens - 1) / seq_length;
    const i64 of_last = n_samples - plan.samples_before_last;
    const i64 per_epoch = (n_tokens - 1) / seq_length;
    plan.separate_last =
        of_last < static_cast<i64>(last_epoch_threshold * static_cast<double>(per_epoch));
    return plan;
}

MegatronIndex MegatronIndex::build(const TokenRange& range, i64 seq_length, const EpochPlan& plan,
                                   u32 seed, int n_threads) {
    if (range.sequences.end > std::numeric_limits<i32>::max()) {
        usage_error("--data-order",
                    "{}: document {} is used, but Megatron's orders support at most 2^31 - 1 "
                    "documents: use --data-order stateless",
                    range.dataset->prefix(), range.sequences.end - 1);
    }
    NumpyRandom random(seed);
    const auto arrays = std::make_shared<Arrays>();
    const i64 first_epochs = plan.separate_last ? plan.n_epochs - 1 : plan.n_epochs;
    arrays->documents = shuffled_documents(range.sequences, first_epochs, random);
    if (plan.separate_last) {
        const auto last = shuffled_documents(range.sequences, 1, random);
        arrays->documents.insert(arrays->documents.end(), last.begin(), last.end());
    }
    arrays->position.resize(static_cast<size_t>(plan.n_samples) + 1);
    arrays->offset.resize(static_cast<size_t>(plan.n_samples) + 1);
    {
        ThreadPool pool(n_threads);
        std::jthread order;
        const auto shuffle = [&] { shuffle_samples(plan, random, arrays->order); };
        if (n_threads > 1) order = start_thread<std::jthread>(shuffle);
        cut_into_samples(*range.dataset, seq_length, pool, *arrays);
        if (n_threads <= 1) shuffle();
    }
    return {arrays->documents, arrays->position, arrays->offset, arrays->order, arrays};
}

namespace {

// Layout of the file: this header, then the arrays of MegatronIndex, each aligned to 8 bytes.
struct Header {
    std::array<char, 8> magic = {'L', 'M', 'O', 'R', 'D', 'E', 'R', '1'};
    i64 n_documents = 0;
    i64 n_samples = 0;

    i64 documents_at() const { return sizeof(Header); }
    i64 position_at() const { return documents_at() + round_up(4 * n_documents, 8); }
    i64 offset_at() const { return position_at() + 8 * (n_samples + 1); }
    i64 order_at() const { return offset_at() + round_up(4 * (n_samples + 1), 8); }
    i64 size() const { return order_at() + 8 * n_samples; }
};
static_assert(sizeof(Header) == 24);

Header header_of(const TokenRange& range, const EpochPlan& plan) {
    Header header;
    header.n_documents = checked_mul(range.sequences.size(), plan.n_epochs);
    header.n_samples = plan.n_samples;
    return header;
}

// Returns the name of the index file. The digest in the name covers the lengths of the sequences
// but not the tokens, because the index does not depend on the tokens.
std::string file_name(const TokenRange& range, i64 seq_length, const EpochPlan& plan, u32 seed) {
    Digester digester;
    const std::array<i64, 8> numbers = {
        range.sequences.begin, range.sequences.end,      seq_length,     plan.n_epochs,
        plan.separate_last,    plan.samples_before_last, plan.n_samples, seed};
    digester.update(std::as_bytes(std::span(numbers)));
    digester.update(range.dataset->raw_lengths(range.sequences.begin, range.sequences.end));
    const std::string digest = digester.finish();
    return "order-" + digest.substr(digest.find(':') + 1) + ".index";
}

template <typename T>
std::span<const T> array_at(const io::MappedFile& file, i64 offset, i64 count) {
    return {reinterpret_cast<const T*>(file.bytes().data() + offset), static_cast<size_t>(count)};
}

MegatronIndex map_index(const std::string& path, const Header& wanted) {
    const auto file = std::make_shared<const io::MappedFile>(io::MappedFile::open(path));
    const bool right = static_cast<i64>(file->bytes().size()) == wanted.size() &&
                       std::memcmp(file->bytes().data(), &wanted, sizeof wanted) == 0;
    if (!right) run_error(path, "is corrupt or was built for other samples: remove the file");
    return {array_at<i32>(*file, wanted.documents_at(), wanted.n_documents),
            array_at<i64>(*file, wanted.position_at(), wanted.n_samples + 1),
            array_at<i32>(*file, wanted.offset_at(), wanted.n_samples + 1),
            array_at<i64>(*file, wanted.order_at(), wanted.n_samples), file};
}

void write_index(const std::string& path, const Header& header, const MegatronIndex& index) {
    for (const std::string& old : io::stale_temporaries(path)) io::remove_tree(old);
    auto file = io::AtomicFile::create(path, io::Overwrite::yes);
    const auto put = [&](i64 offset, std::span<const std::byte> bytes) {
        constexpr std::array<std::byte, 8> gap{};
        file.write(std::span(gap).first(static_cast<size_t>(offset - file.size())));
        file.write(bytes);
    };
    put(0, std::as_bytes(std::span(&header, 1)));
    put(header.documents_at(), std::as_bytes(index.documents));
    put(header.position_at(), std::as_bytes(index.position));
    put(header.offset_at(), std::as_bytes(index.offset));
    put(header.order_at(), std::as_bytes(index.order));
    file.commit();
}

// A lock that a process holds while it builds an index. On a file system without locks, several
// processes may build the same index; this is safe, since each uses its own temporary name.
class Lock {
  public:
    explicit Lock(const std::string& path)
        : path_(path), fd_(io::checked::open_regular(path, O_RDWR | O_CREAT | O_NOFOLLOW)) {
        while (fd_.valid() && ::flock(fd_.get(), LOCK_EX) != 0 && errno == EINTR) continue;
    }
    // Removes the lock file. Processes that wait for it, and later processes, find the finished
    // index.
    ~Lock() { ::unlink(path_.c_str()); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    std::string path_;
    io::Fd fd_;
};

}  // namespace

std::string private_index_directory() {
    const char* tmp = std::getenv("TMPDIR");
    const std::string path =
        fmt::format("{}/lm-utils-{}", tmp != nullptr && *tmp != 0 ? tmp : "/tmp", ::geteuid());
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
    struct stat info {};
    const bool ours = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                      info.st_uid == ::geteuid() && (info.st_mode & 0022) == 0;
    return ours ? path : std::string();
}

MegatronIndex shared_index(const IndexCache& cache, const TokenRange& range, i64 seq_length,
                           const EpochPlan& plan, u32 seed, int n_threads) {
    const auto build = [&] {
        return MegatronIndex::build(range, seq_length, plan, seed, n_threads);
    };
    const Header header = header_of(range, plan);
    if (cache.directory.empty() || header.size() < cache.least_bytes) return build();
    const std::string path = cache.directory + "/" + file_name(range, seq_length, plan, seed);
    try {
        if (io::exists(path)) return map_index(path, header);
        io::make_directories(cache.directory);
        const Lock lock(path + ".lock");
        if (io::exists(path)) return map_index(path, header);
        const Stopwatch watch;
        {
            const MegatronIndex built = build();
            write_index(path, header, built);
        }
        note("{}: built the sample index of {}, {} in {}", path, range.dataset->prefix(),
             human_size(header.size()), human_duration(watch.elapsed_s()));
        return map_index(path, header);
    } catch (const Error& error) {
        if (error.code() != Exit::failure) throw;
        warn("{}: the sample index is kept in the memory of this process", error.what());
        return build();
    }
}

}  // namespace lm::data
