// SPDX-License-Identifier: Apache-2.0
// The manifest: fields of the run and its lineage, totals, versions and features.
#include "ckpt/format/manifest.hpp"

#include "base/hash.hpp"
#include "base/log.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/steps.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

Manifest sample() {
    Manifest manifest;
    manifest.model = test::small_model();
    manifest.generation = 3;
    manifest.run_id = new_run_id();
    manifest.parent = StepReference{8, "xxh3:" + std::string(32, 'b')};
    manifest.lineage = {{1, manifest.run_id, std::nullopt},
                        {3, manifest.run_id, StepReference{6, "xxh3:" + std::string(32, 'a')}}};
    manifest.writer = {"node7", "ann", "4711"};
    manifest.index = {{.file = "index-00000.json",
                       .digest = "xxh3:0",
                       .first_tensor = 0,
                       .last_tensor = 4,
                       .totals = {2, 100, {{SliceKind::weight, DType::bf16, 60}}}},
                      {.file = "index-00001.json",
                       .digest = "xxh3:1",
                       .first_tensor = 5,
                       .last_tensor = 9,
                       .totals = {3,
                                  200,
                                  {{SliceKind::weight, DType::bf16, 40},
                                   {SliceKind::named("row_scale"), DType::fp32, 8}}}}};
    return manifest;
}

// Returns the manifest's text with `to` instead of the first `from`, and with the digest of the
// changed text.
std::string changed(const Manifest& manifest, const std::string& from, const std::string& to) {
    std::string text = manifest_text(manifest);
    text.replace(text.find(from), from.size(), to);
    const size_t digits = text.size() - 4 - 32;
    text.replace(digits, 32, 32, '0');
    return text.replace(digits, 32, digest(text).substr(5));
}

}  // namespace

TEST_CASE("a manifest keeps run, lineage and totals") {
    const Manifest written = sample();
    const std::string text = manifest_text(written);
    const Manifest read = parse_manifest(text, "m");
    CHECK(read.digest == digest_of_manifest(text));
    CHECK(read.run_id == written.run_id);
    CHECK(read.run_id.size() == 16);
    CHECK(read.parent == written.parent);
    CHECK(read.lineage == written.lineage);
    CHECK(read.writer.job == "4711");
    const Totals totals = read.totals();
    CHECK(totals.files == 5);
    CHECK(totals.bytes == 300);
    REQUIRE(totals.kinds.size() == 2);
    CHECK(totals.kinds[0].bytes == 100);
    CHECK(totals.kinds[1].kind == SliceKind::named("row_scale"));
    CHECK(read.has(SliceKind::named("row_scale")));
    CHECK_FALSE(optimizer_of(read));
}

TEST_CASE("a step with one state of an optimizer is not a step with weights only") {
    struct Source {
        SliceKind kind;
        bool has(SliceKind wanted) const { return wanted == kind; }
    };
    CHECK_FALSE(optimizer_of(Source{SliceKind::weight}));
    CHECK_FALSE(optimizer_of(Source{SliceKind::master}));
    for (const spec::OptimizerState& state : spec::adam_states) {
        CHECK(optimizer_of(Source{state}) == spec::OptimizerKind::adam);
    }
}

TEST_CASE(
    "a reader names and refuses what it does not know, and reads a compatible newer version") {
    const auto error = [](const std::string& from, const std::string& to) {
        return test::error_of([&] { (void)parse_manifest(changed(sample(), from, to), "m"); });
    };
    CHECK_THAT(error("\"features\": []", "\"features\": [\"sparse\"]"),
               ContainsSubstring("'sparse'"));
    CHECK_THAT(error("\"min_reader_version\": 2", "\"min_reader_version\": 9"),
               ContainsSubstring("version 9"));
    CHECK(error("\"format_version\": 2", "\"format_version\": 7") == "no error");
    CHECK_THROWS_AS(parse_manifest("{}", "m"), DamageError);
}

TEST_CASE("faults in the JSON of a manifest or an index part are damage, other versions are not") {
    const auto is_damage = [](const std::string& from, const std::string& to) {
        try {
            (void)parse_manifest(changed(sample(), from, to), "m");
        } catch (const DamageError&) {
            return true;
        } catch (const Error&) {
            return false;
        }
        return false;
    };
    CHECK(is_damage("\"seed\": ", "\"sead\": "));
    CHECK(is_damage("\"seed\": ", "\"seed: "));
    CHECK(is_damage("\"iteration\": ", "\"iteration\": -0.5e"));
    CHECK(is_damage("\"num_layers\"", "\"layers\""));
    CHECK_FALSE(is_damage("\"features\": []", "\"features\": [\"sparse\"]"));
    CHECK_FALSE(is_damage("\"min_reader_version\": 2", "\"min_reader_version\": 9"));
    CHECK_FALSE(is_damage("\"LayerNorm\"", "\"NewNorm\""));
    const std::string part = index_text({.writer = 3, .files = {}});
    CHECK(parse_index(part, "i").writer == 3);
    CHECK_THROWS_AS(parse_index(part.substr(0, part.size() / 2), "i"), DamageError);
    std::string other = part;
    other.replace(other.find("writer"), 6, "author");
    CHECK_THROWS_AS(parse_index(other, "i"), DamageError);
}

