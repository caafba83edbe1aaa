#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pictures of lm-estimate are well-formed XML with the expected elements and without overlapping labels. Their files appear
# whole; another program makes PNG files from them.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

cat >svg.py <<'END'
"""usage: svg.py FILE [CLASS MIN MAX]...: the SVG parses, has MIN to MAX elements of each class, and no labels overlap."""
import re, sys
import xml.etree.ElementTree as ET

path, checks = sys.argv[1], sys.argv[2:]
root = ET.parse(path).getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
width, height = (float(x) for x in root.get("viewBox").split()[2:])
boxes = []
for e in root.iter():
    assert not re.search(r"\bnan\b|\binf\b", " ".join(e.attrib.values())), e.attrib
    if not e.tag.endswith("}text"):
        continue
    size, x, y, text = float(e.get("font-size")), float(e.get("x")), float(e.get("y")), e.text or ""
    w = 0.56 * size * len(text)  # DejaVu Sans, the widest of the fonts in the list
    left = x - w * {"start": 0, "middle": 0.5, "end": 1}[e.get("text-anchor", "start")]
    box = (left, y - 0.7 * size, left + w, y)
    if "rotate(-90" in e.get("transform", ""):
        along = {"start": 0, "middle": 0.5}[e.get("text-anchor", "start")] * w
        box = (x - 0.7 * size, y - w + along, x, y + along)
    assert 0 <= box[0] and box[2] <= width and 0 <= box[1] and box[3] <= height, (text, box)
    for other, taken in boxes:
        apart = box[2] <= taken[0] or taken[2] <= box[0] or box[3] <= taken[1] or taken[3] <= box[1]
        assert apart, f"{text!r} overlaps {other!r}: {box} {taken}"
    boxes.append((text, box))
    for dot in root.iter("{http://www.w3.org/2000/svg}circle"):
        if e.get("class") == "dot-label" and dot.get("class") == "dot":
            x, y = float(dot.get("cx")), float(dot.get("cy"))
            assert not (box[0] < x < box[2] and box[1] < y < box[3]), f"{text!r} covers a dot at {x}, {y}"
for kind, least, most in zip(checks[::3], checks[1::3], checks[2::3]):
    n = sum(e.get("class") == kind for e in root.iter())
    assert int(least) <= n <= int(most), f"{n} elements of class {kind}, expected {least} to {most}"
for e in root.iter():
    for number in re.findall(r"[-\d.]+", e.get("points", "")):
        assert -1 <= float(number) <= max(width, height) + 1, (e.get("class"), number)
END
# svg FILE [CLASS MIN MAX]...
svg() { python3 svg.py "$@" >svg.out 2>&1 || fail "$*: $(tail -n 1 svg.out)"; }

# memory: one bar for each stage, without overlapping labels for any number of stages.
model=(--num-layers 48 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100)
for stages in 1 2 6 8 12 16 24 48; do
    run log lm-estimate memory "${model[@]}" --pipeline-model-parallel-size $stages --plot stages$stages.svg
    svg stages$stages.svg bar $((5 * stages)) $((6 * stages)) limit 0 0 name 1 $stages legend 5 7
done
svg stages24.svg total 24 24 name 24 24
run log lm-estimate memory --model 7.5b --bf16 --tensor-model-parallel-size 8 --gpu-memory 80GB --plot limit.svg
svg limit.svg limit 1 1 bar 8 8 legend 8 9
expect 1 '' lm-estimate memory --model 7.5b --bf16 --gpu-memory 80GB --plot large.svg
svg large.svg limit 1 1
# The line of the limit is drawn before the sums, so that it does not strike them through.
[ "$(grep -oE 'class="(limit|total)"' limit.svg | head -n 1)" = 'class="limit"' ] || fail "the limit covers the sums"

# Files: an existing one is kept without --force, a wrong name is refused, nothing remains after a failure.
before=$(cat limit.svg)
expect 2 ' limit.svg: .*--force' lm-estimate memory "${model[@]}" --plot limit.svg
[ "$(cat limit.svg)" = "$before" ] || fail "limit.svg was replaced"
run log lm-estimate memory "${model[@]}" --plot limit.svg --force
svg limit.svg limit 0 0
expect 2 '--plot: .*\.svg or \.png, got x.jpg' lm-estimate memory "${model[@]}" --plot x.jpg
expect 2 '--plot: - .*--json' lm-estimate memory "${model[@]}" --plot - --json
expect 2 ' none/x.svg: .* none ' lm-estimate memory "${model[@]}" --plot none/x.svg
expect 0 '' lm-estimate memory "${model[@]}" --plot -
mv out piped.svg
svg piped.svg bar 5 6

