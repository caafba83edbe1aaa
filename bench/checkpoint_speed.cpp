// SPDX-License-Identifier: Apache-2.0
// Measures save, load and the verbs of lm-ckpt for a checkpoint of GPT-2 355M in fp32 with moments
// (4.26 GB), or of that model with another number of layers. Measures the floors of the same disk
// in the same run: direct writes and reads of 16 MiB, and cp with sync.
//   checkpoint_speed DIR BIN [LAYERS]    DIR: empty, with room for five checkpoints; BIN: the
//                                        directory of lm-ckpt
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/history/save.hpp"
#include "io/block_file.hpp"
#include "io/file.hpp"

using namespace lm;

namespace {

constexpr std::array kinds{ckpt::SliceKind::weight, ckpt::SliceKind::exp_avg,
                           ckpt::SliceKind::exp_avg_sq};

spec::ModelConfig gpt2_355m(i64 n_layers) {
    spec::ModelConfig config;
    config.n_layers = n_layers;
    config.hidden = 1024;
    config.n_heads = 16;
    config.seq_length = 1024;
    config.vocab_size = 50257;
    config.resolve();
    return config;
}

// The state of one rank.
struct State {
    spec::ModelConfig config;
    std::vector<spec::TensorSpec> table = spec::tensor_table(config);
    spec::RankLayout layout = spec::rank_layout(config, table, {}, 0, 0);
    std::array<std::vector<float>, kinds.size()> values;

