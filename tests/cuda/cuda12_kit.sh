#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds both plugins for CUDA 12 and an archive for GPU machines with them, from PyPI's packages: headers and runtime, ptxas,
# cuBLAS, NCCL, cuDNN with its frontend, and compute-sanitizer. PyPI has no nvcc of CUDA 12: clang compiles the kernels to PTX,
# ptxas of CUDA 12 makes the machine code, and fatbinary of this build's toolkit combines the two. Exit code 77: no network, no
# clang++-19, or no toolkit with fatbinary.
# Usage: cuda12_kit.sh BUILD DIRECTORY...: fatbinary and cuobjdump are in the path or a DIRECTORY.
set -euo pipefail
build=$(realpath "$1")
shift
for directory; do PATH=$PATH:$directory; done
root=$(realpath "$(dirname "$0")/../..")
work=$build/cuda12
skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "FAILED: $*"
    exit 1
}
fatbinary=$(command -v fatbinary) || skip "no fatbinary of a CUDA toolkit"
clang=$(command -v clang++-19) || skip "no clang++-19, which compiles the kernels for CUDA 12: apt-get install clang-19"
cxx=${CXX:-c++}
mkdir -p "$work"

# ---- Packages ----
packages=(nvidia-cuda-nvcc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12
    nvidia-nccl-cu12 nvidia-cudnn-cu12 nvidia-cudnn-frontend nvidia-cuda-sanitizer-api-cu12)
