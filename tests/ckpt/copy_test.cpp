// SPDX-License-Identifier: Apache-2.0
// Copies of steps: complete or absent, verified, continued after a kill.
#include "ckpt/verbs/copy.hpp"

#include <sys/wait.h>

#include <utility>

#include "base/error.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/append_file.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;

namespace {

// Saves step `iteration` with two writers: the first writes all weights and half of the optimizer
// state, the second writes the other half. Returns the path of the step.
std::string save_step(const std::string& directory, const spec::ModelConfig& config, i64 iteration,
                      i64 salt) {
    Buffers buffers(config, {});
    buffers.fill(config, salt);
    const Generation generation = claim(directory);
    const SaveInfo info = test::info_of(config, iteration);
    const std::string temporary = begin_save(generation, iteration);
    const i64 half = buffers.layout.n_elements / 2;
    std::vector<Piece> first = buffers.pieces(0, half);
    std::vector<Piece> second;
    for (const Piece& piece : buffers.pieces(half, buffers.layout.n_elements)) {
        (piece.kind == SliceKind::weight ? first : second).push_back(piece);
    }
    return commit_save(
               generation, info,
               {write_part(temporary, info, 0, first), write_part(temporary, info, 1, second)})
        .path;
}

CopyResult copy_all(const std::string& from, const std::string& to, bool replace = false) {
    CopyOptions options;
    options.replace = replace;
    return copy(plan_copy(Checkpoint::open(from), false), to, options);
}

bool good(const std::string& step) {
    return verify(step, nullptr).problems.empty();
}

}  // namespace

TEST_CASE("copy: a step that is replaced during the copy is not called corrupt") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const std::string step = save_step(scratch / "a", config, 7, 1);
    const std::string other = save_step(scratch / "b", config, 7, 2);
    bool swapped = false;
    const CopyOptions options{.progress = [&](i64) {
        if (std::exchange(swapped, true)) return;
        io::checked::rename(step, scratch / "aside");
        io::checked::rename(other, step);
    }};
    const CopyPlan plan = plan_copy(Checkpoint::open(step), false);
    const std::string to = scratch / "global_step7";
    try {
        copy(plan, to, options);
        CHECK(good(to));  // all files were open
    } catch (const DamageError& error) {
        FAIL(error.what());
    } catch (const Error& error) {
        CHECK_THAT(error.what(), StartsWith(step + ": ") && ContainsSubstring("replaced"));
    }
    CHECK(good(step));
}

TEST_CASE("copy: the whole step, and the weights only") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const std::string step = save_step(scratch / "a", config, 7, 1);
    io::make_directories(scratch / "b");
    const std::string to = scratch / "b/global_step7";
    const CopyPlan plan = plan_copy(Checkpoint::open(step), false);
    CHECK_FALSE(is_copied(plan, to));
    i64 progressed = 0;
    CopyOptions options;
    options.bytes_per_second = i64{1} << 40;
    options.progress = [&](i64 done) { progressed = done; };
    CHECK(copy(plan, to, options).n_copied == plan.n_bytes());
    CHECK(progressed == plan.n_bytes());
    CHECK(is_copied(plan, to));
    CHECK(io::list_directory(to) == io::list_directory(step));
    for (const std::string& name : io::list_directory(step)) {
        CHECK(test::read(to + "/" + name) == test::read(step + "/" + name));
    }

    const std::string weights = scratch / "b/weights";
    copy(plan_copy(Checkpoint::open(step), true), weights, {});
    CHECK(good(weights));
    CHECK(io::list_directory(weights) == std::vector<std::string>{"index-00000.json",
                                                                  "manifest.json",
                                                                  "weights-00000.safetensors"});
    const auto copied = Checkpoint::open(weights);
    CHECK_FALSE(copied.has(spec::exp_avg));
    CHECK(copied.manifest().counters.consumed_samples == 56);
    CHECK(copied.load_fp32("layers.1.mlp.up.weight", SliceKind::weight) ==
          Checkpoint::open(step).load_fp32("layers.1.mlp.up.weight", SliceKind::weight));
    // A step without optimizer state is copied completely.
    const CopyPlan again = plan_copy(copied, true);
    CHECK(is_copied(again, weights));
    CHECK(again.documents.size() == 2);
}

