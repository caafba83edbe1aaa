// SPDX-License-Identifier: Apache-2.0
// Measures the time that a training spends on reading its dataset:
//   loader_speed PREFIX [MICRO_BATCH [SAMPLES_PER_S]]
// Prints the time until the first micro-batch with a cold page cache, and the highest rate at which
// the loader delivers micro-batches. For a training of SAMPLES_PER_S samples of 2048 tokens a second
// (by default 10,000) in micro-batches of MICRO_BATCH samples (by default 8), also prints the share
// of the time spent in the loader.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "data/sampling/datasets.hpp"
#include "data/sampling/loader.hpp"
#include "io/file.hpp"

using namespace lm;

namespace {

constexpr i64 seq_length = 2048;

void drop_cache(const std::string& path) {
    const auto file = io::open_read(path);
    (void)::fdatasync(file.get());
    (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

data::DataSets open(const std::string& prefix) {
    data::DataConfig config;
    config.paths.data_path = {prefix};
    config.split = "1,0,0";
    config.seed = 1234;
    config.seq_length = seq_length;
    config.vocab_size = 1 << 20;
    config.train_samples = 1 << 24;
    return data::open_data(config);
}

void measure_start(const std::string& prefix, const data::BatchOptions& options) {
    for (const char* end : {".bin", ".idx"}) drop_cache(prefix + end);
    const Stopwatch watch;
    const data::DataSets sets = open(prefix);
    const double opened_s = watch.elapsed_s();
    data::Loader loader(*sets.train, options, 0);
    (void)loader.next();
    std::printf("cold start: open %.1f ms, first micro-batch after %.1f ms\n", 1e3 * opened_s,
                1e3 * watch.elapsed_s());
}

void measure_rate(data::Loader& loader, i64 micro_batch) {
    constexpr i64 n = 2000;
    const Stopwatch watch;
    for (i64 k = 0; k < n; ++k) (void)loader.next();
    std::printf("fastest: %.0f samples/s\n",
                static_cast<double>(n * micro_batch) / watch.elapsed_s());
}

// Takes a micro-batch every step_s seconds, as a training would. Computes between two micro-batches
// instead of sleeping: during a sleep, the loader's thread could run on the training's core.
void measure_share(data::Loader& loader, double step_s) {
    constexpr i64 n = 10000;
    double in_loader_s = 0;
    double longest_s = 0;
    const Stopwatch watch;
    for (i64 k = 0; k < n; ++k) {
        const double begin_s = watch.elapsed_s();
        (void)loader.next();
        const double end_s = watch.elapsed_s();
        in_loader_s += end_s - begin_s;
        longest_s = std::max(longest_s, end_s - begin_s);
        while (watch.elapsed_s() < end_s + step_s) {
        }
    }
    std::printf(
        "at %.3f ms a micro-batch: %.3f %% of the time in the loader, %.2f us each, longest %.1f "
        "us\n",
        1e3 * step_s, 100 * in_loader_s / watch.elapsed_s(), 1e6 * in_loader_s / n,
        1e6 * longest_s);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: loader_speed PREFIX [MICRO_BATCH [SAMPLES_PER_S]]\n");
        return 2;
    }
    data::BatchOptions options;
    options.micro_batch = argc > 2 ? std::atoll(argv[2]) : 8;
    const double rate = argc > 3 ? std::atof(argv[3]) : 10000;
    measure_start(argv[1], options);
    const data::DataSets sets = open(argv[1]);
    data::Loader loader(*sets.train, options, 0);
    measure_rate(loader, options.micro_batch);
    measure_share(loader, static_cast<double>(options.micro_batch) / rate);
    return 0;
}
