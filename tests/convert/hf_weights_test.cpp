// SPDX-License-Identifier: Apache-2.0
// Weight files that transformers loads although they differ from what save_pretrained() writes, and
// weight files that it would not load.
#include "convert/hf/weights.hpp"

#include <unistd.h>

#include <array>
#include <cstring>
#include <map>

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "base/log.hpp"
#include "ckpt/format/safetensors.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "convert/conversions.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/hf/reference.hpp"
#include "convert/hf/to_hf.hpp"
#include "convert/torch/torch_writer.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "support/catch.hpp"
#include "support/safetensors_reader.hpp"

using namespace lm;
using namespace lm::convert;

namespace {

struct Tensor {
    std::string dtype;
    std::vector<i64> shape;
    std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

// A model as a checkpoint ("a") and as a Hugging Face model ("hf").
class Models {
  public:
    explicit Models(bool tied) : Models(tied, test::llama_model(2, 6, 2), "llama") {}
    Models(bool tied, spec::ModelConfig config, std::string_view type) {
        config.hidden = config.n_heads * config.head_dim;
        config.untied_head = !tied;
        config.attention_dropout = config.hidden_dropout = 0;
        config.seq_length = config.max_positions;
        config.resolve();
        test::save_grid(scratch_ / "a", config, {}, 3, 5);
        to_hf(test::forced_request(scratch_ / "a", hf()), *hf_class_of_type(type));
        const auto reader = test::SafetensorsReader::open(hf() + "/model.safetensors");
        for (const ckpt::SafetensorsEntry& entry : reader.entries()) {
            const auto bytes = reader.bytes(entry);
            tensors[entry.name] = {entry.dtype, entry.shape, {bytes.begin(), bytes.end()}};
        }
        io::remove_tree(hf() + "/model.safetensors");
    }

    std::string hf() const { return scratch_ / "hf"; }
    void write(const std::string& name, const Tensors& file) const {
        std::vector<ckpt::SafetensorsEntry> entries;
        for (const auto& [tensor, value] : file) {
            entries.push_back({tensor, value.dtype, value.shape, 0, 0});
        }
        auto writer =
            ckpt::SafetensorsWriter::create(hf() + "/" + name, entries, {}, io::Overwrite::yes);
        for (const auto& entry : writer.entries()) writer.append(file.at(entry.name).bytes);
        writer.commit();
    }
    // Writes all tensors to shard 1, those of `second` to shard 2, and an index without `unlisted`.
    void write_shards(const Tensors& second, const std::string& unlisted = "") const {
        io::Json index;
        for (const auto& [name, tensor] : tensors) index["weight_map"][name] = "one.safetensors";
        for (const auto& [name, tensor] : second) {
            if (!tensors.contains(name)) index["weight_map"][name] = "two.safetensors";
        }
        index["weight_map"].erase(unlisted);
        index["weight_map"]["model.norm.weight"] = "two.safetensors";
        Tensors first = tensors;
        first.erase("model.norm.weight");
        Tensors other = second;
        other["model.norm.weight"] = tensors.at("model.norm.weight");
        write("one.safetensors", first);
        write("two.safetensors", other);
        test::write(hf() + "/model.safetensors.index.json", index.dump());
    }
    // Writes all tensors to `file`, and an index that also names `absent`.
    void write_index(const std::vector<std::string>& absent, const std::string& file) const {
        io::Json index;
        for (const auto& [name, tensor] : tensors) index["weight_map"][name] = file;
        for (const std::string& name : absent) index["weight_map"][name] = file;
        const std::string path = file == "model.safetensors" ? "one.safetensors" : file;
        write(path, tensors);
        for (auto& [name, value] : index["weight_map"].items()) value = path;
        test::write(hf() + "/model.safetensors.index.json", index.dump());
    }
    // Returns whether the import gives the bits of the checkpoint, and the reference its logits.
    bool imports() const {
        from_hf(test::forced_request(hf(), scratch_ / "b"));
        bool equal = true;
        constexpr std::array weights{ckpt::SliceKind::weight};
        ckpt::diff(ckpt::open(scratch_ / "a"), ckpt::open(scratch_ / "b"), weights,
                   [&](const ckpt::TensorDifference& tensor) { equal &= tensor.equal(); });
        constexpr std::array<i32, 3> tokens{1, 2, 3};
        return equal && !hf_reference_logits(hf(), tokens).empty();
    }
    std::string error(Exit code = Exit::failure) const {
        return test::error_of([&] { from_hf(test::forced_request(hf(), scratch_ / "b")); }, code);
    }

