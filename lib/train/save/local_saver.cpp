// SPDX-License-Identifier: Apache-2.0
#include "train/save/local_saver.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/log.hpp"
#include "base/machine.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/local_steps.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/lines.hpp"
#include "io/path.hpp"
#include "parallel/together.hpp"
#include "train/save/distributed_save.hpp"
#include "train/save/save_report.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {
namespace {

using parallel::together;

constexpr std::string_view owner_file = "durable-directory";  // contains the path of --save

std::string canonical_text(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path, ignored).string();
}

// Claims `directory`, the directory of this host, for runs whose --save is `save`. Throws
// Error(usage) when it has steps of other runs.
void claim_local_directory(const std::string& directory, const std::string& save) {
    const std::string path = fmt::format("{}/{}", directory, owner_file);
    for (const std::string& old : io::stale_temporaries(path)) io::remove_tree(old);
    const std::string own = canonical_text(save);
    if (io::exists(path)) {
        const std::string owner = io::read_file(path);
        if (owner == own) return;
        if (!ckpt::steps_in(directory).empty()) {
            usage_error(directory,
                        "--local-save: contains steps of a run with --save {}: give another "
                        "directory, or remove this directory",
                        owner);
        }
    } else if (!ckpt::steps_in(directory).empty()) {
        usage_error(directory,
                    "--local-save: contains steps that were not written by --local-save: give "
                    "another directory");
    }
    io::write_file(path, own, io::Overwrite::yes);
}

// Returns whether the step is `loaded` or one of its ancestors. Throws Error when the manifest of
// the step cannot be read.
bool is_ancestor(const std::string& step_path, const std::optional<ckpt::Tip>& loaded) {
    const std::string file = fmt::format("{}/{}", step_path, ckpt::local_manifest_file);
    const ckpt::Manifest manifest = ckpt::parse_manifest(ckpt::read_step_file(file), file);
    return loaded && ckpt::on_branch(manifest, *loaded);
}

}  // namespace

std::string local_directory_of_host(const std::string& local_save) {
    return local_save + "/" + host_name();
}

io::Directory open_local_directory(const std::string& name) {
    auto directory = io::Directory::open(name);
    struct stat status {};
    if (::stat(directory.path().c_str(), &status) != 0)
        io::system_error(name, "get the status", errno);
    if (status.st_uid != ::geteuid() || (status.st_mode & S_IWOTH) != 0) {
        run_error(name,
                  "--local-save: other users can change its steps: remove it, or give another "
                  "directory");
    }
    return directory;
}

std::unique_ptr<LocalSaver> LocalSaver::open(comm::Group& world, NodeFiles& files,
                                             const ckpt::Generation& generation,
                                             const std::string& local_save,
                                             const std::optional<ckpt::Tip>& loaded,
                                             const std::vector<ckpt::TokenizerFile>& tokenizer) {
    std::unique_ptr<LocalSaver> saver(
        new LocalSaver(world, files, generation, local_directory_of_host(local_save)));
    together(world, [&] {
        if (files.leads()) saver->prepare_directory(loaded);
    });
    together(world, [&] { saver->directory_ = open_local_directory(saver->name_); });
    saver->share(tokenizer);
    saver->partner_ = PartnerCopy::connect(world, files);
    if (files.n_nodes() == 1 && world.rank() == 0) {
        note(
            "--local-save: the run has one host, so its local steps have no copy on a partner "
            "host");
    }
    return saver;
}

// Sends the files of the tokenizer from rank 0 to the leaders of hosts.
void LocalSaver::share(const std::vector<ckpt::TokenizerFile>& tokenizer) {
    std::string names;
    for (const ckpt::TokenizerFile& file : tokenizer) names += file.name + "\n";
    names = parallel::broadcast_text(world_, names);
    size_t at = 0;
    for (const std::string_view name : io::lines_of(names)) {
        std::string text = world_.rank() == 0 ? *tokenizer[at++].text : "";
        text = parallel::broadcast_text(world_, text);
        if (files_.leads()) tokenizer_.push_back(ckpt::tokenizer_file(name, std::move(text)));
    }
}

void LocalSaver::prepare_directory(const std::optional<ckpt::Tip>& loaded) const {
    io::make_directories(io::parent_of(name_));
    io::checked::make_directory(name_);  // refuses a link
    io::checked::fsync_parent_of(name_);
    const io::Directory directory = open_local_directory(name_);
    claim_local_directory(directory.path(), generation_.directory);
    for (const std::string& name : io::list_directory(directory.path())) {
        const std::string path = directory / name;
        if (ckpt::is_leftover(name) && name.find(ckpt::temporary_mark) != name.npos)
            io::remove_tree(path);
        if (ckpt::step_from_name(name) < 0) continue;
        try {
            if (is_ancestor(path, loaded)) continue;
        } catch (const Error& error) {
            warn("{}: {}: the step is kept until later local steps replace it", path, error.what());
            continue;
        }
        note("{}: removed: it is not an ancestor of the state that this run starts from", path);
        io::remove_tree(path);
    }
}