[ -d "$work/venv" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps "${packages[@]}" >"$work/pip.log" 2>&1 ||
    skip "the packages of CUDA 12 cannot be installed: $(tail -n 1 "$work/pip.log")"
site=$(echo "$work"/venv/lib/python3*/site-packages)
"$work/venv/bin/pip" list --disable-pip-version-check 2>/dev/null | grep '^nvidia'

# ---- A toolkit as clang expects it ----
toolkit=$work/toolkit
rm -rf "$toolkit"
mkdir -p "$toolkit/bin" "$toolkit/include" "$toolkit/lib64"
for name in cuda_runtime cuda_cccl cuda_nvcc cublas nccl cudnn cuda_nvrtc; do
    cp -rs "$site/nvidia/$name/include/." "$toolkit/include/"
done
ln -s "$site/nvidia/cuda_nvcc/nvvm" "$toolkit/nvvm"
cp "$site/nvidia/cuda_nvcc/bin/ptxas" "$toolkit/bin/"
chmod +x "$toolkit/bin/ptxas"
for library in "$site"/nvidia/{cuda_runtime,cublas,nccl,cudnn,cuda_nvrtc}/lib/lib*; do
    ln -s "$library" "$toolkit/lib64/"
done
# clang names images as fatbinary did until CUDA 12.
cat >"$toolkit/bin/fatbinary" <<END
#!/usr/bin/env bash
arguments=(--compress=false)
for argument; do
    case \$argument in
        --image=profile=sm_*) argument=--image3=kind=elf,sm=\${argument#*sm_} ;;
        --image=profile=compute_*) argument=--image3=kind=ptx,sm=\${argument#*compute_} ;;
    esac
    arguments+=("\$argument")
done
exec "$fatbinary" "\${arguments[@]}"
END
chmod +x "$toolkit/bin/fatbinary"

# ---- The plugins ----
common=(-std=c++20 -DNDEBUG -fPIC -fvisibility=hidden -DFMT_SHARED "-I$root/lib" -isystem "$toolkit/include")
# clang 19 warns about CUDA headers later than 12.6 and about __grid_constant__, which it ignores; AdamW's table is in constant
# memory nevertheless. By default clang inlines less than nvcc, so sums that a called function changes would be in local memory.
kernels=(-x cuda "--cuda-path=$toolkit" --cuda-gpu-arch=sm_80 --cuda-gpu-arch=sm_90 --no-cuda-include-ptx=sm_80
    -Wno-unknown-cuda-version -Wno-unknown-attributes -mllvm -inline-threshold=100000)
compile() {
    local source=$1 object=$work/objects/${1//\//-}.o
    case $source in
        *.cu) "$clang" "${kernels[@]}" -O3 "${common[@]}" -c "$source" -o "$object" ;;
        cudnn/*) $cxx -O1 "${common[@]}" -isystem "$site/include" -c "$source" -o "$object" ;;
        *) $cxx -O3 "${common[@]}" -c "$source" -o "$object" ;;
    esac
}
rm -rf "${work:?}/objects" "${work:?}/lib"
mkdir -p "$work/objects" "$work/lib"
cd "$root/lib/cuda"
sources=(*.cpp */*.cpp */*.cu)
running=0
for source in "${sources[@]}"; do
    [ "$running" -lt "$(nproc)" ] || {
        wait -n || fail "the sources do not compile for CUDA 12"
        running=$((running - 1))
    }
    compile "$source" &
    running=$((running + 1))
done
for ((; running > 0; --running)); do wait -n || fail "the sources do not compile for CUDA 12"; done
# link NAME ARGUMENT...: links a plugin, with the search path of the build's own plugins.
link() {
    local name=$1
    shift
    $cxx -shared -o "$work/lib/$name" "$@" "-L$build/lib" -llm -lfmt "-Wl,-rpath,\$ORIGIN" -Wl,--enable-new-dtags \
        "-Wl,--version-script=$root/lib/cuda/exports.map" -Wl,--no-undefined "-Wl,-rpath-link,$build/lib" -ldl -lpthread -lrt
}
mapfile -t objects < <(find "$work/objects" -name '*.o' -not -name 'cudnn-*' | sort)
link liblm_cuda.so "${objects[@]}" "$toolkit/lib64/libcudart_static.a" "$toolkit/lib64/libcublasLt.so.12" -llm_train
link liblm_cudnn.so "$work/objects"/cudnn-*.o "$toolkit/lib64/libcudnn.so.9" "$toolkit/lib64/libcudart_static.a" \
    "$toolkit/lib64/libnvrtc.so.12"
for plugin in liblm_cuda.so liblm_cudnn.so; do
    if objdump -p "$work/lib/$plugin" | grep 'NEEDED *libcudart'; then fail "$plugin needs CUDA's runtime, which is not in the archive"; fi
done
grep -q 'NEEDED *libcublasLt.so.12$' <<<"$(objdump -p "$work/lib/liblm_cuda.so")" || fail "liblm_cuda.so is not for cuBLAS 12"
bash "$root/tests/cuda/exports.sh" "$work/lib/liblm_cuda.so" lm_cuda_plugin || exit
bash "$root/tests/cuda/exports.sh" "$work/lib/liblm_cudnn.so" lm_cudnn_attention || exit
echo "${#sources[@]} sources for CUDA 12"

# ---- The machine code ----
if command -v cuobjdump >/dev/null; then
    for architecture in sm_80 sm_90; do
        n=$(cuobjdump --list-elf "$work/lib/liblm_cuda.so" | grep -c "$architecture" || true)
        [ "$n" = "$(find . -name '*.cu' | wc -l)" ] || fail "machine code of $n sources for $architecture"
    done
    cuobjdump --dump-resource-usage "$work/lib/liblm_cuda.so" >"$work/usage"
    grep -q 'REG:' "$work/usage" || fail "no kernels in liblm_cuda.so"
    # A kernel that spills registers uses a few bytes of local memory; an array that is not in registers uses more than 16.
    awk '/Function / { name = $2 } match($0, /STACK:[0-9]+/) { bytes = substr($0, RSTART + 6, RLENGTH - 6) + 0; n += bytes > 0 }
        bytes > 16 { print name " " bytes " bytes"; bad = 1 } { bytes = 0 }
        END { print n + 0 " kernels keep up to 16 bytes in local memory"; exit bad }' "$work/usage" ||
        fail "kernels keep more in local memory"
    PATH=$toolkit/bin:$PATH bash "$root/tests/cuda/later_architectures.sh" "$work/lib/liblm_cuda.so" || exit
else
    echo "no cuobjdump: the machine code is not inspected"
fi

# ---- The archive: the archive of this build, with these plugins and compute-sanitizer ----
archive=$("$root/tools/bundle.py" "$build" gpu_kit | sed -E 's/: [0-9]+ MiB, needs glibc [0-9.]+$//')
kit=$(basename "$archive" .tar.gz)
rm -rf "${work:?}/$kit"
tar -xzf "$archive" -C "$work"
place=$(find "$work/$kit" -name liblm_cuda.so -printf '%h\n')
cp "$work/lib/liblm_cuda.so" "$work/lib/liblm_cudnn.so" "$place/"
mkdir -p "$work/$kit/compute-sanitizer"
cp -r "$site"/nvidia/cuda_sanitizer_api/{bin,lib}/. "$work/$kit/compute-sanitizer/"
sanitizer=$work/$kit/compute-sanitizer/compute-sanitizer
chmod +x "$sanitizer"
"$sanitizer" --version | grep '^Version' || fail "compute-sanitizer does not start"
tar -C "$work" -czf "$build/$kit-cuda12.tar.gz" "$kit"

# ---- The plugins can be opened with the libraries of CUDA 12; without a GPU, lm-train reports that ----
LD_LIBRARY_PATH=$toolkit/lib64 python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]).lm_cudnn_attention' \
    "$place/liblm_cudnn.so" || fail "the cuDNN plugin for CUDA 12 cannot be opened"
code=0
LD_LIBRARY_PATH=$toolkit/lib64 "$work/$kit/bin/lm-train" --mock-data --vocab-size 64 --num-layers 1 --hidden-size 16 \
    --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --train-iters 1 \
    --device cuda >"$work/out" 2>&1 || code=$?
[ $code = 0 ] || grep -E "no NVIDIA driver|the driver finds no GPU|too old for CUDA 12" "$work/out" ||
    fail "the plugin for CUDA 12 does not start: $(cat "$work/out")"
echo "$(basename "$build/$kit-cuda12.tar.gz"): $(du -m "$build/$kit-cuda12.tar.gz" | cut -f1) MiB"
