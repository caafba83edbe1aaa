// SPDX-License-Identifier: Apache-2.0
// Measures the time and memory until the first sample: order_startup DIR DOCUMENTS [stateless|
// megatron [CACHE]]. Creates DIR/startup.{bin,idx} when missing (20 bytes a document; the .bin is a
// sparse file), then opens it and reads samples in the named order. CACHE is the directory in which
// that order's index files are cached; by default they are not.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "base/threads.hpp"
#include "data/sampling/datasets.hpp"

using namespace lm;

namespace {

constexpr i64 seq_length = 2048;

i32 length_of(i64 document) {
    return static_cast<i32>(4 + mix(1, static_cast<u64>(document)) % 9);
}

template <typename T>
void put(std::ofstream& file, T value) {
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

void make_dataset(const std::string& prefix, i64 documents) {
    std::vector<char> buffer(1 << 22);
    std::ofstream idx;
    idx.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    idx.open(prefix + ".idx", std::ios::binary);
    idx.write("MMIDIDX\0\0", 9);
    put<u64>(idx, 1);
    put<u8>(idx, 8);
    put<i64>(idx, documents);
    put<i64>(idx, documents + 1);
    for (i64 k = 0; k < documents; ++k) put<i32>(idx, length_of(k));
    i64 pointer = 0;
    for (i64 k = 0; k < documents; ++k) {
        put<i64>(idx, pointer);
        pointer += 2 * length_of(k);
    }
    for (i64 k = 0; k <= documents; ++k) put<i64>(idx, k);
    std::ofstream(prefix + ".bin");
    std::filesystem::resize_file(prefix + ".bin", static_cast<u64>(pointer));
}

struct Usage {
    double cpu_s = 0;  // user and system
    double peak_mb = 0;
};

Usage usage_so_far() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {seconds(usage.ru_utime) + seconds(usage.ru_stime),
            static_cast<double>(usage.ru_maxrss) / 1024};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: order_startup DIR DOCUMENTS [stateless|megatron [CACHE]]\n");
        return 2;
    }
    const std::string prefix = std::string(argv[1]) + "/startup";
    if (!std::filesystem::exists(prefix + ".idx")) make_dataset(prefix, std::atoll(argv[2]));
    data::DataConfig config;
    config.paths.data_path = {prefix};
    config.split = "969,30,1";
    config.seed = 1234;
    config.seq_length = seq_length;
    config.vocab_size = 50257;
    config.order = data::parse_data_order(argc > 3 ? argv[3] : "stateless");
    config.train_samples = std::atoll(argv[2]) / 300;  // most of an epoch

    config.n_threads = available_cores();
    if (argc > 4) config.index_cache.directory = argv[4];

    const double cpu_before_s = usage_so_far().cpu_s;
    const Stopwatch watch;
    const data::DataSets sets = data::open_data(config);
    const double opened_s = watch.elapsed_s();
    std::vector<i32> tokens(seq_length + 1);
    sets.train->fill(0, tokens);
    const double first_s = watch.elapsed_s();
    const double cpu_s = usage_so_far().cpu_s - cpu_before_s;
    constexpr i64 n = 1000;
    for (i64 k = 1; k <= n; ++k) sets.train->fill(k, tokens);
    const double each_s = (watch.elapsed_s() - first_s) / static_cast<double>(n);
    std::printf(
        "%s: open %.4f s, first sample after %.4f s (CPU %.4f s), then %.1f us each; peak memory "
        "%.0f "
        "MB\n",
        argc > 3 ? argv[3] : "stateless", opened_s, first_s, cpu_s, each_s * 1e6,
        usage_so_far().peak_mb);
    return 0;
}