    Tensors tensors;

  private:
    test::ScratchDirectory scratch_;
};

Tensor buffer(const std::string& dtype, size_t bytes_each) {
    return {dtype, {3}, std::vector<std::byte>(3 * bytes_each)};
}

const std::string word = "model.embed_tokens.weight";

}  // namespace

TEST_CASE("a tied model may store its matrix under either name or both") {
    Models models(true);
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
    models.tensors["lm_head.weight"] = models.tensors.at(word);
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
    models.tensors.erase(word);
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
    models.tensors[word] = models.tensors.at("lm_head.weight");
    models.tensors[word].bytes[0] ^= std::byte{1};
    models.write("model.safetensors", models.tensors);
    CHECK_THAT(models.error(), ContainsSubstring("lm_head.weight") && ContainsSubstring(word));
    models.tensors.erase(word);
    models.tensors.erase("lm_head.weight");
    models.write("model.safetensors", models.tensors);
    CHECK_THAT(models.error(), ContainsSubstring(word));
}

TEST_CASE("a GPT-NeoX may name its head as transformers 5 names that of every class") {
    Models models(false, test::neox_model(2, 5), "gpt_neox");
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
    auto head = models.tensors.extract("embed_out.weight");
    REQUIRE(!head.empty());
    head.key() = "lm_head.weight";
    models.tensors.insert(std::move(head));
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
}

TEST_CASE("a tensor may be in two shards if its bits are equal") {
    Models models(false);
    models.write_shards({{word, models.tensors.at(word)}});
    CHECK(models.imports());
    Tensor other = models.tensors.at(word);
    other.bytes.back() ^= std::byte{1};
    models.write_shards({{word, other}});
    CHECK_THAT(models.error(), ContainsSubstring("two.safetensors") && ContainsSubstring(word) &&
                                   ContainsSubstring("one.safetensors"));
}

// Measured with transformers 4.44.2: the shards are loaded in the order of their names, whatever
// the index names.
TEST_CASE("a tensor of an overlay shard replaces that of an earlier shard") {
    Models models(false);
    const Tensor right = models.tensors.at(word);
    Tensor stale = right;
    stale.bytes.back() ^= std::byte{1};
    models.tensors.at(word) = stale;
    models.write_shards({{word, right}});
    const std::string path = models.hf() + "/model.safetensors.index.json";
    io::Json index = io::read_json(path);
    index["weight_map"][word] = "two.safetensors";
    test::write(path, index.dump());
    CHECK(models.imports());  // the bits of the checkpoint, which the overlay has
    index["weight_map"].erase(word);
    test::write(path, index.dump());
    CHECK_THAT(models.error(), ContainsSubstring(word));
}

TEST_CASE("a tensor that the index does not list is ignored if the model does not need it") {
    Models models(false);
    const std::string extra = "model.layers.0.extra.weight";
    models.write_shards({{extra, buffer("F32", 4)}}, extra);
    CHECK(models.imports());
    models.write_shards({{extra, buffer("I64", 8)}}, extra);
    CHECK(models.imports());
    models.write_shards({{extra, buffer("F32", 4)}});
    CHECK_THAT(models.error(), ContainsSubstring(extra));
}

TEST_CASE("an index may list a buffer that no shard has, but no parameter") {
    Models models(false);
    for (const std::string name : {"model.layers.0.self_attn.rotary_emb.inv_freq",
                                   "model.layers.1.attn.masked_bias", "model.position_ids"}) {
        models.write_index({name}, "model.safetensors");
        CHECK(models.imports());
    }
    models.write_index({"model.layers.0.extra.weight"}, "model.safetensors");
    CHECK_THAT(models.error(), ContainsSubstring("model.layers.0.extra.weight"));
    models.tensors.erase("model.norm.weight");
    models.write_index({"model.norm.weight"}, "model.safetensors");
    CHECK_THAT(models.error(), ContainsSubstring("model.norm.weight"));
    // A tied model needs one of its two names.
    Models tied(true);
    tied.write_index({"lm_head.weight"}, "model.safetensors");
    CHECK(tied.imports());
    tied.tensors["lm_head.weight"] = tied.tensors.at(word);
    tied.tensors.erase(word);
    tied.write_index({word}, "model.safetensors");
    CHECK(tied.imports());
}

TEST_CASE("a shard may be in a subdirectory of the model, not outside of it") {
    Models models(false);
    io::make_directories(models.hf() + "/sub/deep");
    for (const std::string file : {"./a.safetensors", "sub/a.safetensors",
                                   "sub/./deep//a.safetensors", "sub/../a.safetensors"}) {
        models.write_index({}, file);
        CHECK(models.imports());
    }
    models.write("../a.safetensors", models.tensors);
    for (const std::string file : {"../a.safetensors", "sub/../../a.safetensors", ".", ""}) {
        io::Json index;
        index["weight_map"][word] = file;
        test::write(models.hf() + "/model.safetensors.index.json", index.dump());
        CHECK_THAT(models.error(), ContainsSubstring("index.json") && ContainsSubstring("below"));
    }
    io::Json index;
    index["weight_map"][word] = io::parent_of(models.hf()) + "/a.safetensors";
    test::write(models.hf() + "/model.safetensors.index.json", index.dump());
    CHECK_THAT(models.error(), ContainsSubstring("below"));
}

TEST_CASE("a tensor that the model does not use may have any type") {
    Models models(false);
    for (const auto& [dtype, size] : {std::pair{"I64", 8}, std::pair{"BOOL", 1},
                                      std::pair{"F8_E4M3", 1}, std::pair{"C64", 8}}) {
        models.tensors["model.token_counter"] = buffer(dtype, static_cast<size_t>(size));
        models.tensors["model.position_ids"] = buffer(dtype, static_cast<size_t>(size));
        models.write("model.safetensors", models.tensors);
        CHECK(models.imports());
    }
    models.tensors["model.token_counter"] = buffer("F32", 4);
    models.write("model.safetensors", models.tensors);
    CHECK_THAT(models.error(), ContainsSubstring("model.token_counter"));
}

TEST_CASE("a link without a target is named") {
    Models models(false);
    const auto link = [&](const std::string& name) {
        CHECK(symlink("../../blobs/1f2e3d", (models.hf() + "/" + name).c_str()) == 0);
        CHECK_THAT(models.error(), ContainsSubstring("hf/" + name + ": is a link to") &&
                                       ContainsSubstring("../../blobs/1f2e3d"));
    };
    link("pytorch_model.bin");
    link("model.safetensors");
    // A shard.
    io::Json index;
    index["weight_map"][word] = "one.safetensors";
    test::write(models.hf() + "/model.safetensors.index.json", index.dump());
    link("one.safetensors");
    // transformers passes over the links to files that are there.
    io::remove_tree(models.hf() + "/one.safetensors");
    io::remove_tree(models.hf() + "/model.safetensors.index.json");
    models.write_index({}, "one.safetensors");
    CHECK(models.imports());
    io::remove_tree(models.hf() + "/config.json");
    link("config.json");
}

TEST_CASE("model.safetensors wins over an index, as in transformers") {
    Models models(false);
    models.write_index({}, "one.safetensors");
    Tensors other = models.tensors;
    other.erase("model.norm.weight");
    models.write("model.safetensors", other);
    CHECK_THAT(models.error(), ContainsSubstring("model.norm.weight"));
    models.write("model.safetensors", models.tensors);
    models.tensors.clear();
    models.write("one.safetensors", models.tensors);
    std::string notes;
    set_log_sink([&](Severity, std::string_view text) { notes += text; });
    CHECK(models.imports());
    set_log_sink({});
    CHECK_THAT(notes, ContainsSubstring("model.safetensors.index.json"));
}

TEST_CASE("the types of buffers do not matter, those of parameters do") {
    Models models(false);
    for (const auto& [dtype, size] :
         {std::pair{"F64", 8}, std::pair{"U8", 1}, std::pair{"F32", 4}}) {
        models.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] =
            buffer(dtype, static_cast<size_t>(size));
        models.write("model.safetensors", models.tensors);
        CHECK(models.imports());
    }
    Tensor& norm = models.tensors["model.norm.weight"];
    norm.dtype = "I64";
    norm.bytes.resize(norm.bytes.size() * 2);
    models.write("model.safetensors", models.tensors);
    CHECK_THAT(models.error(), ContainsSubstring("model.norm.weight") && ContainsSubstring("I64"));
}

