#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts into a prefix works from there: programs, libraries, tables, man pages, completions.
set -euo pipefail
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
die() { echo "install: $*"; exit 1; }

cmake --install "$build" --prefix "$dir" >"$dir/log" 2>&1 || die "$(tail -n 5 "$dir/log")"
for program in "$build"/bin/lm-*; do
    name=$(basename "$program")
    [[ $("$dir/bin/$name" --version) == "$name (lm-utils) "* ]] || die "$name --version"
    libraries=$(ldd "$dir/bin/$name")
    [[ $libraries == *"liblm.so => $dir/"* ]] || die "$name: another liblm.so: $libraries"
    [ -s "$dir/share/bash-completion/completions/$name" ] || die "$name: no completion"
    [ ! -e "$build/man/$name.1" ] || [ -s "$dir/share/man/man1/$name.1" ] || die "$name: no man page"
done

# The MPI plugin lies beside the libraries, where they look for it.
plugin=liblm_mpi.so
if [ -e "$build/lib/$plugin" ]; then
    libraries=$(ldd "$(find "$dir" -name $plugin)")
    [[ $libraries == *"liblm_train.so => $dir/"* ]] || die "$plugin: another liblm_train.so: $libraries"
fi

# The tables are those of the prefix.
[ "$(echo Hello | "$dir/bin/lm-preprocess" encode)" = 15496 ] || die "lm-preprocess encode"
tables=$dir/share/lm-utils/tokenizers/gpt2
echo '{' >"$tables/vocab.json"
if echo Hello | "$dir/bin/lm-preprocess" encode 2>"$dir/err"; then die "the tables of the prefix are not read"; fi
grep -q "$tables/vocab.json" "$dir/err" || die "complains otherwise: $(cat "$dir/err")"
echo "installed $(find "$dir/bin" -name 'lm-*' | wc -l) programs"