# A step: a box for each pass, where narrow boxes are merged, and a bar for each part of the time. Layouts: a dot for each.
step=(--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 50304 --gpu a100)
run log lm-estimate time "${step[@]}" --micro-batch-size 1 --global-batch-size 8 --gpus 4 --pipeline-model-parallel-size 4 --plot step.svg
svg step.svg span 70 70 row 4 4 share 4 9 share-name 4 9 share-value 4 9 row-heading 1 1
# The picture ends with the optimizer, at the printed time of a step; a color has one meaning.
python3 - step.svg "$(sed -nE 's/^one iteration +(.*)$/\1/p' log)" <<'END' || fail "the end of the step: $(cat log)"
import sys, xml.etree.ElementTree as ET
elements = list(ET.parse(sys.argv[1]).getroot().iter())
of = lambda kind: [e for e in elements if e.get("class") == kind]
assert [e.text for e in of("end") if e.text] == ["end: " + sys.argv[2]], [e.text for e in of("end")]
right = lambda e: float(e.get("x")) + float(e.get("width"))
rows = of("idle")
last = [max((s for s in of("span") if s.get("y") == row.get("y")), key=right) for row in rows]
assert len({s.get("fill") for s in last}) == 1, "the stages do not end with the same work"
assert all(abs(right(s) - right(row)) < 0.5 for s, row in zip(last, rows)), "the stages end before the axis"
assert not {e.get("fill") for e in of("share")} & {e.get("fill") for e in of("span")}, "a color has two meanings"
names = [e.text for e in of("legend")]
assert names == ["forward", "backward", "gradient reduction", "optimizer", "idle", "numbers: micro-batches"], names
END
for stages in 1 2 6 8 12 24; do
    run log lm-estimate time "${step[@]:2}" --num-layers 24 --micro-batch-size 1 --global-batch-size 48 --gpus $((2 * stages)) \
        --pipeline-model-parallel-size $stages --use-distributed-optimizer --plot step$stages.svg
    svg step$stages.svg idle "$stages" "$stages" row 1 "$stages" legend 5 7 end 2 2 label 1 1
    grep -q 'gather of weights' step$stages.svg || fail "no gather of weights"
done
run log lm-estimate time "${step[@]}" --micro-batch-size 1 --global-batch-size 4000 --gpus 4 --pipeline-model-parallel-size 4 \
    --plot step.svg --force
svg step.svg span 4 4000
grep -q '>height of a color: its share of the time<' step.svg || fail "the legend does not explain merged boxes"
# Merged boxes show both kinds of passes on every stage, forward about a third of the time.
python3 - step.svg <<'END' || fail "merged boxes: $(grep -c 'class="span"' step.svg)"
import sys, xml.etree.ElementTree as ET
boxes = list(ET.parse(sys.argv[1]).getroot().iter("{http://www.w3.org/2000/svg}rect"))
number = lambda e, key: float(e.get(key))
for row in (e for e in boxes if e.get("class") == "idle"):
    areas = {}
    for e in boxes:
        if e.get("class") == "span" and number(row, "y") <= number(e, "y") < number(row, "y") + number(row, "height"):
            areas[e.get("fill")] = areas.get(e.get("fill"), 0) + number(e, "width") * number(e, "height")
    passes = [areas["#0072b2"], areas["#e69f00"]]
    assert 0.25 < passes[0] / sum(passes) < 0.42, areas
END
run log lm-estimate layout "${step[@]}" --bf16 --global-batch-size 64 --gpus 16 --plot layouts.svg
svg layouts.svg dot 20 400
svg layouts.svg dot-label 1 5 limit 1 1 best 1 1 note 0 0 legend 3 4
# When nothing fits, the picture shows the layouts beyond the limit and states how much is missing.
expect 1 '' lm-estimate layout "${step[@]}" --bf16 --global-batch-size 64 --gpus 16 --gpu-memory 2GB --plot none.svg
svg none.svg dot 5 1000 dot-label 1 1 limit 1 1 best 1 1 note 1 1
grep -Eq '>No layout fits: the smallest needs [0-9.]+ GiB, [0-9.]+ [MG]iB too much<' none.svg ||
    fail "$(grep 'class="note"' none.svg)"
