// SPDX-License-Identifier: Apache-2.0
// --autotune DIR: before a run allocates its buffers, it measures its matrix products on the GPU
// and stores the fastest algorithm of each product in a small file in DIR. If DIR already has a
// choice for a product, the run uses that choice without measuring. So a resumed run and all ranks
// use the same algorithms.
#pragma once

#include <string>

#include "device/tuned_choices.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// Stores each choice in a file of its own in a directory. The first store() creates the directory.
// The first line of a file is the key, the second line the choice.
class ChoicesInDirectory final : public device::TunedChoices {
  public:
    explicit ChoicesInDirectory(std::string directory) : directory_(std::move(directory)) {}
    std::string find(const std::string& key) override;
    std::string store(const std::string& key, const std::string& choice) override;
    i64 n_found() const { return n_found_; }  // choices that find() has read
    i64 n_kept() const { return n_kept_; }    // choices that store() has written

  private:
    std::string path_of(const std::string& key) const;
    std::string directory_;
    i64 n_found_ = 0;
    i64 n_kept_ = 0;
};

// A linear layer of the model, from [rows, inputs] to [rows, outputs].
struct LinearShape {
    i64 rows = 0;
    i64 inputs = 0;
    i64 outputs = 0;
    bool bias = false;
    bool bias_gradient = false;
    bool accumulated = false;  // weight gradients are added to earlier weight gradients
    device::Activation activation = device::Activation::none;        // applied to the outputs
    device::Activation input_activation = device::Activation::none;  // its results are the inputs
    friend bool operator==(const LinearShape&, const LinearShape&) = default;
};

// Returns the linear layers of tensor rank `tp_rank` for full sequences.
std::vector<LinearShape> linear_shapes(const TrainerConfig& config, i64 tp_rank);

// Runs the forward and backward matrix products of each layer in `shapes`. The device measures a
// product when the product runs for the first time. Allocates memory for the operands, and releases
// it.
void tune_linear_layers(device::Device& device, const TrainerConfig& config,
                        const std::vector<LinearShape>& shapes);

}  // namespace lm::train