TEST_CASE("F64 parameters are rounded to F32") {
    Models models(false);
    for (auto& [name, tensor] : models.tensors) {
        tensor.dtype = "F64";
        const std::vector<std::byte> single = std::move(tensor.bytes);
        tensor.bytes.resize(single.size() * 2);
        for (size_t i = 0; i < single.size() / 4; ++i) {
            float value = 0;
            std::memcpy(&value, &single[4 * i], 4);
            const double wide = value * (1 + 1e-9);  // less than half a unit of F32 away
            std::memcpy(&tensor.bytes[8 * i], &wide, 8);
        }
    }
    models.write("model.safetensors", models.tensors);
    CHECK(models.imports());
}

TEST_CASE("a prefix of all names is named") {
    for (const std::string prefix : {"module.", "_orig_mod.", "base_model.model."}) {
        Models models(false);
        Tensors renamed;
        for (const auto& [name, tensor] : models.tensors) renamed[prefix + name] = tensor;
        models.write("model.safetensors", renamed);
        CHECK_THAT(models.error(), ContainsSubstring(prefix + word));
    }
    // torch.compile of the inner model.
    Models inner(false);
    Tensors renamed;
    for (const auto& [name, tensor] : inner.tensors) {
        const bool has_prefix = name.starts_with("model.");
        renamed[has_prefix ? "model._orig_mod." + name.substr(6) : name] = tensor;
    }
    inner.write("model.safetensors", renamed);
    CHECK_THAT(inner.error(), ContainsSubstring("model._orig_mod.embed_tokens.weight"));
    // A tied model that stores its head only.
    Models tied(true);
    renamed.clear();
    for (const auto& [name, tensor] : tied.tensors) {
        renamed["module." + (name == word ? "lm_head.weight" : name)] = tensor;
    }
    tied.write("model.safetensors", renamed);
    CHECK_THAT(tied.error(), ContainsSubstring("module.lm_head.weight"));
}

