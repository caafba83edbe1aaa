#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes emissions.csv by CodeCarbon's own FileOutput: two runs, one of which has two rows.

    python3 -m venv v && v/bin/pip install codecarbon==3.3.2 pandas==2.0.3 && v/bin/python make_emissions.py
"""
import os

from codecarbon.output_methods.emissions_data import EmissionsData
from codecarbon.output_methods.file import FileOutput

JOULES_OF_KWH = 3.6e6


def data(run_id, seconds, cpu_j, gpu_j, ram_j):
    energies = {name: joules / JOULES_OF_KWH for name, joules in (("cpu", cpu_j), ("gpu", gpu_j), ("ram", ram_j))}
    kwh = sum(energies.values())
    return EmissionsData(
        timestamp="2026-11-23T08:00:00", project_name="codecarbon", run_id=run_id, experiment_id="5b0fa12a",
        duration=seconds, emissions=0.056 * kwh, emissions_rate=0.056 * kwh / seconds, cpu_power=cpu_j / seconds,
        gpu_power=gpu_j / seconds, ram_power=ram_j / seconds, cpu_energy=energies["cpu"], gpu_energy=energies["gpu"],
        ram_energy=energies["ram"], energy_consumed=kwh, water_consumed=0.0, country_name="France",
        country_iso_code="FRA", region="", cloud_provider="", cloud_region="", os="Linux-6.1", python_version="3.11.2",
        codecarbon_version="3.3.2", cpu_count=8, cpu_model='A "fast" processor, 8 cores', gpu_count=2,
        gpu_model="2 x GPU", longitude=2.35, latitude=48.85, ram_total_size=16.0, tracking_mode="machine", on_cloud="N",
        pue=1.0)


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, "emissions.csv")
    if os.path.exists(path):
        os.remove(path)
    output = FileOutput("emissions.csv", folder, on_csv_write="append")
    for row in (data("one", 100, 3.6e6, 7.2e6, 3.6e5), data("two", 50, 1.8e6, 0, 0), data("two", 200, 7.2e6, 3.6e6, 7.2e5)):
        output.out(row, None)


main()
