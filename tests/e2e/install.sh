#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installation by `cmake --install` works: programs, libraries, tables, man pages, completions.
# lock: install_manifest
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
    for file in bash-completion/completions/$name zsh/site-functions/_$name fish/vendor_completions.d/$name.fish; do
        [ -s "$dir/share/$file" ] || die "no $file"
    done
    [ ! -e "$build/man/$name.1" ] || [ -s "$dir/share/man/man1/$name.1" ] || die "$name: no man page"
done

# The line about PATH in README.md and docs/install.md makes the programs of ~/.local known.
mkdir "$dir/home"
ln -s "$dir" "$dir/home/.local"
for page in README.md docs/install.md; do
    line=$(sed -nE 's/^    (export PATH=[^ ]*).*/\1/p' "$(dirname "$0")/../../$page")
    env -i HOME="$dir/home" PATH=/usr/bin:/bin bash -c "$line; lm-preprocess --version" >"$dir/log" 2>&1 || die "$page: $(cat "$dir/log")"
done

# The version of a checkout's build names the commit.
version=$("$dir/bin/lm-ckpt" --version | sed 's/.* //')
if commit=$(git -C "$(dirname "$0")" rev-parse --short=10 HEAD 2>/dev/null); then
    [[ $version =~ ^[0-9.]+(\+[0-9a-f]{10}(\.changed)?)?$ ]] || die "version $version, at commit $commit"
else
    [[ $version =~ ^[0-9.]+$ ]] || die "version $version, of no checkout"
