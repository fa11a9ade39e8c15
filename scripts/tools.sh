# Sourced by the scripts beside it, from the repository's root.

say() { echo "==> $*" >&2; }
fail() {
    echo "error: $*" >&2
    exit 1
}

# The first Python that is new enough.
find_python() {
    for python in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        [ -n "$python" ] || continue
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    fail "Python 3.11 or later is needed; set PYTHON to one."
}

# uv from PATH, else from .tools, where pip puts it at its locked version.
find_uv() {
    if command -v uv; then
        return
    fi
    if [ ! -x .tools/bin/uv ]; then
        python=$(find_python)
        say "installing uv into .tools"
        "$python" -m venv .tools || fail "$python cannot make virtual environments (on Debian: apt-get install python3-venv)."
        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
            -r requirements/tools.lock >&2
    fi
    echo "$PWD/.tools/bin/uv"
}