    explicit State(i64 n_layers) : config(gpt2_355m(n_layers)) {
        for (std::vector<float>& of_kind : values) {
            of_kind.resize(static_cast<size_t>(layout.n_elements));
            for (size_t i = 0; i < of_kind.size(); ++i) {
                of_kind[i] = static_cast<float>(i % 9973) * 1e-4F;
            }
        }
    }
    std::vector<ckpt::Piece> pieces() const {
        std::vector<ckpt::Piece> all;
        for (size_t i = 0; i < kinds.size(); ++i) {
            for (const auto& piece :
                 ckpt::pieces_of(layout, kinds[i], DType::fp32, values[i].data())) {
                all.push_back(piece);
            }
        }
        return all;
    }
};

void report(const char* what, double wall_s, double bytes, double floor_s, const char* floor) {
    std::printf("%-22s %6.2f s  %5.2f GB/s", what, wall_s, bytes / wall_s * 1e-9);
    if (floor_s > 0) std::printf("  %4.0f %% of %s", floor_s / wall_s * 100, floor);
    std::printf("\n");
    std::fflush(stdout);
}

// Runs a command and reports its wall time, CPU time and peak of resident memory.
double run(const char* what, const std::string& command, double bytes, double floor_s,
           const char* floor) {
    const Stopwatch watch;
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    const double wall_s = watch.elapsed_s();
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    report(what, wall_s, bytes, floor_s, floor);
    std::printf("%-22s cpu %.2f s, peak %ld MB, exit code %d\n", "",
                seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss >> 10,
                WEXITSTATUS(status));
    return wall_s;
}

double write_floor(const std::string& path, i64 n_blocks) {
    const Stopwatch watch;
    const auto file = io::BlockFile::create(path, n_blocks * io::block_bytes);
    io::for_each_block(n_blocks, io::blocks_in_flight, [&](i64 at, io::AlignedBlock& block) {
        file.write(block.first(io::block_bytes), at * io::block_bytes);
    });
    file.sync();
    return watch.elapsed_s();
}

double read_floor(const std::string& path, i64 n_blocks) {
    const Stopwatch watch;
    const auto file = io::BlockFile::open_read(path);
    io::for_each_block(n_blocks, io::blocks_in_flight, [&](i64 at, io::AlignedBlock& block) {
        (void)file.read(block, at * io::block_bytes, io::block_bytes);
    });
    return watch.elapsed_s();
}

// Drops a file, or the files of a directory, from the page cache.
void drop_cache(const std::string& path) {
    std::vector<std::string> files{path};
    if (io::is_directory(path)) {
        files.clear();
        for (const std::string& name : io::list_directory(path)) files.push_back(path + "/" + name);
    }
    for (const std::string& file : files) {
        (void)::posix_fadvise(io::open_read(file).get(), 0, 0, POSIX_FADV_DONTNEED);
    }
}

double load(const std::string& step, State& state) {
    const Stopwatch watch;
    const auto checkpoint = ckpt::Checkpoint::open(step);
    for (size_t i = 0; i < kinds.size(); ++i) {
        checkpoint.load(state.table, state.layout, kinds[i], DType::fp32, state.values[i].data());
    }
    return watch.elapsed_s();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const std::string directory = argv[1];
    const std::string tool = std::string(argv[2]) + "/lm-ckpt ";
    ckpt::SaveInfo info;
    std::string steps[2];
    double bytes = 0;
    double read_s = 0;
    {
        State state(argc > 3 ? std::atoi(argv[3]) : 24);
        info.model = state.config;
        info.run_id = ckpt::new_run_id();
        const i64 n_blocks =
            ceil_div(3 * state.layout.n_elements * i64{sizeof(float)}, io::block_bytes);
        const std::string floor = directory + "/floor";
        const double write_s = write_floor(floor, n_blocks);
        bytes = static_cast<double>(n_blocks * io::block_bytes);
        report("floor: direct write", write_s, bytes, 0, "");
        const ckpt::Generation generation = ckpt::claim(directory + "/run");
        for (i64 i = 0; i < 2; ++i) {
            const Stopwatch watch;
            info.counters.iteration = i + 1;
            steps[i] = ckpt::save(generation, info, state.pieces()).path;
            report("save", watch.elapsed_s(), bytes, write_s, "direct write");
            state.values[2][0] += 1;
        }
        read_s = read_floor(floor, n_blocks);
        report("floor: direct read", read_s, bytes, 0, "");
        report("load", load(steps[0], state), bytes, read_s, "direct read");
        io::remove_tree(floor);
    }
    const std::string out = directory + "/out";
    io::make_directories(out);
    run("verify", tool + "verify --quiet " + steps[0] + " >/dev/null", bytes, read_s,
        "direct read");
    run("diff", tool + "diff " + steps[0] + " " + steps[1] + " >/dev/null", 2 * bytes, 2 * read_s,
        "direct read");
    // `other`: a second file, which is read but not copied.
    const auto cp = [&](const std::string& from, double n_bytes, const std::string& other = "") {
        drop_cache(from);
        if (!other.empty()) drop_cache(other);
        const std::string and_read = other.empty() ? "" : " && cat " + other + " >/dev/null";
        const double s =
            run("floor: cold cp, sync", "cp -r " + from + " " + out + "/cp && sync" + and_read,
                n_bytes, 0, "");
        io::remove_tree(out + "/cp");
        return s;
    };
    const double cp_s = cp(steps[0], bytes);
    run("copy", tool + "copy --quiet " + steps[0] + " " + out, bytes, cp_s, "cp");
    io::remove_tree(out);
    io::make_directories(out);
    run("reshard TP2 PP2",
        tool + "reshard --quiet " + steps[0] + " " + out +
            "/resharded --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >/dev/null",
        bytes, cp_s, "cp");
    io::remove_tree(out);
    io::make_directories(out);
    const double cp_weights_s = cp(steps[0] + "/weights-00000.safetensors", bytes / 3);
    run("unshard", tool + "unshard --quiet " + steps[0] + " " + out + "/m.safetensors >/dev/null",
        bytes / 3, cp_weights_s, "cp of the weights");
    // A merge of two checkpoints reads the weights of both and writes weights of the size of one.
    const double cp_and_read_s = cp(steps[0] + "/weights-00000.safetensors", bytes / 3,
                                    steps[1] + "/weights-00000.safetensors");
    run("merge of 2",
        tool + "merge --quiet " + out + "/merged " + steps[0] + " " + steps[1] + " >/dev/null",
        bytes / 3, cp_and_read_s, "cp of the weights of one and cat of the other's");
    io::remove_tree(out);
    io::remove_tree(directory + "/run");
    return 0;
}