fi
# Every directory of share is installed.
for directory in "$(dirname "$0")"/../../share/*/; do
    [ -d "$dir/share/lm-utils/$(basename "$directory")" ] || die "share/$(basename "$directory") is not installed"
done
"$dir/bin/lm-estimate" layout --model 7.5b --bf16 --use-distributed-optimizer --global-batch-size 512 --gpus 64 >"$dir/log" 2>&1 ||
    die "lm-estimate layout: $(cat "$dir/log")"
# The target `programs`, which demo.sh and docs/install.md build, builds all that is installed.
ninja -C "$build" -t commands programs >"$dir/commands" || die "$(cat "$dir/commands")"
while read -r file; do
    grep -qF -e "$file" "$dir/commands" || [ "$file" = man/lm-operations.7 ] || die "the target programs does not build $file"
done < <(find "$build" -path "$build/deb-packages" -prune -o -name cmake_install.cmake -exec sed -nE 's/.* FILES "([^"]*)"\)?$/\1/p' {} + |
    sed -n "s|^$(realpath "$build")/||p" | sort -u)
for file in lm-utils/slurm/train.sbatch lm-utils/cron/watchdog doc/lm-utils/LICENSE doc/lm-utils/README.md doc/lm-utils/docs/train.md; do
    [ -s "$dir/share/$file" ] || die "no $file"
done
# The licence of GPT-2's vocabulary is installed as it is in the tree, where tests/style/spdx.sh compares it with OpenAI's.
cmp "$dir/share/lm-utils/tokenizers/gpt2/LICENSE" "$(dirname "$0")/../../share/tokenizers/gpt2/LICENSE" || die "the licence of GPT-2"
# lm-estimate finds the descriptions of the hardware and the failure rates in the installation.
for gpu in a100 a100-40g a100-efa h100 h200 v100 cpu; do
    env -u LM_SHARE_DIR "$dir/bin/lm-estimate" time --model gpt2-124m --global-batch-size 8 --gpus 8 --gpu $gpu --train-iters 9 \
        --failures rsc-8 --save-time 1s >"$dir/time" 2>&1 || die "--gpu $gpu: $(cat "$dir/time")"
    [ -s "$dir/share/lm-utils/hardware/$gpu.txt" ] || die "no $gpu.txt"
done
# No installed file contains a path of the build tree.
source=$(cd "$(dirname "$0")/../.." && pwd)
while read -r file; do
    ! strings -a "$file" | grep -F "$source/share" >"$dir/found" || die "$file: $(head -n 1 "$dir/found")"
done < <(find "$dir/bin" "$dir"/lib* -type f -name 'lm-*' -o -type f -name '*.so*')

# For an empty element of a search path the loader would search the current directory. (The CUDA and MPI plugins are not
# checked: their paths have such an element in the build tree, because their libraries may be outside the system's directories.)
while read -r file; do
    ! readelf -dW "$file" | grep -E 'PATH.*(\[:|::|:\])' >"$dir/found" || die "$file: $(cat "$dir/found")"
done < <(find "$build"/bin "$build"/lib "$dir" -type f -name 'lm-*' -o -type f -name 'liblm*.so' ! -name 'liblm_cu*' ! -name liblm_mpi.so)

# The search path of the GPU plugins has no directory of the build, so the loader finds CUDA's libraries through LD_LIBRARY_PATH.
while read -r plugin; do
    paths=$(readelf -dW "$plugin" | sed -nE 's/^.*\((RPATH|RUNPATH)\).*\[(.*)\]$/\1 \2/p')
    # shellcheck disable=SC2016
    [ "$paths" = 'RUNPATH $ORIGIN' ] || die "$plugin: $paths"
done < <(find "$dir" -name 'liblm_cu*.so')

# The MPI plugin is in the directory of the libraries, which open it there.
plugin=liblm_mpi.so
if [ -e "$build/lib/$plugin" ]; then
    libraries=$(ldd "$(find "$dir" -name $plugin)")
    [[ $libraries == *"liblm_train.so => $dir/"* ]] || die "$plugin: another liblm_train.so: $libraries"
fi

# The modulefile finds the prefix from its own place. Lmod is Lua, so its function `module` runs in any shell.
lmod=/usr/share/lmod/lmod/libexec/lmod
if [ -x "$lmod" ]; then
    MODULEPATH=$dir/share/lm-utils/modulefiles "$lmod" bash load lm-utils >"$dir/module" 2>"$dir/err" || die "$(cat "$dir/err")"
    found=$(eval "$(cat "$dir/module")" && command -v lm-train && echo "$LM_UTILS_ROOT" && man -w lm-train)
    [ "$found" = "$dir/bin/lm-train"$'\n'"$dir"$'\n'"$dir/share/man/man1/lm-train.1" ] || die "module load: $found"
    MODULEPATH=$dir/share/lm-utils/modulefiles "$lmod" bash whatis lm-utils >"$dir/whatis" 2>&1
    grep -q 'Version: [0-9.]*$' "$dir/whatis" || die "module whatis: $(cat "$dir/whatis")"
else
    echo "Lmod is not installed: the modulefile is not tested"
fi

# The programs use the tables of the prefix.
[ "$(echo Hello | "$dir/bin/lm-preprocess" encode)" = 15496 ] || die "lm-preprocess encode"
tables=$dir/share/lm-utils/tokenizers/gpt2
echo '{' >"$tables/vocab.json"
if echo Hello | "$dir/bin/lm-preprocess" encode 2>"$dir/err"; then die "the tables of the prefix are not read"; fi
grep -q "$tables/vocab.json" "$dir/err" || die "the error names another file: $(cat "$dir/err")"
installed=$(find "$dir/bin" -name 'lm-*' | wc -l)
cmake -D MANIFEST="$build/install_manifest.txt" -P "$source/cmake/uninstall.cmake" >"$dir/log" 2>&1 || die "$(cat "$dir/log")"
left=$(find "$dir/bin" "$dir/share" "$dir"/lib* -type f -o -type d -name lm-utils)
[ -z "$left" ] || die "left behind: $left"

# The switches of plugins accept CMake's words for true and false, in upper or lower case.
cat >"$dir/switch.cmake" <<END
include($source/cmake/lm_switch.cmake)
lm_switch(LM_MPI "a plugin")
message(STATUS "LM_MPI is \${LM_MPI}")
END
for word in auto=AUTO Off=OFF false=OFF 0=OFF on=ON TRUE=ON 1=ON; do
    got=$(cmake -D LM_MPI="${word%=*}" -P "$dir/switch.cmake" 2>&1) || die "$got"
    [ "$got" = "-- LM_MPI is ${word#*=}" ] || die "$word: $got"
done
[ "$(cmake -P "$dir/switch.cmake" 2>&1)" = '-- LM_MPI is AUTO' ] || die "lm_switch without a value"
if cmake -D LM_MPI=maybe -P "$dir/switch.cmake" >"$dir/err" 2>&1; then die "lm_switch accepts maybe"; fi
grep -q 'LM_MPI=maybe: .*AUTO, ON or OFF' "$dir/err" || die "$(cat "$dir/err")"
# The build uses the switches and the compiler launcher. Tested by a configuration in a separate directory.
cmake -S "$source" -B "$dir/switches" -G Ninja -D LM_TESTS=OFF -D LM_MPI=FALSE -D LM_CUDA=0 \
    -D CMAKE_CXX_COMPILER_LAUNCHER=/usr/bin/env >"$dir/log" 2>&1 || die "cmake: $(tail -n 5 "$dir/log")"
ninja -C "$dir/switches" -t commands programs >"$dir/commands"
grep -q '^/usr/bin/env .* -c ' "$dir/commands" || die "the compiler launcher is not used"
! grep -qE 'ccache|liblm_(mpi|cuda)' "$dir/commands" || die "ccache or a plugin: $(grep -m 1 -E 'ccache|liblm_(mpi|cuda)' "$dir/commands")"
if [ -e "$build/lib/liblm_mpi.so" ]; then
    cmake -D LM_MPI=1 -U CMAKE_CXX_COMPILER_LAUNCHER "$dir/switches" >"$dir/log" 2>&1 || die "cmake: $(tail -n 5 "$dir/log")"
    ninja -C "$dir/switches" -t commands programs >"$dir/commands"
    grep -q liblm_mpi "$dir/commands" || die "-DLM_MPI=1 builds no MPI plugin"
fi
# tools/install-deps --build installs what a package build needs (debian/control), and no test's packages.
"$source/tools/install-deps" --build --list >"$dir/packages"
sed -n '/^Build-Depends:/,/^[A-Z].*:/s/^ \([a-z0-9-]*\).*/\1/p' "$source/debian/control" | grep -v debhelper >"$dir/needed"
[ "$(wc -l <"$dir/needed")" -gt 10 ] || die "Build-Depends: $(cat "$dir/needed")"
while read -r package; do
    grep -qx "$package" "$dir/packages" || die "tools/install-deps --build lacks $package of debian/control"
done <"$dir/needed"
grep -qx g++ "$dir/packages" || die "tools/install-deps --build has no compiler"
! grep -qx catch2 "$dir/packages" || die "tools/install-deps --build has catch2, which only tests need"
"$source/tools/install-deps" --list >"$dir/all"
grep -qx catch2 "$dir/all" || die "tools/install-deps --list has no catch2"
echo "installed $installed programs, and removed them"
