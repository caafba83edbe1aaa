// SPDX-License-Identifier: Apache-2.0
#include "train/save/saver.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "ckpt/history/steps.hpp"
#include "cost/formulas.hpp"
#include "io/block_file.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

RoomNeed need_of_checkpoint(const RunConfig& config, const NodeFiles& files) {
    i64 bytes = cost::checkpoint_size(config.trainer.model, config.trainer.precision).total();
    for (const ckpt::TokenizerFile& file : config.tokenizer.files) bytes += file.bytes;
    return {bytes, files.n_files() + std::ssize(config.tokenizer.files)};
}

// Touches the memory of the blocks through which threads write files, so that the first save takes
// no longer than later saves.
void touch_blocks() {
    const std::vector<io::AlignedBlock> blocks(io::blocks_in_flight);
    for (const io::AlignedBlock& block : blocks) {
        std::ranges::fill(block.first(io::block_bytes), std::byte{0});
    }
}

// Returns on all ranks the `answer` of rank 0. Collective.
bool of_rank0(comm::Group& world, bool answer) {
    i64 value = answer ? 1 : 0;
    world.broadcast({&value, DType::int64, {1}}, 0);
    return value != 0;
}

}  // namespace

Saver::~Saver() {
    if (writer_.joinable()) writer_.join();
}

void Saver::prepare(const std::optional<ckpt::Tip>& loaded) {
    const config::CheckpointFlags& flags = parts_.config.checkpoints;
    retention_.reset();
    local_.reset();
    generation_ = claim_generation(parts_.world, flags.save, loaded);
    parent_.reset();
    if (loaded) parent_ = loaded->step;
    saved_ = -1;
    local_iteration_ = -1;
    const std::optional<ckpt::PruneRules>& retain = parts_.config.saves.retain;
    if (retain) retention_ = std::make_unique<Retention>(parts_.world, generation_, *retain);
    const TrainerConfig& trainer = parts_.config.trainer;
    const std::vector<ckpt::Piece> pieces = parts_.trainer.checkpoint_pieces();
    files_ = NodeFiles::plan(parts_.world, parallel::group_of_host(parts_.world),
                             ckpt::tensors_of(trainer.model, trainer.precision.weights), pieces);
    if (!flags.local_save.empty()) {
        local_ = LocalSaver::open(parts_.world, *files_, generation_, flags.local_save, loaded,
                                  parts_.config.tokenizer.files);
    }
    touch_blocks();
    const i64 most = trainer.save_buffer;
    if (most == 0 || snapshot_) return;
    const i64 share = snapshot_bytes(pieces);
    parallel::together(parts_.world, [&] {
        snapshot_ = std::make_unique<Snapshot>(std::min(most, share), trainer.n_threads);
    });
}

void Saver::save(const ckpt::SaveInfo& info) {
    finish();
    parts_.recorder.enter("save");
    try {
        begin(info);
        if (!snapshot_) write_and_commit();
    } catch (const JointError& error) {
        return failed(info.counters.iteration, error);
    }
    if (snapshot_) start_writing();
}

void Saver::save_locally(const ckpt::SaveInfo& info) {
    parts_.recorder.enter("local save");
    const Stopwatch watch;
    const bool saved = local_->save(with_parent(info), parts_.trainer.checkpoint_pieces());
    n_local_failures_ = saved ? 0 : n_local_failures_ + 1;
    if (saved) local_iteration_ = info.counters.iteration;
    if (!saved || !is_rank0()) return;
    parts_.log.saved_locally(info.counters.iteration, files_->n_nodes(), watch.elapsed_s());
}

// ---- the phases of a save ---------------------------------------------------------------------

ckpt::SaveInfo Saver::with_parent(ckpt::SaveInfo info) const {
    info.parent = parent_;
    return info;
}

void Saver::begin(const ckpt::SaveInfo& info) {
    in_flight_.emplace(InFlight{{parts_.world, *files_, generation_, with_parent(info)}});
    try {
        const RoomNeed need = need_of_checkpoint(parts_.config, *files_);
        if (retention_ && is_short_of_room(need)) retention_->finish(saved_);
        in_flight_->save.begin(need);
    } catch (...) {
        in_flight_.reset();
        throw;
    }
}

// Returns whether rank 0 finds too little free space in --save. Collective.
bool Saver::is_short_of_room(const RoomNeed& need) const {
    bool is_short = false;
    parallel::together(parts_.world, [&] {
        if (is_rank0()) is_short = !has_room(generation_.directory, need);
    });
    return of_rank0(parts_.world, is_short);
}

