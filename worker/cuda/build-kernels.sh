#!/usr/bin/env bash
# Compiles the kernels for every GPU architecture listed below into DIRECTORY/kernels.fatbin. Then
# compares the assembler's report on each kernel with resources.txt, and fails on a difference.
# Needs Python 3 with venv: the compiler comes as Python packages. The option --compiler, ahead of
# the directory, installs the compiler and stops.
set -euo pipefail

only_compiler=
if [ "${1:-}" = --compiler ]; then
    only_compiler=true
    shift
fi
out=${1:?"usage: build-kernels.sh [--compiler] DIRECTORY (for the compiler and its output)"}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Pip is the last file that venv writes. If pip is missing, an interrupted call left an incomplete
# environment, which is made anew.
if [ ! -x "$out/venv/bin/pip" ]; then
    python3 -m venv --clear "$out/venv"
fi
"$out/venv/bin/pip" install --quiet --disable-pip-version-check nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 \
    nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cuda-cuobjdump==13.4.92 \
    nvidia-cuda-nvdisasm==13.4.92
if [ -n "$only_compiler" ]; then
    exit
fi
PATH=$(echo "$out"/venv/lib/python3*/site-packages/nvidia/cu13/bin):$PATH

# One file serves all GPUs: machine code for the listed architectures, and PTX for later ones.
targets=()
for arch in 80 90 100; do
    targets+=(-gencode "arch=compute_$arch,code=sm_$arch")
done
nvcc -std=c++17 --expt-relaxed-constexpr -O3 -fatbin "${targets[@]}" -gencode arch=compute_90,code=compute_90 \
    -Xptxas -v -o "$out/kernels.fatbin" "$here/kernels/kernels.cu" >"$out/nvcc.log" 2>&1 || { cat "$out/nvcc.log" >&2; exit 1; }

# Each kernel has a line. From the assembler: architecture, name, bytes spilled, registers, bytes of
# static shared memory. From the machine code: the number of instructions, of instructions on
# doubles, and of instructions on shared memory.
cuobjdump --dump-sass "$out/kernels.fatbin" >"$out/kernels.sass"
awk -F"[ ',]+" '
    /Compiling entry function/ {
        for (i = 1; i <= NF; i++) { if ($i == "function") name = $(i + 1); if ($i == "for") arch = $(i + 1) }
    }
    /spill stores/ { spilled = $0; gsub(/.*frame, | bytes spill stores.*/, "", spilled) }
    /Used [0-9]+ registers/ {
        shared = 0
        for (i = 1; i <= NF; i++) { if ($i == "Used") registers = $(i + 1); if ($i == "smem") shared = $(i - 2) }
        print "assembler", arch, name, spilled, registers, shared
    }' "$out/nvcc.log" >"$out/lines.txt"
awk '
    /code for sm_/ { arch = $3 }
    /Function :/ { name = $3 }
    /^[ \t]*\/\*[0-9a-f]+\*\/ / && name {
        operation = $2 ~ /^@/ ? $3 : $2
        sub(/[;.].*/, "", operation)
        all[arch " " name]++
        if (operation ~ /^(DFMA|DADD|DMUL)$/) doubles[arch " " name]++
        if (operation ~ /^(LDS|STS)$/) shared[arch " " name]++
    }
    END { for (kernel in all) print "code", kernel, all[kernel], doubles[kernel] + 0, shared[kernel] + 0 }
    ' "$out/kernels.sass" >>"$out/lines.txt"
awk '
    { kernel = $2 " " $3; found[kernel] = 1; said[$1, kernel] = $4 " " $5 " " $6 }
    END { for (kernel in found) print kernel, said["assembler", kernel], said["code", kernel] }
    ' "$out/lines.txt" | sort >"$out/resources.txt"

if ! diff -u "$here/resources.txt" "$out/resources.txt"; then
    echo "The kernels' resources differ from worker/cuda/resources.txt (architecture, kernel, bytes spilled," >&2
    echo "registers, bytes of shared memory, instructions: all, on doubles, on shared memory). If that is" >&2
    echo "meant and nothing spills, copy $out/resources.txt over it." >&2
    exit 1
fi
if awk '$3 > 0 { print; spills = 1 } END { exit !spills }' "$out/resources.txt"; then
    echo "The kernels above spill registers to memory. No kernel may spill: reduce the values that it holds." >&2
    exit 1
fi
