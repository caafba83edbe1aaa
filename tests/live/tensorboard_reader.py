#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard reads lm-train's event files: every value, and the purge mark of a resumed run."""
import os
import subprocess
import tempfile

import live

try:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"tensorboard cannot be imported: {error}")


def check(what, got, expected):
    if got != expected:
        live.fail(f"{what}: {got}, expected {expected}")


def expected_tags():
    """Returns Megatron-DeepSpeed's tags (training.py, training_log and evaluate_and_print_results), a directory for each axis."""
    on_all = ["learning-rate/learning-rate", "lm-loss-training/lm loss", "loss-scale/loss-scale", "grad-norm/grad-norm",
              "num-zeros/num-zeros", "params-norm/params-norm", "iteration-time/iteration-time"]
    losses = [f"lm-loss-validation/{group}lm loss validation{kind}" for group in ("", "books/") for kind in ("", " ppl")]
    gigaflos = [tag + " vs gigaflos (without embeddings)" for tag in losses + ["lm-loss-training/lm loss"]]
    rates = ["samples per second", "samples per second per replica", "tokens per second", "tokens per second per replica",
             "TFLOPs per gpu (estimated)", "MFU", "world_size at restart"]
    # --log-format megatron-lm
    plain = ["learning-rate", "batch-size", "lm loss", "loss-scale", "world-size", "grad-norm", "num-zeros", "params-norm"]
    plain += [f"lm loss validation{name}{kind}" for name in ("", "-books") for kind in ("", " ppl")]
    return {".": on_all + losses + plain + ["iteration-time", "throughput"] + ["batch-size/batch-size", "curriculum_seqlen", "steps-vs-samples/y=samples,x=steps",
                                    "steps-vs-tokens/y=tokens,x=steps"] + ["iteration-time/" + rate for rate in rates],
            "vs-samples": [tag + " vs samples" for tag in on_all + losses + plain + ["batch-size/batch-size"]]
            + ["steps-vs-samples/y=steps,x=samples"],
            "vs-tokens": [tag + " vs tokens" for tag in on_all + losses] + ["steps-vs-tokens/y=steps,x=tokens"],
            "vs-gigaflos": gigaflos}


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
        check("curriculum", series(".", "curriculum_seqlen")[-1], (12, 768.0))
        check("MFU", series(".", "iteration-time/MFU"), [(step, 0.25) for step in range(2, 13, 2)])
        check("time", series("vs-tokens", "iteration-time/iteration-time vs tokens")[0], (2 * 8 * 2048, 2.0))
        for run, tags in expected_tags().items():
            check(f"tags of {run}", sorted(everything.GetAccumulator(run).Tags()["scalars"]), sorted(tags))
        check("validation", series(".", "lm-loss-validation/lm loss validation"), [(12, 3.5)])
    print(f"TensorBoard read {len(losses)} losses and purged the values that the resumed run replaced")


if __name__ == "__main__":
    main()
