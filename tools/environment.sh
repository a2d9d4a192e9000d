#!/bin/sh
# Make .venv, or bring it up to date, with this project installed for editing. Called by the Makefile.
#
#   tools/environment.sh run    what the command and the embedded models need
#   tools/environment.sh dev    that, and everything that tests and checks need
#
# Uses uv where it is on the PATH, else venv and pip. .venv/.ready-run and .venv/.ready-dev are written last: an
# interrupted installation leaves neither. .venv/.made-for names the folder, as a moved environment is a broken one.
set -eu
unset CDPATH
cd -- "$(dirname -- "$0")/.."
here=$(pwd -P)

case ${1-} in
    run) extras=embedded stamps=.venv/.ready-run ;;
    dev) extras=dev stamps='.venv/.ready-dev .venv/.ready-run' ;;
    *) echo "usage: tools/environment.sh run|dev" >&2 && exit 2 ;;
esac

fail() {
    printf 'hatevolution: %s\n' "$1" >&2
    exit 1
}

# Two makes started side by side take turns.
if command -v flock >/dev/null 2>&1; then
    exec 9<pyproject.toml
    flock 9
fi

if command -v uv >/dev/null 2>&1; then uv=yes; else uv=; fi
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

# Whether a command is a Python that can carry the environment. It has to be run to know: a version manager's
# placeholder is on the PATH without being a Python, and Debian packages venv and ensurepip apart.
usable() {
    "$1" -c "$new_enough" >/dev/null 2>&1 || return 1
    [ -n "$uv" ] || "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

choose_python() {
    for candidate in python3.13 python3.12 python3.11 python3; do
        if usable "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    if [ -n "$uv" ] && uv python find --system --no-python-downloads '>=3.11' 2>/dev/null; then
        return
    fi
    fail "no Python 3.11 or newer with venv and pip is on the PATH; install one (Debian, Ubuntu: apt install python3 python3-venv) or uv"
}

works() {
    [ -x .venv/bin/python ] && .venv/bin/python -c "$new_enough" >/dev/null 2>&1 || return 1
    [ -n "$uv" ] || .venv/bin/python -c 'import pip' >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null 2>&1
}

moved() {
    [ -e .venv/.made-for ] && [ "$(cat .venv/.made-for)" != "$here" ]
}

make_venv() {
    if [ -e .venv ] && [ ! -e .venv/pyvenv.cfg ] && ! rmdir .venv 2>/dev/null; then
        fail "$here/.venv is in the way and is not a Python environment; move it elsewhere"
    fi
    python=$(choose_python)
    rm -rf .venv
    echo "Making .venv with $("$python" --version 2>&1) ..."
    if [ -n "$uv" ]; then
        uv venv --quiet --no-project --python "$python" .venv
    else
        "$python" -m venv .venv
    fi
}

install() {
    quiet=--quiet
    [ ! -t 1 ] || quiet= # on a terminal, downloads show their progress
    echo "Installing hatevolution[$extras] into .venv; the first time takes a minute or two ..."
    if [ -n "$uv" ]; then
        uv pip install $quiet --python .venv/bin/python --editable ".[$extras]"
    else
        PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
            .venv/bin/python -m pip install $quiet --editable ".[$extras]"
    fi
}

if moved || ! works; then
    make_venv
fi
rm -f .venv/.ready-run .venv/.ready-dev
printf '%s\n' "$here" >.venv/.made-for
install || fail "the installation into .venv failed; what stands above says why, and the same command starts again"
touch $stamps