std::string LocalSaver::final_path() const {
    return *directory_ / ckpt::step_name(iteration_);
}

std::string LocalSaver::temporary() const {
    return fmt::format("{}{}{}", final_path(), ckpt::temporary_mark, generation_.number);
}

bool LocalSaver::save(const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces) {
    iteration_ = info.counters.iteration;
    try {
        begin();
        const std::string manifest = write(info, pieces);
        const std::exception_ptr error = partner_->exchange(temporary());
        together(world_, [&] {
            if (error) std::rethrow_exception(error);
        });
        publish(manifest);
    } catch (const JointError& error) {
        abandon();
        if (error.code() != Exit::failure) throw;
        if (world_.rank() != 0) return false;
        warn(
            "--local-save: iteration {}: NOT SAVED: {}: the training continues, and the next local "
            "save tries again",
            iteration_, error.what());
        return false;
    }
    if (files_.leads()) remove_older(iteration_ + 1, ckpt::local_steps_kept);
    return true;
}

// Frees space if needed, and creates the temporary directory of each host.
void LocalSaver::begin() {
    together(world_, [&] {
        if (world_.rank() == 0) ckpt::check_not_superseded(generation_);
        if (!files_.leads()) return;
        // At most: the files of three nodes, a manifest, a directory, the files of the tokenizer.
        constexpr i64 max_files = 20;
        i64 bytes = files_.node_bytes() + partner_->incoming_bytes();
        for (const ckpt::TokenizerFile& file : tokenizer_) bytes += file.bytes;
        const RoomNeed need{bytes, max_files};
        if (!has_room(directory_->path(), need)) make_room();
        check_room(directory_->path(), need);
        io::remove_tree(temporary());
        io::checked::make_directory(temporary());
    });
}

// Writes the files of this node. Returns the manifest of the step on all ranks.
std::string LocalSaver::write(const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces) {
    SaveReport report;
    report.add(world_.rank(), [&] { report.text = files_.write(temporary(), pieces); });
    files_.write_node_index(temporary(), report);
    conclude(world_, report);
    std::string manifest;
    together(world_, [&] {
        if (world_.rank() != 0) return;
        manifest =
            ckpt::manifest_text(ckpt::manifest_of(generation_, info, references_from(report.text)));
    });
    return parallel::broadcast_text(world_, manifest);
}

// Completes the step on all hosts, and only then makes it visible.
void LocalSaver::publish(const std::string& manifest) {
    together(world_, [&] {
        if (!files_.leads()) return;
        ckpt::write_tokenizer_files(tokenizer_, temporary());
        io::write_file(fmt::format("{}/{}", temporary(), ckpt::local_manifest_file), manifest,
                       io::Overwrite::no);
        io::checked::fsync_path(temporary());
    });
    together(world_, [&] {
        if (!files_.leads()) return;
        if (io::exists(final_path())) {
            io::checked::exchange_directories(temporary(), final_path());
            io::remove_tree(temporary());
        } else {
            io::checked::rename(temporary(), final_path());
        }
        io::checked::fsync_parent_of(final_path());
    });
}

void LocalSaver::abandon() const noexcept {
    if (!files_.leads()) return;
    try {
        io::remove_tree(temporary());
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
}

// Frees space for the step of iteration_. Removes all steps of this host except the newest step
// before iteration_.
void LocalSaver::make_room() const {
    for (const i64 step : ckpt::steps_in(directory_->path())) {
        if (step < iteration_) continue;
        // An earlier save has not removed this step, because its manifest cannot be read or because
        // the run was rolled back to an earlier step.
        const std::string path = *directory_ / ckpt::step_name(step);
        note(
            "{}: removed to free space, although it is not older than step {}, which is being "
            "saved (the run was rolled back, or the manifest cannot be read)",
            path, iteration_);
        io::remove_tree(path);
    }
    remove_older(iteration_, 1);
}

// Removes the local steps of this host before iteration `before`, except the newest `n_kept`.
void LocalSaver::remove_older(i64 before, size_t n_kept) const {
    try {
        std::vector<i64> steps = ckpt::steps_in(directory_->path());
        std::erase_if(steps, [before](i64 step) { return step >= before; });
        for (size_t at = 0; at + n_kept < steps.size(); ++at) {
            io::remove_tree(*directory_ / ckpt::step_name(steps[at]));
        }
    } catch (const Error& error) {
        warn("--local-save: {}", error.what());
    }
}

}  // namespace lm::train
