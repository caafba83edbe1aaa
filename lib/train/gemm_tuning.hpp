// SPDX-License-Identifier: Apache-2.0
// --autotune DIR: before anything of a run is allocated, its matrix products are measured on its
// device, and what was fastest is kept in DIR, a small file for each. What is there already is
// taken as it is, so that a resumed run and every rank multiply alike.
#pragma once

#include <string>

#include "device/tuned_choices.hpp"
#include "train/trainer.hpp"

namespace lm::train {

// Choices in a directory, which is made when it is missing. A file's first line is the key, its
// second the choice.
class ChoicesInDirectory final : public device::TunedChoices {
  public:
    explicit ChoicesInDirectory(std::string directory);
    std::string find(const std::string& key) override;
    std::string store(const std::string& key, const std::string& choice) override;
    i64 n_found() const { return n_found_; }
    i64 n_kept() const { return n_kept_; }

  private:
    std::string path_of(const std::string& key) const;
    std::string directory_;
    i64 n_found_ = 0;
    i64 n_kept_ = 0;
};

// A linear layer of the model: [rows, inputs] to [rows, outputs].
struct LinearShape {
    i64 rows = 0;
    i64 inputs = 0;
    i64 outputs = 0;
    bool bias = false;
    bool bias_gradient = false;
    bool accumulated = false;  // gradients of weights are also added to those that are there
    // Of its outputs, and that which made its inputs.
    device::Activation activation = device::Activation::none;
    device::Activation input_activation = device::Activation::none;
    friend bool operator==(const LinearShape&, const LinearShape&) = default;
};
// Those of tensor rank `tp_rank`, for full sequences.
std::vector<LinearShape> linear_shapes(const TrainerConfig& config, i64 tp_rank);

// Runs every product of those once on memory of its own, for a device that is tuning.
void tune_linear_layers(device::Device& device, const TrainerConfig& config,
                        const std::vector<LinearShape>& shapes);

}  // namespace lm::train
