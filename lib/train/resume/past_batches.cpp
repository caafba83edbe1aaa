// SPDX-License-Identifier: Apache-2.0
#include "train/resume/past_batches.hpp"

#include <tuple>

namespace lm::train {
namespace {

using spec::BatchRamp;
constexpr std::tuple ramp_fields{
    std::pair{"start", &BatchRamp::start}, std::pair{"increment", &BatchRamp::increment},
    std::pair{"samples", &BatchRamp::samples}, std::pair{"global_batch", &BatchRamp::global_batch}};
constexpr std::tuple step_fields{std::pair{"samples", &spec::BatchFrom::samples},
                                 std::pair{"batch", &spec::BatchFrom::batch}};
constexpr std::tuple until_fields{std::pair{"iteration", &spec::Counters::iteration},
                                  std::pair{"samples", &spec::Counters::samples},
                                  std::pair{"tokens", &spec::Counters::tokens}};

io::OrderedJson ramp_json(const BatchRamp& ramp) {
    io::OrderedJson json = io::object_of(ramp, ramp_fields);
    json["steps"] = io::OrderedJson::array();
    for (const spec::BatchFrom& step : ramp.steps)
        json["steps"].push_back(io::object_of(step, step_fields));
    return json;
}

BatchRamp ramp_from(const io::Json& json, const std::string& path) {
    BatchRamp ramp;
    io::read_object(ramp, json, ramp_fields, path);
    for (const io::Json& step : io::json_get<io::Json>(json, "steps", path))
        io::read_object(ramp.steps.emplace_back(), step, step_fields, path);
    ramp.check();
    return ramp;
}

}  // namespace

io::OrderedJson batches_json(const spec::Schedule& schedule) {
    io::OrderedJson past = io::OrderedJson::array();
    for (const spec::PastBatches& part : schedule.past())
        past.push_back(
            {{"ramp", ramp_json(part.ramp)}, {"until", io::object_of(part.until, until_fields)}});
    return {{"ramp", ramp_json(schedule.ramp())}, {"past", past}};
}

spec::Schedule schedule_after(const spec::Schedule& schedule, const ckpt::Checkpoint& checkpoint) {
    const std::string& path = checkpoint.path();
    const ckpt::StepCounters& saved = checkpoint.manifest().counters;
    const spec::Counters done{saved.iteration, saved.consumed_samples, saved.consumed_tokens};
    const io::Json state = io::parse_json(checkpoint.manifest().state, path);
    std::vector<spec::PastBatches> past;
    BatchRamp ramp = schedule.ramp();
    if (const auto batches = state.find("batches"); batches != state.end()) {
        for (const io::Json& part : io::json_get<io::Json>(*batches, "past", path)) {
            spec::Counters until;
            io::read_object(until, io::json_get<io::Json>(part, "until", path), until_fields, path);
            past.push_back({ramp_from(io::json_get<io::Json>(part, "ramp", path), path), until});
        }
        ramp = ramp_from(io::json_get<io::Json>(*batches, "ramp", path), path);
    }
    // Without a change, the ramp also describes the iterations before the resume.
    const spec::Counters begin = past.empty() ? spec::Counters{} : past.back().until;
    const bool fits =
        spec::samples_after(ramp, done.iteration - begin.iteration, begin.samples) == done.samples;
    if (ramp != schedule.ramp() || !fits) past.push_back({ramp, done});
    return past.empty() ? schedule : schedule.with_past(std::move(past));
}

}  // namespace lm::train