TEST_CASE("numbers, types and names that no run writes are damage that names the file") {
    const auto damage = [](const std::string& from, const std::string& to) -> std::string {
        try {
            (void)parse_manifest(changed(sample(), from, to), "m");
        } catch (const DamageError& error) {
            return error.what();
        }
        return "";
    };
    const std::string most = std::to_string(INT64_MAX);
    const std::pair<std::string, std::string> changes[] = {
        {"\"generation\": 3", "\"generation\": " + most},
        {"\"generation\": 3", "\"generation\": -1"},
        {"\"generation\": 3", "\"generation\": \"3\""},
        {"\"generation\": 1", "\"generation\": " + most},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 0"},
        {"\"num_layers\": 2", "\"num_layers\": 0"},
        {"\"num_layers\": 2", "\"num_layers\": 1099511627776"},
        {"\"hidden_size\": 24", "\"hidden_size\": " + most},
        {"\"tensor_model_parallel_size\": 1", "\"tensor_model_parallel_size\": 0"},
        {"\"data_parallel_size\": 1", "\"data_parallel_size\": " + most},
        {"\"iteration\": 0", "\"iteration\": -1"},
        {"\"bytes\": 200", "\"bytes\": " + most},
        {"\"bytes\": 200", "\"bytes\": -200"},
        {"index-00000.json", "../index.json"},
        {"index-00000.json", "a\\u001bb.json"},
        {"index-00000.json", ""}};
    for (const auto& [from, to] : changes) {
        INFO(from << " -> " << to);
        CHECK(damage(from, to).starts_with("m: "));
    }
    Manifest manifest = sample();
    manifest.tensors = {{"huge", {i64{1} << 40, i64{1} << 40}, DType::fp32}};
    CHECK_THROWS_AS(parse_manifest(manifest_text(manifest), "m"), DamageError);
    manifest.tensors = {{"w", {2, 2}, DType::bf16}};
    CHECK(parse_manifest(manifest_text(manifest), "m").tensors.size() == 1);
    manifest.index.clear();  // has types, too
    CHECK_THROWS_AS(parse_manifest(changed(manifest, "bf16", "int5"), "m"), DamageError);
}

TEST_CASE("sizes and names of an index part that no run writes are damage") {
    const auto part = [](const std::string& file) {
        return R"({"format": "lm-utils checkpoint index", "format_version": 2, "writer": 0,
                  "files": [)" +
               file + "]}";
    };
    const std::string groups = R"(, "groups": [{"kind": "weight", "dtype": "fp32", "slices": [)";
    CHECK(parse_index(part(R"({"name": "a", "size": 8, "header": [8, "d"], "groups": []})"), "i")
              .files.size() == 1);
    for (const std::string& file :
         {std::string(R"({"name": "../a", "size": 8, "header": [8, "d"], "groups": []})"),
          std::string(R"({"name": "a", "size": 8, "header": [-1, "d"], "groups": []})"),
          std::string(R"({"name": "a", "size": 8, "header": [9, "d"], "groups": []})"),
          std::string(R"({"name": "a", "size": 8589934600, "header": [8589934592, "d"],
                          "groups": []})"),
          std::string(R"({"name": "a", "size": -8, "header": [8, "d"], "groups": []})"),
          std::string(R"({"name": "a", "size": 99, "header": [8, "d"])") + groups +
              R"([0, 8, [0, 9223372036854775807], [], ""]]}]})",
          std::string(R"({"name": "a", "size": 99, "header": [8, "d"])") + groups +
              R"([0, 9223372036854775807, [0, 1], [], ""]]}]})",
          std::string(R"({"name": "a", "size": 99, "header": [8, "d"])") + groups +
              R"([0, 8, [0, 0, 4611686018427387904, 4611686018427387904], [], ""]]}]})"}) {
        INFO(file);
        CHECK_THROWS_AS(parse_index(part(file), "i"), DamageError);
    }
}

TEST_CASE("a manifest that is nested too deeply is damage") {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    CHECK_THROWS_AS(
        parse_manifest(changed(sample(), "\"state\": {", "\"state\": {\"deep\": " + deep + ", "),
                       "m"),
        DamageError);
}

TEST_CASE("a run takes the previous step when the newest manifest is nested too deeply") {
    const test::ScratchDirectory scratch;
    test::Buffers buffers(test::small_model(), {});
    const Generation generation = claim(scratch.path());
    for (const i64 step : {2, 4})
        save(generation, test::info_of(test::small_model(), step), buffers.pieces());
    const std::string deep =
        "\"state\": {\"x\": " + std::string(1000, '[') + std::string(1000, ']') + ", ";
    test::write(scratch / "global_step4/manifest.json",
                changed(read_manifest(scratch / "global_step4"), "\"state\": {", deep));
    CHECK(open(scratch.path()).path() == scratch / "global_step2");
    test::write(scratch / "latest", "global_step2\nx\n" + std::string(300'000, '['));
    CHECK(latest_step(scratch.path()) == 2);
    CHECK(read_lineage(scratch.path()).steps.size() == 2);
}

TEST_CASE("a run takes the previous step when the newest manifest lacks a key") {
    const test::ScratchDirectory scratch;
    const spec::ModelConfig config = test::small_model();
    test::Buffers buffers(config, {});
    const Generation generation = claim(scratch.path());
    for (const i64 step : {2, 4}) save(generation, test::info_of(config, step), buffers.pieces());
    const std::string newest = scratch / "global_step4/manifest.json";
    test::write(newest,
                changed(read_manifest(scratch / "global_step4"), "\"seed\": ", "\"sead\": "));
    std::string warning;
    set_log_sink([&](Severity, std::string_view text) { warning = text; });
    CHECK(open(scratch.path()).path() == scratch / "global_step2");
    set_log_sink(nullptr);
    CHECK_THAT(warning, HasInOrder("manifest.json: 'seed' ", "missing"));
}
