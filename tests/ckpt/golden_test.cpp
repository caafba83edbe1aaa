// SPDX-License-Identifier: Apache-2.0
// A stored checkpoint of format version 2, which later releases must read
// (docs/checkpoint-format.md).
#include <cstring>

#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/support.hpp"
#include "ckpt/verbs/verify.hpp"
#include "support/catch.hpp"
#include "support/safetensors_reader.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

const std::string golden = std::string(LM_TEST_DIR) + "/golden/checkpoint";

}  // namespace

TEST_CASE("every tensor of the stored checkpoint has the bits that another reader found") {
    const Checkpoint checkpoint = ckpt::open(golden + "/run");
    CHECK(verify(checkpoint.path(), nullptr).problems.empty());
    const auto expected = test::SafetensorsReader::open(golden + "/tensors.safetensors");
    size_t n_compared = 0;
    for (const TensorInfo& tensor : checkpoint.manifest().tensors) {
        for (const SliceKind kind : all_kinds) {
            const auto* entry = expected.find(fmt::format("{}.{}", tensor.name, name_of(kind)));
            REQUIRE(entry != nullptr);
            std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
            const Region all = whole(tensor.shape);
            checkpoint.load(tensor.name, kind,
                            {all.box, 0, all.flat_end, DType::fp32, values.data()});
            const std::span<const std::byte> bytes = expected.bytes(*entry);
            REQUIRE(bytes.size() == values.size() * sizeof(float));
            INFO(entry->name);
            CHECK(std::memcmp(bytes.data(), values.data(), bytes.size()) == 0);
            ++n_compared;
        }
    }
    CHECK(n_compared == expected.entries().size());
}

TEST_CASE("the stored checkpoint has its counters, lineage and claims") {
    const Lineage lineage = read_lineage(golden + "/run");
    CHECK(lineage.latest == 4);
    REQUIRE(lineage.tip);
    REQUIRE(lineage.steps.size() == 1);
    CHECK(lineage.current(lineage.steps.front()));
    const Manifest& manifest = *lineage.steps.front().manifest;
    CHECK(lineage.tip->step == manifest.reference());
    CHECK(lineage.tip->lineage == manifest.lineage);
    CHECK(manifest.counters.iteration == 4);
    CHECK(manifest.counters.consumed_samples == 16);
    CHECK(manifest.parent->iteration == 2);
    CHECK(manifest.lineage.size() == 2);
    CHECK(manifest.parallel.tp == 2);
    CHECK(manifest.totals().files == 5);
    CHECK(newest_claim(golden + "/run")->number == 2);
}