void Saver::write_and_commit() {
    in_flight_->save.write(parts_.trainer.checkpoint_pieces());
    commit();
}

void Saver::start_writing() {
    snapshot_->take(parts_.trainer.checkpoint_pieces());
    writing_ = true;
    bool here = snapshot_->needs_this_thread();
    try {
        if (!here) writer_ = start_thread([this] { write_files(); });
    } catch (const Error&) {
        here = true;  // no thread can be created: this thread writes
    }
    if (here) write_files();
    in_flight_->blocked_s = in_flight_->since_begin.elapsed_s();
}

void Saver::write_files() {
    in_flight_->save.write(snapshot_->pieces());
    snapshot_->release();
    writing_ = false;
}

void Saver::wait_for_originals() {
    if (!in_flight_ || !snapshot_) return;
    const Stopwatch watch;
    snapshot_->wait_for_originals();
    in_flight_->blocked_s += watch.elapsed_s();
}

void Saver::commit_if_written(bool any_writing, bool any_retaining) {
    if (in_flight_ && !any_writing) commit_or_warn();
    if (retention_) retention_->delete_if_verified(any_retaining);
}

void Saver::finish() {
    if (in_flight_) commit_or_warn();
}

void Saver::commit_or_warn() {
    parts_.recorder.enter("save");
    const i64 iteration = in_flight_->save.iteration();
    try {
        commit();
    } catch (const JointError& error) {
        failed(iteration, error);
    }
}

void Saver::commit() {
    const Stopwatch watch;
    if (writer_.joinable()) writer_.join();
    InFlight done = std::move(*in_flight_);
    in_flight_.reset();
    const ckpt::SaveResult result = done.save.commit();
    saved_ = done.save.iteration();
    save_s_ = done.since_begin.elapsed_s();
    n_failures_ = 0;
    if (is_rank0()) {
        parent_ = result.step;
        std::optional<double> blocked_s;
        if (done.blocked_s > 0) blocked_s = done.blocked_s + watch.elapsed_s();
        parts_.log.saved(result, saved_, done.since_begin.elapsed_s(), blocked_s);
    }
    if (retention_) retention_->start(saved_);
}

// ---- failures ---------------------------------------------------------------------------------

void Saver::failed(i64 iteration, const JointError& error) {
    if (error.code() != Exit::failure) throw error;
    const config::CheckpointFlags& flags = parts_.config.checkpoints;
    ++n_failures_;
    const std::string text =
        fmt::format("{}/{}: NOT SAVED: {}", flags.save, ckpt::step_name(iteration), error.what());
    if (flags.save_required) throw JointError(Exit::failure, text + ": --save-required is given");
    if (n_failures_ >= flags.save_failures) {
        throw JointError(
            Exit::failure,
            fmt::format("{}: failed saves in a row: {} (--save-failures)", text, n_failures_));
    }
    if (!is_rank0()) return;
    warn("{}: the training continues, and the next save tries again ({} of {} failures in a row)",
         text, n_failures_, flags.save_failures);
}

void Saver::save_last(const ckpt::SaveInfo& info, bool in_a_hurry) {
    const i64 iteration = info.counters.iteration;
    const config::CheckpointFlags& flags = parts_.config.checkpoints;
    const double retry_s = parts_.config.saves.retry_s;
    const Stopwatch since_start;
    constexpr double longest_pause_s = 10;
    for (double pause_s = 1;; pause_s = std::min(2 * pause_s, longest_pause_s)) {
        const std::string error = try_last(info);
        if (error.empty()) break;
        const std::string text =
            fmt::format("{}/{}: NOT SAVED: {}", flags.save, ckpt::step_name(iteration), error);
        if (!of_rank0(parts_.world, since_start.elapsed_s() + pause_s <= retry_s)) {
            throw JointError(Exit::failure, fmt::format("{}: the last save was repeated for up to "
                                                        "{} (--save-retry) without success",
                                                        text, human_duration(retry_s)));
        }
        if (is_rank0()) warn("{}: the last save is repeated in {}", text, human_duration(pause_s));
        std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    }
    if (retention_ && !in_a_hurry) retention_->finish(saved_);
}

// Saves the state, unless that state is saved already. Returns an empty text after a
// success, else the reason for the failure.
std::string Saver::try_last(const ckpt::SaveInfo& info) {
    parts_.recorder.enter("save");
    try {
        if (in_flight_) commit();
        if (saved_ == info.counters.iteration) return {};
        begin(info);
        write_and_commit();
        return {};
    } catch (const JointError& error) {
        if (error.code() != Exit::failure) throw;
        return error.what();
    }
}

}  // namespace lm::train
