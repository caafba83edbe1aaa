#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CodeCarbon reads lm-train's energy files: their columns are the fields of EmissionsData, and it appends its own rows."""
import csv
import dataclasses
import glob
import os
import tempfile

import live

try:
    import pandas
    from codecarbon.output_methods.emissions_data import EmissionsData
    from codecarbon.output_methods.file import FileOutput
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"{error}: .venv/bin/pip install codecarbon==3.3.2 pandas==2.0.3")

TRAIN = ["--mock-data", "--num-layers", "1", "--hidden-size", "32", "--num-attention-heads", "4", "--seq-length", "32",
         "--vocab-size", "64", "--micro-batch-size", "1", "--lr", "1e-3", "--threads", "1", "--eval-iters", "0"]


def main():
    fields = [field.name for field in dataclasses.fields(EmissionsData)]
    with tempfile.TemporaryDirectory() as folder:
        for iterations in ("3", "5"):  # the second run appends a row
            live.run(live.tool("lm-train"), *TRAIN, "--train-iters", iterations, "--codecarbon-dir", folder,
                     "--codecarbon-country", "FRA", "--codecarbon-intensity", "56", "--codecarbon-cpu-power", "150")
        files = glob.glob(folder + "/*.csv")
        if [os.path.basename(name) for name in files] != ["emissions-000.csv"]:
            live.fail(f"files: {files}")
        with open(files[0], newline="") as lines:
            rows = list(csv.reader(lines))
        if rows[0] != fields:
            live.fail(f"columns: {rows[0]}, expected {fields}")
        if [len(row) for row in rows] != 3 * [len(fields)]:
            live.fail(f"rows: {rows}")
        frame = pandas.read_csv(files[0])
        for _, row in frame.iterrows():
            parts = row.cpu_energy + row.gpu_energy + row.ram_energy
            if abs(row.energy_consumed - parts) > 1e-12 or abs(row.emissions - 0.056 * parts) > 1e-12:
                live.fail(f"energy: {row}")
            if abs(row.cpu_power - 150) > 1 or abs(row.cpu_energy - row.cpu_power * row.duration / 3.6e6) > 1e-12:
                live.fail(f"power: {row}")
        data = EmissionsData(**{**frame.iloc[0].to_dict(), "run_id": "codecarbon"})
        FileOutput("emissions-000.csv", folder).out(data, None)
        again = pandas.read_csv(files[0])
        if list(again.run_id) != list(frame.run_id) + ["codecarbon"]:
            live.fail(f"CodeCarbon does not append to the file: {os.listdir(folder)}")
    print(f"CodeCarbon reads {len(fields)} columns and appends to the file")


main()
