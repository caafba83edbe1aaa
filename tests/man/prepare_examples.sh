#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prepare_examples.sh DIR: the small data that the EXAMPLES of the man pages work on.
set -euo pipefail
cd "$1"
python3 - <<'END'
import json
with open("corpus.jsonl", "w") as out:
    for i in range(400):
        text = f"Document {i}: " + " ".join(f"word{(i * 7 + k * k) % 97}" for k in range(60))
        out.write(json.dumps({"text": text, "title": f"Number {i}"}) + "\n")
END
gzip -k corpus.jsonl