TEST_CASE(
    "copy: after a failure or kill at any operation no step is visible, and the next copy "
    "continues") {
    const auto config = test::small_model();
    const test::ScratchDirectory source;
    const std::string step = save_step(source / "a", config, 1, 1);
    const std::string other = save_step(source / "other", config, 1, 2);
    const bool replaces = GENERATE(false, true);
    for (const auto action :
         {io::fault::Action::fail, io::fault::Action::short_write, io::fault::Action::kill}) {
        i64 n_cut = 0;
        i64 max_kept = 0;
        for (i64 at = 1;; ++at) {
            const test::ScratchDirectory scratch;
            const std::string to = scratch / "global_step1";
            if (replaces) copy_all(other, to);
            const pid_t child = ::fork();
            if (child == 0) {
                io::fault::arm(action, at);
                try {
                    copy_all(step, to, replaces);
                } catch (const Error& error) {
                    ::_exit(static_cast<int>(error.code()));
                }
                ::_exit(0);
            }
            int status = 0;
            REQUIRE(::waitpid(child, &status, 0) == child);
            INFO("operation " << at << " status " << status);
            const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            const bool there = is_copied(plan_copy(Checkpoint::open(step), false), to);
            REQUIRE((there || !done));
            CHECK(io::exists(to) == (there || replaces));
            if (io::exists(to)) CHECK(good(to));
            if (!there) max_kept = std::max(max_kept, copy_all(step, to, replaces).n_kept);
            CHECK(good(to));
            if (!there || done) {
                CHECK(io::list_directory(scratch.path()) ==
                      std::vector<std::string>{"global_step1"});
            }
            if (done) break;
            ++n_cut;
        }
        CHECK(n_cut > 10);
        CHECK(max_kept == plan_copy(Checkpoint::open(step), false).n_bytes());
    }
}

TEST_CASE("copy: only valid regions of an earlier copy are kept") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const std::string step = save_step(scratch / "a", config, 3, 1);
    const std::string other = save_step(scratch / "other", config, 3, 2);
    const std::string to = scratch / "copied";
    const std::string temporary = copy_temporary(to);
    const auto leave = [&](const std::string& from, const std::string& name) {
        std::string text = test::read(from + "/" + name);
        io::make_directories(temporary);
        test::write(temporary + "/" + name, text);
        return text;
    };
    // Left by an interrupted copy of another step. The new copy keeps only the header, which is the
    // same in both steps.
    const std::string weights = leave(other, "weights-00000.safetensors");
    // Left by an interrupted copy of this step: part of a file with a flipped bit, a file that is
    // too long, and a file that is not part of the step.
    std::string optim = leave(step, "optim-00000.safetensors");
    optim.resize(optim.size() - 10);
    optim[optim.size() / 2] = static_cast<char>(optim[optim.size() / 2] ^ 1);
    test::write(temporary + "/optim-00000.safetensors", optim);
    const std::string whole = leave(step, "optim-00001.safetensors");
    test::write(temporary + "/optim-00001.safetensors", whole + "after");
    test::write(temporary + "/stray", "x");
    const CopyResult result = copy_all(step, to);
    CHECK(good(to));
    CHECK(io::list_directory(to) == io::list_directory(step));
    const i64 least = static_cast<i64>(whole.size());
    CHECK(result.n_kept > least);
    CHECK(result.n_kept < least + static_cast<i64>(optim.size()) / 2 + 10'000);
    CHECK(result.n_kept + result.n_copied == plan_copy(Checkpoint::open(step), false).n_bytes());
    CHECK_FALSE(io::exists(temporary));
}

TEST_CASE("copy: a corrupt source, an existing destination, two copies at a time") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const std::string step = save_step(scratch / "a", config, 3, 1);
    const std::string other = save_step(scratch / "other", config, 3, 2);
    const std::string to = scratch / "copied";
    copy_all(other, to);
    CHECK_THAT(test::error_of([&] { copy_all(step, to); }), ContainsSubstring(to + ": "));
    CHECK_FALSE(io::exists(copy_temporary(to)));

    const std::string file = step + "/optim-00001.safetensors";
    std::string bytes = test::read(file);
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
    test::write(file, bytes);
    CHECK_THAT(test::error_of([&] { copy_all(step, to, true); }),
               HasInOrder("optim-00001.safetensors: tensor final_norm.bias", "checksum"));
    CHECK(test::read(to + "/index-00000.json") == test::read(other + "/index-00000.json"));
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
    test::write(file, bytes);

    {
        auto lock = io::AppendFile::open(copy_temporary(to) + "/lock");
        REQUIRE(lock.lock());
        CHECK_THAT(test::error_of([&] { copy_all(step, to, true); }),
                   ContainsSubstring("another lm-ckpt process"));
    }
    CHECK(copy_all(step, to, true).n_kept > 0);
    CHECK(good(to));
    CHECK(test::read(to + "/index-00000.json") == test::read(step + "/index-00000.json"));
    CHECK_FALSE(io::exists(copy_temporary(to)));
}