run log lm-estimate layout --model bloom-176b --bf16 --global-batch-size 2048 --gpus 384 --plot bloom.svg
svg bloom.svg dot-label 3 5
# The line from a dot to its label crosses no other such line and no other dot. Labels do not touch the ring of the best dot.
python3 - bloom.svg <<'END' || fail "leaders: $(grep 'class="leader"' bloom.svg)"
import sys
import xml.etree.ElementTree as ET
elements = list(ET.parse(sys.argv[1]).getroot().iter())
of = lambda kind, *keys: [[float(e.get(k)) for k in keys] for e in elements if e.get("class") == kind]
leaders, dots = of("leader", "x1", "y1", "x2", "y2"), of("dot", "cx", "cy")
side = lambda l, x, y: (l[2] - l[0]) * (y - l[1]) - (l[3] - l[1]) * (x - l[0])
assert leaders and dots
for a in leaders:
    for b in leaders:
        assert side(a, *b[:2]) * side(a, *b[2:]) >= 0 or side(b, *a[:2]) * side(b, *a[2:]) >= 0, (a, b)
    for x, y in dots:
        t = ((x - a[0]) * (a[2] - a[0]) + (y - a[1]) * (a[3] - a[1])) / ((a[2] - a[0]) ** 2 + (a[3] - a[1]) ** 2)
        length = ((a[2] - a[0]) ** 2 + (a[3] - a[1]) ** 2) ** 0.5
        nearest = abs(side(a, x, y)) / length
        assert not 8 / length < t < 1 or nearest > 2.2, (a, x, y)
END
[ "$(grep -cE '^[1-8] ' log)" -ge 10 ] || fail "no figures: $(cat log)"
run log lm-estimate layout "${step[@]}" --bf16 --global-batch-size 16 --gpus 1 --micro-batch-size 1 --plot one.svg --recompute-granularity full \
    --recompute-method uniform
svg one.svg dot 1 1
python3 - one.svg <<'END' || fail "the label touches the ring: $(grep -E 'class="(best|dot-label)"' one.svg)"
import sys
import xml.etree.ElementTree as ET
of = {e.get("class"): e for e in ET.parse(sys.argv[1]).getroot().iter()}
ring, label = of["best"], of["dot-label"]
assert float(label.get("x")) > float(ring.get("cx")) + float(ring.get("r")) + 0.5, (ring.attrib, label.attrib)
END
expect 2 '--plot: .*--gpu or --hardware' lm-estimate time "${step[@]:0:10}" --gpus 1 --tflops 50 --plot x.svg

# A training has four panels. Restarts and skipped steps are marked, and discarded steps are drawn faintly. With --overlay the
# axis has tokens.
# training LINES BATCH: a log whose loss falls; with a restart after LINES / 2 lines, and an iteration with NaN.
training() {
    awk -v n="$1" -v b="$2" 'function line(i, skip) {
            printf " iteration %8d/%8d | consumed samples: %12d | consumed tokens: %12d | elapsed time per iteration (s): %.3f |", i, n, i * b, i * b * 2048, 2 + i % 7 / 50
            printf " learning rate: %.3E | global batch size: %5d |", 6e-5 * (i < n / 10 ? i * 10 / n : 1), b
            if (!skip) printf " lm loss: %.6E | grad norm: %.3f |", 2 + 9 / (1 + 20 * i / n) + i % 5 / 20, 0.2 + 5 / (1 + 50 * i / n)
            printf " number of skipped iterations: %3d | number of nan iterations:   0 |\n", skip
        }
        BEGIN {
            for (i = 1; i <= n / 2; i++) line(i, i == 7)
            if (n > 100) { at = int(n * 0.45); print "  successfully loaded checkpoint from x at iteration " at; i = at + 1 }
            for (; i <= n; i++) line(i, 0)
        }'
}
training 1000 8 >run.log
training 500 16 >other.log
# The mark of a restart is where the training resumed: half-way between the lines of iterations 70 and 80.
awk '/ iteration +[0-9]+0\// { print } / iteration +70\// { print "lm-train: note: save/global_step75: resuming after iteration 75, 600 samples" }' \
    <(training 100 8) >tens.log
for axis in iterations samples tokens; do
    run log lm-estimate eta tens.log --plot tens.svg --force --plot-over $axis
    python3 - tens.svg <<'END' || fail "the restart is not at iteration 75: $axis: $(grep -E 'class="restart"' tens.svg)"
