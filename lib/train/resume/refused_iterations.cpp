// SPDX-License-Identifier: Apache-2.0
#include "train/resume/refused_iterations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "parallel/together.hpp"
#include "train/config/run_json.hpp"

namespace lm::train {
namespace {

constexpr std::tuple range_fields{
    std::pair{"first", &RefusedRange::first}, std::pair{"last", &RefusedRange::last},
    std::pair{"rolled_back", &RefusedRange::rolled_back}, std::pair{"spike", &RefusedRange::spike},
    std::pair{"in_a_row", &RefusedRange::in_a_row}};

RefusedRange range_from(const io::Json& object, const std::string& path) {
    RefusedRange range;
    io::read_object(range, object, range_fields, path);
    if (range.first > 0 && range.first <= range.last && range.in_a_row >= 0) return range;
    fail(Exit::failure, path,
         "corrupt: a range has the iterations {} to {} and {} refused steps in a row", range.first,
         range.last, range.in_a_row);
}

std::vector<RefusedRange> ranges_from(const io::Json& document, const std::string& path) {
    std::vector<RefusedRange> ranges;
    for (const io::Json& each : io::json_get<std::vector<io::Json>>(document, "ranges", path)) {
        ranges.push_back(range_from(each, path));
    }
    return ranges;
}

// Returns the ranges in the file at `path`. Returns no ranges when the file does not exist, cannot
// be read or was written for other batches than `batches`.
std::vector<RefusedRange> ranges_in_file(const std::string& path, const std::string& batches) {
    try {
        if (!io::exists(path)) return {};
        const io::Json document = io::read_json(path);
        std::vector<RefusedRange> ranges = ranges_from(document, path);
        if (io::json_get<std::string>(document, "batches", path) == batches) return ranges;
        note("{}: ignored: it was written for other batches than those of this run", path);
    } catch (const std::exception& error) {
        warn("{}: this run trains on the iterations that earlier starts refused", error.what());
    }
    return {};
}

// Returns the path of the file in `directory`, without symbolic links. If `directory` is a step,
// the file is in the directory of steps that contains it. Returns an empty path for an empty
// `directory`.
std::string file_of_run(const std::string& directory) {
    if (directory.empty()) return {};
    std::error_code ignored;
    std::filesystem::path path = std::filesystem::weakly_canonical(directory, ignored);
    if (!path.has_filename()) path = path.parent_path();  // "DIR/" becomes "DIR"
    if (ckpt::step_from_name(path.filename().string()) >= 0) path = path.parent_path();
    return (path / refused_iterations_file).string();
}

io::OrderedJson list_of(const std::vector<RefusedRange>& ranges) {
    io::OrderedJson list = io::OrderedJson::array();
    for (const RefusedRange& each : ranges) list.push_back(io::object_of(each, range_fields));
    return list;
}

// Prints a note that names the ranges after iteration `start`, at most ten of them.
void note_ranges(const std::vector<RefusedRange>& ranges, i64 start, const std::string& path) {
    constexpr size_t most = 10;
    std::string text;
    size_t n = 0;
    for (const RefusedRange& range : ranges) {
        if (range.last <= start || ++n > most) continue;
        text += fmt::format("{}{}-{}", n == 1 ? "" : ", ", range.first, range.last);
    }
    if (n == 0) return;
    if (n > most) text += fmt::format(", ... ({} ranges in all)", n);
    note("{}: iterations {} are skipped again, because an earlier start refused their batches",
         path, text);
}

}  // namespace

RefusedIterations RefusedIterations::read(comm::Group& world, const std::string& save,
                                          const std::string& load, const std::string& batches,
                                          i64 start) {
    RefusedIterations refused;
    refused.batches_ = batches;
    if (world.rank() == 0) {
        const std::string own = file_of_run(save), loaded = file_of_run(load);
        if (!own.empty()) {
            refused.path_ = fmt::format("{}/{}", save, refused_iterations_file);
            refused.ranges_ = ranges_in_file(refused.path_, batches);
            note_ranges(refused.ranges_, start, refused.path_);
        }
        if (!loaded.empty() && loaded != own) refused.adopt(loaded, start);
    }
    const std::string text = parallel::broadcast_text(
        world, io::OrderedJson{{"ranges", list_of(refused.ranges_)}}.dump());
    refused.ranges_ = ranges_from(io::parse_json(text, refused.path_), refused.path_);
    return refused;
}

void RefusedIterations::adopt(const std::string& path, i64 start) {
    const std::vector<RefusedRange> others = ranges_in_file(path, batches_);
    note_ranges(others, start, path);
    for (const RefusedRange& range : others) {
        const bool known = std::ranges::any_of(ranges_, [&](const RefusedRange& own) {
            return own.contains(range.first) && own.contains(range.last);
        });
        if (!known) add(range);
    }
}

void RefusedIterations::add(const RefusedRange& range) {
    std::erase_if(ranges_, [&](const RefusedRange& other) {
        const bool inside = range.contains(other.first) && range.contains(other.last);
        return inside || other.last == range.last;
    });
    ranges_.push_back(range);
    if (path_.empty()) return;
    try {
        io::make_directories(io::parent_of(path_));
        for (const std::string& old : io::stale_temporaries(path_)) io::remove_tree(old);
        const io::OrderedJson document = {{"batches", batches_}, {"ranges", list_of(ranges_)}};
        io::write_file(path_, document.dump() + "\n", io::Overwrite::yes);
    } catch (const std::exception& error) {
        warn("{}: a restart before the next save trains on iterations {} to {}", error.what(),
             range.first, range.last);
    }
}

const RefusedRange* RefusedIterations::find(i64 iteration) const {
    const auto found = std::ranges::find_if(
        ranges_, [iteration](const RefusedRange& range) { return range.contains(iteration); });
    return found == ranges_.end() ? nullptr : &*found;
}

std::string digest_of_batches(const RunConfig& config, const io::OrderedJson& data) {
    io::OrderedJson batches = {{"data", data}, {"sizes", io::OrderedJson::array()}};
    const auto add = [&](config::Block block, const io::OrderedJson& values) {
        for (const auto& [key, value] : values.items()) {
            const config::OnResume rule = config::resume_rule(block, key).on_resume;
            if (rule == config::OnResume::samples) batches[key] = value;
        }
    };
    add(config::Block::model, ckpt::to_json(config.trainer.model));
    add(config::Block::training, training_json(config));
    // Megatron's orders shuffle the samples of the whole training, so they depend on the number of
    // samples.
    if (config.data_order != data::DataOrder::stateless) {
        batches["train_samples"] = config.schedule.planned_samples();
    }
    // A data set may have moved to another directory.
    for (io::OrderedJson& set : batches["data"]) set.erase("prefix");
    for (const spec::RampStep& stage : config.schedule.ramp().stages()) {
        batches["sizes"].push_back({stage.consumed_before, stage.batch});
    }
    return digest(batches.dump());
}

}  // namespace lm::train
