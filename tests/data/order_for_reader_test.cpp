// SPDX-License-Identifier: Apache-2.0
// Not run by itself (hidden tag): opens the data that $LM_TEST_CONFIG (a JSON file) names and
// writes the requested samples of each set as int32 into $LM_TEST_OUT, for
// tests/live/megatron_order.py.
#include <cstdlib>
#include <fstream>

#include "data/sampling/datasets.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::data;

namespace {

void write_samples(const SampleSource& source, i64 n, std::ofstream& out) {
    std::vector<i32> tokens(static_cast<size_t>(source.seq_length()) + 1);
    for (i64 k = 0; k < n; ++k) {
        source.fill(k, tokens);
        out.write(reinterpret_cast<const char*>(tokens.data()),
                  static_cast<std::streamsize>(tokens.size() * sizeof(i32)));
    }
}

}  // namespace

TEST_CASE("samples of a configuration, for another reader", "[.live]") {
    const char* path = std::getenv("LM_TEST_CONFIG");
    const char* out = std::getenv("LM_TEST_OUT");
    REQUIRE(path != nullptr);
    REQUIRE(out != nullptr);
    const io::Json json = io::read_json(path);
    DataConfig config;
    config.order = parse_data_order(json["order"].get<std::string>());
    config.paths.data_path = json["data_path"].get<std::vector<std::string>>();
    config.split = json["split"].get<std::string>();
    config.seq_length = json["seq_length"].get<i64>();
    config.seed = json["seed"].get<u64>();
    config.vocab_size = 1 << 30;
    config.train_samples = json["train_samples"].get<i64>();
    config.valid_samples = json["valid_samples"].get<i64>();
    const DataSets sets = open_data(config);
    std::ofstream file(out, std::ios::binary);
    write_samples(*sets.train, config.train_samples, file);
    for (const NamedSource& set : sets.valid) {
        write_samples(*set.source, config.valid_samples, file);
    }
}