TEST_CASE("a checkpoint of a training script is told from a dict of tensors") {
    Models models(false);
    PickleWriter pickle;
    pickle.open_dict();
    pickle.key("state_dict").open_dict();
    pickle.close_dict();
    pickle.close_dict();
    TorchWriter::create(models.hf() + "/pytorch_model.bin", pickle).commit();
    CHECK_THAT(models.error(), ContainsSubstring("pytorch_model.bin: state_dict: "));
}

TEST_CASE("incomplete sets of files are named") {
    Models models(false);
    models.write_shards({});
    io::remove_tree(models.hf() + "/two.safetensors");
    CHECK_THAT(models.error(),
               ContainsSubstring("index.json") && ContainsSubstring("two.safetensors"));
    io::remove_tree(models.hf() + "/model.safetensors.index.json");
    models.write("model-00001-of-00002.safetensors", models.tensors);
    CHECK_THAT(models.error(Exit::usage), ContainsSubstring("model-00001-of-00002.safetensors") &&
                                              ContainsSubstring("model.safetensors.index.json"));
}

TEST_CASE("metadata of safetensors may be null") {
    Models models(false);
    models.write("model.safetensors", models.tensors);
    const std::string path = models.hf() + "/model.safetensors";
    std::string text = io::read_file(path);
    u64 length = 0;
    std::memcpy(&length, text.data(), sizeof length);
    const std::string added = R"("__metadata__":null,)";
    text.insert(9, added);
    length += added.size();
    std::memcpy(text.data(), &length, sizeof length);
    io::write_file(path, text, io::Overwrite::yes);
    CHECK(models.imports());
}
