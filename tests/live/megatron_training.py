#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""megatron_training.py BUILD [--recorded | --record] [NAME...]: trainings of 40 iterations by lm-train and by megatron-core,
with the same weights, data and flags. --recorded compares lm-train with the numbers that --record wrote."""
# venv: .venv-megatron
import json
import os
import sys
import tempfile
import time

import live
import megatron_scenarios as scenarios

RECORD = os.path.join(live.ROOT, "tests", "golden", "megatron", "trainings.json")
LOSS, NORM, RATE = 5e-6, 1e-5, 1e-12  # absolute, relative, relative


def difference(name, ours, reference):
    """Returns the largest differences of losses and norms; ends the test if lengths, rates or samples differ."""
    if {key: len(values) for key, values in ours.items()} != {key: len(values) for key, values in reference.items()}:
        live.fail(f"{name}: {[len(values) for values in ours.values()]} numbers, {[len(v) for v in reference.values()]} expected")
    if ours["samples"] != reference["samples"]:
        live.fail(f"{name}: samples {ours['samples']}, {reference['samples']} expected")
    for got, wanted in zip(ours["rates"], reference["rates"]):
        if abs(got - wanted) > RATE * abs(wanted):
            live.fail(f"{name}: rates {ours['rates']}, {reference['rates']} expected")
    losses = [abs(a - b) for key in ("losses", "validation") for a, b in zip(ours[key], reference[key])]
    norms = [abs(a - b) / b for a, b in zip(ours["norms"], reference["norms"])]
    return max(losses), max(norms)


def reference_of(name, recorded):
    if recorded is not None:
        return recorded[name]
    import megatron_reference
    if not megatron_reference.torch.distributed.is_initialized():
        megatron_reference.start()
    scenario = scenarios.SCENARIOS[name]
    return megatron_reference.Training(scenario.shared(), scenarios.first_weights(scenario)).run()


def write_record(numbers):
    """Writes the file with a line for each series of a scenario."""
    digits = {"losses": 9, "validation": 9, "norms": 8, "rates": 15, "samples": 15}
    series = [f'{json.dumps(name)}: {{' + ",\n".join(
        f'"{key}": [' + ", ".join(f"{value:.{digits[key]}g}" for value in values) + "]" for key, values in items.items()) + "}"
              for name, items in numbers.items()]
    with open(RECORD, "w", encoding="ascii") as file:
        file.write("{" + ",\n".join(series) + "}\n")


def main():
    options = [word for word in sys.argv[2:] if word.startswith("--")]
    names = [word for word in sys.argv[2:] if not word.startswith("--")] or list(scenarios.SCENARIOS)
    recorded, numbers, faults = None, {}, []
    if "--recorded" in options:
        with open(RECORD, encoding="ascii") as file:
            recorded = json.load(file)
    else:
        import megatron_reference  # noqa: F401 (skips without megatron-core)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        scenarios.write_data()
        for name in names:
            begin = time.monotonic()
            numbers[name] = reference_of(name, recorded)
            middle = time.monotonic()
            loss, norm = difference(name, scenarios.measured(scenarios.SCENARIOS[name]), numbers[name])
            print(f"{name}: {len(numbers[name]['losses'])} iterations, losses within {loss:.1e}, norms within {norm:.1e} "
                  f"({middle - begin:.1f} s, {time.monotonic() - middle:.1f} s)", flush=True)
            if not (loss <= LOSS and norm <= NORM):
                faults.append(name)
        os.chdir("/")
    if "--record" in options and not faults:
        with open(RECORD, encoding="ascii") as file:
            all_numbers = json.load(file) | numbers
        write_record({name: all_numbers[name] for name in scenarios.SCENARIOS})
    if faults:
        live.fail("not within the limits: " + ", ".join(faults))


if __name__ == "__main__":
    main()
