# SPDX-License-Identifier: Apache-2.0
# For end-to-end scripts that import a training; sourced.

# next_losses_equal NEXT.json IMPORTED FLAGS...: continues the training from IMPORTED and compares its losses with the "losses" of
# NEXT.json. Each batch has the two samples of 8 tokens that are the "tokens" of NEXT.json.
next_losses_equal() {
    local wanted=$1 imported=$2
    shift 2
    python3 - "$wanted" <<'END'
import json, struct, sys
tokens = json.load(open(sys.argv[1]))["tokens"]
open("next.bin", "wb").write(struct.pack(f"<{len(tokens)}H", *tokens))
open("next.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(tokens), 0, 0, 1))
END
    lm-train --clip-grad 0 "$@" --seq-length 8 --max-position-embeddings 8 --vocab-size 32 --attention-dropout 0 --hidden-dropout 0 \
        --micro-batch-size 2 --global-batch-size 2 --lr 0.01 --min-lr 0.01 --lr-decay-style constant --adam-beta2 0.95 \
        --weight-decay 0.1 --data-path next --split 100,0,0 --load "$imported" --log-interval 1 --device cpu \
        --threads 1 >log 2>err || fail "lm-train: $(cat err)"
    python3 - "$wanted" <<'END' || fail "other losses: $(cat log)"
import json, re, sys
wanted = json.load(open(sys.argv[1]))["losses"]
got = [float(x) for x in re.findall(r"lm loss: ([0-9.E+-]+)", open("log").read())]
assert len(got) == 3 and all(abs(a - b) < 1e-5 for a, b in zip(got, wanted)), (got, wanted)
END
}
