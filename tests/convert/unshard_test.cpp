// SPDX-License-Identifier: Apache-2.0
// Writes one model from the shards of any layout, and reads it with the project's own reader.
#include "convert/formats/unshard.hpp"

#include <cstring>

#include "base/error.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/support.hpp"
#include "convert/hf/files.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/safetensors_reader.hpp"

using namespace lm;
using namespace lm::convert;
using test::Buffers;

namespace {

ckpt::Checkpoint step_of(const std::string& directory, const spec::ModelConfig& config) {
    return ckpt::Checkpoint::open(test::save_grid(directory, config, {.tp = 2, .pp = 2}, 7, 1));
}

UnshardReport unsharded(const ckpt::Checkpoint& from, const std::string& out, i64 most = 1 << 30,
                        bool force = false, std::optional<DType> dtype = {}) {
    return unshard(from, {.out = out, .dtype = dtype, .max_shard_bytes = most, .force = force});
}

// Returns the number of fp32 tensors in `files`, and of elements that differ from those of fill(1).
std::pair<i64, i64> look(const std::vector<std::string>& files, const spec::ModelConfig& config) {
    const auto table = spec::tensor_table(config);
    i64 n_tensors = 0;
    i64 n_wrong = 0;
    for (const std::string& path : files) {
        const auto reader = test::SafetensorsReader::open(path);
        for (size_t at = 0; at < table.size(); ++at) {
            const ckpt::SafetensorsEntry* entry = reader.find(table[at].name);
            if (entry == nullptr) continue;
            ++n_tensors;
            const auto dims = table[at].shape.dims();
            CHECK(entry->dtype == "F32");
            CHECK(entry->shape == std::vector<i64>(dims.begin(), dims.end()));
            const auto bytes = reader.bytes(*entry);
            for (size_t i = 0; i < bytes.size() / 4; ++i) {
                float value = 0;
                std::memcpy(&value, bytes.data() + 4 * i, 4);
                n_wrong += value != Buffers::value(static_cast<i64>(at), static_cast<i64>(i),
                                                   ckpt::SliceKind::weight, 1);
            }
        }
    }
    return {n_tensors, n_wrong};
}

}  // namespace

TEST_CASE("unshard: one file, several with an index, and replacing one by the other") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const ckpt::Checkpoint step = step_of(scratch / "c", config);
    const auto n_tensors = static_cast<i64>(spec::tensor_table(config).size());
    io::make_directories(scratch / "out");
    const std::string out = scratch / "out/m.safetensors";

    const UnshardReport one = unsharded(step, out);
    CHECK(one.files == std::vector{out});
    CHECK(one.n_tensors == n_tensors);
    CHECK(one.n_bytes == 4 * spec::count_parameters(config).total());
    CHECK(look(one.files, config) == std::pair{n_tensors, i64{0}});
    const auto reader = test::SafetensorsReader::open(out);
    REQUIRE(reader.metadata().size() == 3);
    CHECK(io::parse_json(reader.metadata()[2].second, out).at("vocab_size") == 101);

    CHECK_THAT(test::error_of([&] { unsharded(step, out, 20'000); }, Exit::usage),
               ContainsSubstring("out/m.safetensors: "));
    test::write(scratch / "out/m-extra.safetensors", "another file");
    UnshardReport many = unsharded(step, out, 20'000, true);
    REQUIRE(many.files.size() > 3);
    CHECK(many.files.back() == out + ".index.json");
    CHECK_FALSE(io::exists(out));
    const io::Json index = io::read_json(many.files.back());
    CHECK(index.at("metadata").at("total_size") == one.n_bytes);
    many.files.pop_back();
    CHECK(many.files[0] ==
          scratch / fmt::format("out/m-00001-of-{:05}.safetensors", many.files.size()));
    CHECK(look(many.files, config) == std::pair{n_tensors, i64{0}});
    for (const auto& [name, file] : index.at("weight_map").items()) {
        const auto shard =
            test::SafetensorsReader::open(scratch / ("out/" + file.get<std::string>()));
        CHECK(shard.find(name) != nullptr);
    }
    CHECK_THAT(test::error_of([&] { unsharded(step, out); }, Exit::usage),
               ContainsSubstring("out/m.safetensors.index.json: "));
    unsharded(step, out, 1 << 30, true);
    CHECK(io::list_directory(scratch / "out") ==
          std::vector<std::string>{"m-extra.safetensors", "m.safetensors"});
}

TEST_CASE("unshard: element types; invalid requests are refused") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const ckpt::Checkpoint step = step_of(scratch / "c", config);
    const std::string out = scratch / "m.safetensors";
    unsharded(step, out, 1 << 30, false, DType::bf16);
    const auto reader = test::SafetensorsReader::open(out);
    const auto bytes = reader.bytes(*reader.find("layers.1.mlp.up.weight"));
    const auto wanted = step.load_fp32("layers.1.mlp.up.weight", ckpt::SliceKind::weight);
    REQUIRE(bytes.size() == 2 * wanted.size());
    i64 n_wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        u16 value = 0;
        std::memcpy(&value, bytes.data() + 2 * i, 2);
        n_wrong += value != bf16_from_fp32(wanted[i]);
    }
    CHECK(n_wrong == 0);

    CHECK_THAT(test::error_of([&] { unsharded(step, scratch / "m.bin"); }, Exit::usage),
               HasInOrder("m.bin: ", ".safetensors"));
    CHECK_THAT(test::error_of([&] { unsharded(step, scratch / "no/m.safetensors"); }),
               ContainsSubstring(scratch / "no"));
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    buffers.weight[5] = 1e6F;
    const auto large = ckpt::Checkpoint::open(
        ckpt::save(ckpt::claim(scratch / "d"), test::info_of(config, 1), buffers.pieces()).path);
    const std::string half = scratch / "half.safetensors";
    CHECK_THAT(test::error_of([&] { unsharded(large, half, 20'000, false, DType::fp16); }),
               ContainsSubstring("d/global_step1: tensor embedding.word.weight "));
    for (const std::string& name : io::list_directory(scratch.path())) {
        CHECK_FALSE(name.starts_with("half"));
    }
}