import sys, xml.etree.ElementTree as ET
of = lambda kind: [e for e in ET.parse(sys.argv[1]).getroot().iter() if e.get("class") == kind]
xs = [float(point.split(",")[0]) for point in of("curve")[0].get("points").split()]
assert len(xs) == 10 and abs(float(of("restart")[0].get("x1")) - (xs[6] + xs[7]) / 2) < 0.2, xs
END
done
run log lm-estimate eta run.log --plot run.svg
svg run.svg curve 4 12 discarded 4 4 restart 4 4 skipped 4 4 title 4 4
svg run.svg no-data 0 0
run log lm-estimate eta run.log --plot over.svg --overlay other.log
svg over.svg legend 3 4 curve 8 24 restart 8 8
grep -q '>Tokens<' over.svg || fail "not over tokens"
# A second --overlay adds its logs to those of the first.
run log lm-estimate eta run.log --plot again.svg --overlay other.log --overlay run.log
svg again.svg legend 4 5 curve 12 36
run log lm-estimate eta run.log --plot samples.svg --plot-over samples
grep -q '>Samples<' samples.svg || fail "not over samples"
head -n 1 run.log >point.log
run log lm-estimate eta point.log --plot point.svg
svg point.svg curve 4 4
echo ' iteration 5/ 10 | elapsed time per iteration (ms): 10.0 | learning rate: 1.000E-05 | lm loss: nan |' >bare.log
run log lm-estimate eta bare.log --plot bare.svg
svg bare.svg no-data 3 3 curve 1 1
training 1000000 8 >million.log
run log lm-estimate eta million.log --plot million.svg
svg million.svg curve 4 40
[ "$(stat -c %s million.svg)" -lt 2000000 ] || fail "$(stat -c %s million.svg) bytes for a million lines"
rm million.log
expect 2 '--plot: .*missing' lm-estimate eta run.log --overlay other.log
# On a terminal of 80 columns, the pictures in characters have no wider lines.
command -v script >/dev/null || fail "script is not installed (bsdutils)"
for verb in "eta run.log" "time ${step[*]} --micro-batch-size 1 --global-batch-size 8 --gpus 4 --pipeline-model-parallel-size 4" \
    "layout ${step[*]} --bf16 --global-batch-size 64 --gpus 16"; do
    script -qec "stty cols 80; NO_COLOR=1 lm-estimate $verb --plot - 2>terminal.err" /dev/null </dev/null | tr -d '\r' >terminal
    grep -q '[█F]' terminal || fail "$verb: no picture: $(cat terminal terminal.err)"
    [ "$(LC_ALL=C.UTF-8 wc -L <terminal)" -le 80 ] || fail "$verb: lines of more than 80 columns: $(cat terminal)"
done
expect 2 '--plot-over: bare.log: .*tokens' lm-estimate eta bare.log --plot x.svg --plot-over tokens
expect 2 '--follow: .*--plot' lm-estimate eta run.log --follow --plot x.svg
nothing_under x.svg

# PNG: programs that fail or write another format are skipped; without any program the remedy is one line.
mkdir programs
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "not a PNG"\n' >programs/rsvg-convert
printf '#!/bin/sh\nexit 1\n' >programs/magick
cp programs/magick programs/convert
cp programs/magick programs/inkscape
chmod +x programs/*
estimate=$(command -v lm-estimate)
PATH=$PWD/programs:$PATH expect 3 ' x.png: .*rsvg-convert' "$estimate" memory "${model[@]}" --plot x.png
nothing_under x.png
# shellcheck disable=SC2016
printf '#!/bin/sh\nfor last; do :; done\ngrep -q "</svg>" "$last" && printf "\\211PNG\\r\\n\\032\\n"\n' >programs/inkscape
PATH=$PWD/programs:$PATH expect 0 '' "$estimate" memory "${model[@]}" --plot x.png
[ "$(head -c 4 x.png | tail -c 3)" = PNG ] || fail "x.png is not a PNG"
[ "$(find . -name 'x.png*')" = ./x.png ] || fail "left: $(find . -name 'x.png*')"
if command -v rsvg-convert >/dev/null; then
    run log lm-estimate memory "${model[@]}" --plot real.png
    # The width in the header (RFC 2083, section 4.1.1): 7 inches with 300 dots per inch.
    [ "$(od -An -tu1 -j 16 -N 4 real.png | tr -s ' ')" = ' 0 0 8 52' ] || fail "$(head -c 24 real.png | od -c)"
fi
