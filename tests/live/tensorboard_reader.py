#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard itself reads our event files: every value, and the purge mark of a resumed run."""
import os
import subprocess
import tempfile

import live

try:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
except Exception as error:  # a broken install is a reason to skip, not our failure
    live.skip(f"tensorboard cannot be imported: {error}")


def check(what, got, expected):
    if got != expected:
        live.fail(f"{what}: {got}, expected {expected}")


def main():
    program = os.path.join(live.BUILD, "tests", "test_metrics")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "[.live]"], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LM_TEST_OUT": folder})
        everything = EventMultiplexer(purge_orphaned_data=True).AddRunsFromDirectory(folder)
        everything.Reload()
        check("runs", sorted(everything.Runs()), [".", "vs-gigaflos", "vs-samples", "vs-tokens"])

        def series(run, tag):
            return [(e.step, e.value) for e in everything.Scalars(run, tag)]

        # Steps 7 to 10 of the first run are purged, on each axis by its own step.
        losses = [float(k if k < 7 else 100 + k) for k in range(1, 13)]
        for run, tag, per_step in ((".", "", 1), ("vs-samples", " vs samples", 8), ("vs-tokens", " vs tokens", 8 * 2048)):
            got = series(run, "lm-loss-training/lm loss" + tag)
            check("loss" + tag, got, [(per_step * (k + 1), loss) for k, loss in enumerate(losses)])
        rates = [(step, round(rate, 9)) for step, rate in series(".", "learning-rate/learning-rate")][:3]
        check("learning rate", rates, [(1, 1e-4), (2, 2e-4), (3, 3e-4)])
        check("validation", series(".", "lm-loss-validation/lm loss validation"), [(12, 3.5)])
    print(f"TensorBoard read {len(losses)} losses and purged what the resumed run replaced")


if __name__ == "__main__":
    main()
