// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as the manifest and the index part of a step, divided by a byte 0xFF. The
// digests are recomputed, as a hostile author would. Opening, verifying, loading and
// copying succeed or throw Error(failure), and write nothing outside of the copy.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/verify.hpp"
#include "fuzz_files.hpp"

namespace {

using namespace lm;

const std::string& step() {
    static const std::string path = [] {
        spec::ModelConfig model;
        model.n_layers = 1;
        model.hidden = 8;
        model.n_heads = 2;
        model.seq_length = 4;
        model.vocab_size = 13;
        model.resolve();
        const auto layout = spec::rank_layout(model, spec::tensor_table(model), {}, 0, 0);
        std::vector<float> weights(static_cast<size_t>(layout.n_elements), 0.5F);
        ckpt::SaveInfo info;
        info.model = model;
        info.counters.iteration = 5;
        info.state = R"({"a":[1,2]})";
        auto generation = ckpt::claim(fuzz::directory() + "/run");
        ckpt::save(generation, info,
                   ckpt::pieces_of(layout, ckpt::SliceKind::weight, DType::fp32, weights.data(), 0,
                                   layout.n_elements));
        return fuzz::directory() + "/run/global_step5";
    }();
    return path;
}

constexpr std::string_view key = "\"digest\": \"xxh3:";
constexpr size_t n_digits = 32;

void set_digits(std::string& text, size_t at, const std::string& digest) {
    if (at + n_digits <= text.size()) text.replace(at, n_digits, digest.substr(5));
}

// Sets the digest of the index part, which is the last but one in the text, and the digest of the
// manifest itself.
void repair_digests(std::string& manifest, const std::string& index) {
    constexpr size_t after = 4;  // "\n}\n and the quote
    if (manifest.size() < key.size() + n_digits + after) return;
    const size_t own = manifest.size() - n_digits - after;
    const size_t last = manifest.rfind(key);
    if (last != manifest.npos && last > 0) {
        const size_t part = manifest.rfind(key, last - 1);
        if (part != manifest.npos) set_digits(manifest, part + key.size(), digest(index));
    }
    manifest.replace(own, n_digits, n_digits, '0');
    set_digits(manifest, own, digest(manifest));
}

template <typename F>
void attempt(const F& f) {
    try {
        f();
    } catch (const Error& error) {
        if (error.code() != Exit::failure) std::abort();
    }
}

void load_and_copy(const std::string& to) {
    const auto checkpoint = ckpt::Checkpoint::open(step());
    for (const ckpt::TensorInfo& tensor : checkpoint.manifest().tensors) {
        if (tensor.shape.numel() > 10000) continue;
        attempt([&] { (void)checkpoint.load_fp32(tensor.name, ckpt::SliceKind::weight); });
    }
    attempt([&] { ckpt::copy(ckpt::plan_copy(checkpoint, false), to, {}); });
    attempt([&] { ckpt::copy(ckpt::plan_copy(checkpoint, true), to + "w", {}); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string all(reinterpret_cast<const char*>(data), size);
    const size_t cut = all.find('\xff');
    std::string manifest = all.substr(0, cut);
    const std::string index = cut == all.npos ? "" : all.substr(cut + 1);
    repair_digests(manifest, index);
    (void)step();
    fuzz::put("run/global_step5/manifest.json", manifest);
    fuzz::put("run/global_step5/index-00000.json", index);
    const std::string to = fuzz::directory() + "/to";
    std::filesystem::remove_all(to);
    std::filesystem::create_directory(to);
    attempt([] { (void)ckpt::verify(step(), [](i64) {}); });
    attempt([&] { load_and_copy(to + "/global_step5"); });
    for (const auto& entry : std::filesystem::directory_iterator(to)) {
        if (!entry.path().filename().string().starts_with("global_step5")) std::abort();
    }
    for (const auto& entry : std::filesystem::directory_iterator(fuzz::directory())) {
        const std::string name = entry.path().filename();
        if (name != "run" && name != "to") std::abort();
    }
    return 0;
}
